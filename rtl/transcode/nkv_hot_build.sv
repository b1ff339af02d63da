// A plain page to one of codec NONE, by the page builder of APPEND, whose guest this is: it is asked for the
// rows as memory would be. Row forms are those of the source; where they do not hold the rows, RAW.

`include "nkv_assert.svh"

module nkv_hot_build
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::*;
  import nkv_transcode_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic [31:0]    slot_bytes_i,
  input  logic           start_i,       // A page,
  input  moving_page_t   page_i,        // held until done_o.
  output logic           done_o,        // For one cycle.
  output status_e        status_o,
  output logic [31:0]    total_bytes_o,

  output guest_page_t    guest_o,
  input  guest_report_t  guest_i,

  output logic           run_valid_o,
  input  logic           run_ready_i,
  output plain_index_t   run_first_o,
  output plain_index_t   run_bursts_o,
  input  logic           burst_valid_i,
  output logic           burst_ready_o,
  input  logic           burst_last_i,
  input  burst_t         burst_i,
  output logic [ScaleBits-1:0] scale_index_o,
  input  burst_t         scales_i       // A cycle later.
);

  localparam int unsigned ScalesOfBurst = BurstBits / 32;
  localparam int unsigned BuilderLatency = 16;  // Of numbers that are under way in it, at the most.

  typedef enum logic [2:0] {
    StIdle,
    StLoad,
    StFits,
    StStart,
    StBuild,
    StDrain    // DELTA4 does not hold the rows: until none is on its way to or in the builder.
  } state_e;

  state_e state_q;
  logic   raw_q;
  token_t scale_q;
  logic   scales_q, scale_valid_q;
  logic [$clog2(BuilderLatency)-1:0] drained_q;
  token_t scale_row_q;

  wire page_header_t header = page_i.header;
  wire has_values = header.v_form != RowFormNone;
  wire has_scales = header.flags[PageFlagKeyScales];
  wire overflows = state_q == StFits && guest_i.total_bytes > slot_bytes_i;
  wire builds = state_q inside {StBuild, StDrain};

  append_command_t command;
  always_comb begin
    command = '0;
    command.opcode = OpcodeAppend;
    command.flags[AppendFlagKeyScales] = has_scales;
    command.head_dim = header.head_dim;
    command.value_dim = header.value_dim;
    command.tokens = 32'(PageTokens);
    command.first_token = header.first_token;
    command.values = 64'(TensorBursts * BurstBytes);
    command.sequence_id = header.sequence_id;
    command.layer = header.layer;
    command.kv_head = header.kv_head;
    command.key_stride = source_row_bytes(header.dtype, header.head_dim, 1'b0);
    command.value_stride = source_row_bytes(header.dtype, header.value_dim, 1'b0);
    command.dtype = header.dtype;
    command.k_form = raw_q ? RowFormRaw : header.k_form;
    command.v_form = raw_q && has_values ? RowFormRaw : header.v_form;
  end

  read_beat_t beat;
  always_comb begin
    beat = '0;
    beat.last = burst_last_i;
    beat.data = burst_i;
  end

  assign guest_o = '{
      active: state_q != StIdle,
      command: command,
      tenant: header.tenant,
      address: 64'(page_i.page) * 64'(PageGrainBytes),
      generation: page_i.generation,
      load: state_q == StLoad,
      start: state_q == StStart,
      drain: state_q == StDrain,
      request_ready: run_ready_i,
      beat_valid: builds && burst_valid_i,
      beat: beat,
      scale_valid: scale_valid_q,
      scale_row: scale_row_q,
      scale: scales_i[32*32'(scale_row_q[$clog2(ScalesOfBurst)-1:0])+:32]
  };

  assign run_valid_o = builds && guest_i.request_valid;
  assign run_first_o = plain_index_t'(guest_i.request.address >> $clog2(BurstBytes));
  assign run_bursts_o = plain_index_t'(guest_i.request.bursts);
  assign burst_ready_o = builds && guest_i.beat_ready;
  assign scale_index_o = scale_q[$clog2(ScalesOfBurst)+:ScaleBits];

  assign done_o = overflows || (state_q == StBuild && guest_i.done);
  assign status_o = overflows ? StatusPageOverflow : StatusOk;
  assign total_bytes_o = guest_i.total_bytes;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, raw_q, scale_q, scales_q, scale_valid_q, scale_row_q, drained_q} <= '0;
    end else if (clear_i) begin
      {state_q, scales_q, scale_valid_q, drained_q} <= '0;
    end else begin
      scale_valid_q <= scales_q;
      scale_row_q <= scale_q;
      if (scales_q) scale_q <= scale_q + 1'b1;
      if (scale_q == '1) scales_q <= 1'b0;
      unique case (state_q)
        StIdle: begin
          raw_q <= 1'b0;
          if (start_i) state_q <= StLoad;
        end
        StLoad: state_q <= StFits;
        StFits: state_q <= overflows ? StIdle : StStart;
        StStart: begin
          scales_q <= has_scales;
          state_q <= StBuild;
        end
        StBuild: begin
          if (guest_i.done) state_q <= StIdle;
          if (guest_i.overflow) begin
            raw_q <= 1'b1;
            state_q <= StDrain;
          end
        end
        default: begin
          scales_q <= 1'b0;
          scale_q <= '0;
          drained_q <= guest_i.rows_idle ? drained_q + 1'b1 : '0;
          if (drained_q == '1) begin
            drained_q <= '0;
            state_q <= StLoad;
          end
        end
      endcase
    end
  end

  wire unused = ^{page_i, guest_i, header};

  // What a page was to be fed is taken back when its rows do not hold.
  `NKV_ASSERT_STAYS(RunStays_A, run_valid_o, run_ready_i, {run_first_o, run_bursts_o},
      clear_i || guest_i.overflow || state_q == StDrain)

endmodule
