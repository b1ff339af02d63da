// The body of a page of codec INT8, INT4 or FP8 to plain rows. What its payload says of itself must be what
// its header says, or the page fails; all its bursts are taken either way.

module nkv_cold_open
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_quant_pkg::*;
  import nkv_transcode_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,
  input  logic         codec_rst_ni,  // Of the decoder, which has no other way to be cleared.

  input  logic         start_i,       // A page,
  input  page_header_t header_i,      // held until done_o.
  output logic         done_o,        // All rows have been written, or it failed; so until the next start.
  output logic         failed_o,      // With done_o.

  input  logic         beat_valid_i,  // All bursts of its payload.
  output logic         beat_ready_o,
  input  read_beat_t   beat_i,

  output plain_write_t write_o
);

  typedef enum logic [2:0] {
    StIdle,
    StPayload,  // What it says of itself.
    StBegin,    // A block to the decoder,
    StBlock,    // and its bursts.
    StScales,
    StRows,     // Until all rows have come out.
    StDrop      // What is left of a page that failed.
  } state_e;

  state_e        state_q;
  logic          values_q;              // Which block comes in,
  logic          writes_values_q;       // and whose rows come out.
  tensor_index_t index_q;
  logic [ScaleBits-1:0] scale_q;
  logic [31:0]   left_q;                // Bursts of the block.
  logic [1:0]    due_q;                 // Blocks that the decoder has not ended.
  logic          failed_q;

  wire codec_e codec = header_i.codec;
  wire has_values = header_i.v_form != RowFormNone;
  wire cold_sizes_t sizes = cold_sizes(codec, header_i);
  wire cold_payload_t payload = cold_payload_t'(beat_i.data[$bits(cold_payload_t)-1:0]);
  wire is_right = header_i.dtype == DtypeBf16 && header_i.payload_bytes == sizes.payload_bytes &&
      payload.k_bytes == 32'(sizes.k_bytes) && payload.v_bytes == 32'(sizes.v_bytes) &&
      payload.reserved == '0;
  wire bytes_t block_bytes = values_q ? sizes.v_bytes : sizes.k_bytes;

  logic start_ready, in_ready, row_valid, row_last, block_done, block_failed;
  burst_t row;
  wire begins = state_q == StBegin && start_ready;
  wire takes = beat_valid_i && beat_ready_o;
  wire block_ends = takes && state_q == StBlock && left_q == 32'd1;

  nkv_quant_decode u_decode (
    .clk_i,
    .rst_ni       (codec_rst_ni),
    .start_valid_i(state_q == StBegin),
    .start_ready_o(start_ready),
    .codec_i      (codec),
    .tensor_i     (values_q ? TensorValues : TensorKeys),
    .dim_i        (values_q ? header_i.value_dim : header_i.head_dim),
    .in_bytes_i   (block_bytes),
    .in_valid_i   (beat_valid_i && state_q == StBlock),
    .in_ready_o   (in_ready),
    .in_data_i    (beat_i.data),
    .out_valid_o  (row_valid),
    .out_ready_i  (1'b1),
    .out_data_o   (row),
    .out_last_o   (row_last),
    .done_o       (block_done),
    .error_o      (block_failed)
  );

  wire takes_scales = takes && state_q == StScales;
  always_comb begin
    unique case (state_q)
      StPayload, StDrop: beat_ready_o = 1'b1;
      StBlock: beat_ready_o = in_ready;
      StScales: beat_ready_o = !row_valid;
      default: beat_ready_o = 1'b0;
    endcase
    write_o = '{
        valid: row_valid,
        scales: 1'b0,
        index: {writes_values_q, index_q},
        halves: '1,
        data: row
    };
    if (takes_scales) begin
      write_o.valid = 1'b1;
      write_o.scales = 1'b1;
      write_o.index = plain_index_t'(scale_q);
      write_o.data = beat_i.data;
    end
  end

  assign done_o = state_q == StIdle;
  assign failed_o = failed_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, values_q, writes_values_q, index_q, scale_q, left_q, due_q, failed_q} <= '0;
    end else if (clear_i || start_i) begin
      state_q <= start_i && !clear_i ? StPayload : StIdle;
      {values_q, writes_values_q, index_q, scale_q, due_q, failed_q} <= '0;
    end else begin
      due_q <= due_q + 2'(begins) - 2'(block_done);
      if (block_done && block_failed) failed_q <= 1'b1;
      if (row_valid) begin
        index_q <= row_last ? '0 : index_q + 1'b1;
        if (row_last) writes_values_q <= 1'b1;
      end
      if (takes_scales) scale_q <= scale_q + 1'b1;
      unique case (state_q)
        StIdle: ;
        StPayload: begin
          if (takes) begin
            state_q <= is_right ? StBegin : beat_i.last ? StIdle : StDrop;
            failed_q <= !is_right;
          end
        end
        StBegin: begin
          left_q <= 32'(bursts_of(32'(block_bytes)));
          if (begins) state_q <= StBlock;
        end
        StBlock: begin
          if (takes) left_q <= left_q - 32'd1;
          if (block_ends) begin
            values_q <= 1'b1;
            if (has_values && !values_q) state_q <= StBegin;
            else state_q <= header_i.flags[PageFlagKeyScales] ? StScales : StRows;
          end
        end
        StScales: if (takes && beat_i.last) state_q <= StRows;
        StRows: if (due_q == '0) state_q <= StIdle;
        default: if (takes && beat_i.last) state_q <= StIdle;
      endcase
    end
  end

  wire unused = ^{header_i, beat_i};

endmodule
