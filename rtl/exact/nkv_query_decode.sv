// Query rows to integers: ARITHMETIC.md section 1.1. Takes the bursts of `group` rows that follow
// one another in memory, from a burst boundary, then broadcasts all Rows x RowWords words of q,
// rows ascending, one every two cycles. Rows from `group` on, and channels from head_dim on, are
// zero, and the exponents of such rows.
//
// Rows are whole numbers of chunks of 16 elements, so no chunk belongs to two rows; a chunk is
// taken per cycle. done_o is high for one cycle, when the last word has been sent, or when all
// bursts have been taken and a row holds a NaN or an infinity: then nothing is sent, and bad_row_o
// is the first such row.

module nkv_query_decode
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,       // Forgets its rows; no start within the next 8 cycles.

  input  logic        start_i,       // While idle. What follows is held until done_o.
  input  dtype_e      dtype_i,
  input  group_t      group_i,       // 1 to Rows.
  input  dim_t        head_dim_i,

  input  logic        burst_valid_i,
  output logic        burst_ready_o,
  input  burst_t      burst_i,

  output logic        done_o,
  output logic        bad_o,         // With done_o and until the next start.
  output row_index_t  bad_row_o,
  output exponent_t   exponent_o[Rows],  // Eq; from the first word sent until the next start.

  output logic        query_valid_o,
  output row_index_t  query_row_o,
  output word_index_t query_word_o,
  output query_t      query_o[ExactLanes]
);

  localparam int unsigned Lanes = ChunkChannels;
  localparam int unsigned DecodeLatency = 4;
  localparam int unsigned ShiftLatency = 5;  // From the buffer to query_o.
  localparam int unsigned PlaceBits = RowIndexBits + ChunkBits;

  typedef logic [ChunkBits-1:0] chunk_t;
  typedef struct packed {
    row_index_t row;
    chunk_t     chunk;
  } place_t;
  typedef enum logic [1:0] {
    Idle,
    Take,   // Chunks go to the decoder.
    Drain,  // The last ones are still in it.
    Send
  } state_e;

  state_e state_q;

  // ---- Bursts to chunks -------------------------------------------------------------------------
  logic burst_held_q;
  burst_t burst_q;      // The next chunk in the low bits.
  logic [1:0] left_q;   // Chunks in it, less one.
  place_t take_q;       // Place of the next chunk.
  // From start_i on.
  logic [1:0] burst_chunks_q;  // Less one.
  chunk_t last_chunk_q;        // Of a row.
  row_index_t last_row_q;
  logic row_ends, rows_end;
  logic [31:0] element[Lanes];

  assign row_ends = take_q.chunk == last_chunk_q;
  assign rows_end = row_ends && take_q.row == last_row_q;
  assign burst_ready_o = state_q == Take && (!burst_held_q || (left_q == '0 && !rows_end));

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      last_chunk_q <= chunk_t'((head_dim_i >> $clog2(ChunkChannels)) - 1'b1);
      last_row_q <= row_index_t'(group_i - 1'b1);
      unique case (dtype_i)
        DtypeFp32: burst_chunks_q <= 2'd0;
        DtypeBf16, DtypeFp16: burst_chunks_q <= 2'd1;
        default: burst_chunks_q <= 2'd3;
      endcase
    end
  end

  always_comb begin
    for (int unsigned i = 0; i < Lanes; i++) begin
      unique case (burst_chunks_q)
        2'd0: element[i] = burst_q[32*i+:32];
        2'd1: element[i] = 32'(burst_q[16*i+:16]);
        default: element[i] = 32'(burst_q[8*i+:8]);
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (burst_ready_o && burst_valid_i) begin
      burst_q <= burst_i;
      left_q <= burst_chunks_q;
    end else if (burst_held_q) begin
      burst_q <= burst_chunks_q == 2'd1 ? burst_q >> 256 : burst_q >> 128;
      left_q <= left_q - 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      burst_held_q <= 1'b0;
      take_q <= '0;
    end else if (state_q == Idle) begin
      burst_held_q <= 1'b0;
      take_q <= '0;
    end else begin
      if (burst_ready_o) burst_held_q <= burst_valid_i;
      else if (burst_held_q && rows_end) burst_held_q <= 1'b0;
      if (burst_held_q) begin
        take_q.chunk <= row_ends ? '0 : take_q.chunk + 1'b1;
        if (row_ends) take_q.row <= take_q.row + 1'b1;
      end
    end
  end

  // ---- Chunks to Numbers, buffered; the largest exponent of each row ----------------------------
  logic number_valid;
  logic [Lanes-1:0] negative, finite;
  exponent_t exponent[Lanes];
  significand_t significand[Lanes];
  place_t decode_place_q[DecodeLatency];
  place_t number_place;

  nkv_number_decode #(
    .Lanes(Lanes)
  ) u_decode (
    .clk_i,
    .rst_ni,
    .valid_i      (burst_held_q),
    .dtype_i,
    .element_i    (element),
    .valid_o      (number_valid),
    .negative_o   (negative),
    .finite_o     (finite),
    .exponent_o   (exponent),
    .significand_o(significand)
  );

  assign number_place = decode_place_q[DecodeLatency-1];

  // Largest of pairs of lanes, of fours, of eights, of the chunk; then of the row so far.
  localparam int unsigned TreeLatency = 4;
  logic [TreeLatency-1:0] tree_valid_q;
  place_t tree_place_q[TreeLatency];
  exponent_t pair_q[Lanes/2];
  exponent_t four_q[Lanes/4];
  exponent_t eight_q[Lanes/8];
  exponent_t chunk_top_q;
  exponent_t running_q, running;  // Largest of the row so far.
  exponent_t top_q[Rows];
  logic bad_q;
  row_index_t bad_row_q;

  function automatic exponent_t larger(exponent_t a, exponent_t b);
    return a > b ? a : b;
  endfunction

  always_ff @(posedge clk_i) begin
    decode_place_q[0] <= take_q;
    for (int unsigned i = 1; i < DecodeLatency; i++) decode_place_q[i] <= decode_place_q[i-1];
    tree_place_q[0] <= number_place;
    for (int unsigned i = 1; i < TreeLatency; i++) tree_place_q[i] <= tree_place_q[i-1];
    if (number_valid) begin
      for (int unsigned i = 0; i < Lanes / 2; i++) begin
        pair_q[i] <= larger(exponent[2*i], exponent[2*i+1]);
      end
    end
    if (tree_valid_q[0]) begin
      for (int unsigned i = 0; i < Lanes / 4; i++) begin
        four_q[i] <= larger(pair_q[2*i], pair_q[2*i+1]);
      end
    end
    if (tree_valid_q[1]) begin
      for (int unsigned i = 0; i < Lanes / 8; i++) begin
        eight_q[i] <= larger(four_q[2*i], four_q[2*i+1]);
      end
    end
    if (tree_valid_q[2]) chunk_top_q <= larger(eight_q[0], eight_q[1]);
    if (start_i) begin
      for (int unsigned i = 0; i < Rows; i++) top_q[i] <= '0;
    end else if (tree_valid_q[TreeLatency-1]) begin
      running_q <= running;
      top_q[tree_place_q[TreeLatency-1].row] <= running;
    end
  end

  assign running = tree_place_q[TreeLatency-1].chunk == '0 ? chunk_top_q
                                                          : larger(chunk_top_q, running_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      tree_valid_q <= '0;
      bad_q <= 1'b0;
      bad_row_q <= '0;
    end else begin
      tree_valid_q <= {tree_valid_q[TreeLatency-2:0], number_valid};
      if (start_i) begin
        bad_q <= 1'b0;
      end else if (number_valid && finite != '1 && !bad_q) begin
        bad_q <= 1'b1;
        bad_row_q <= number_place.row;
      end
    end
  end

  // ---- Numbers to integers ----------------------------------------------------------------------
  place_t send_q;
  logic sending;
  number_t read_q[Lanes];
  exponent_t read_top_q;
  place_t stage_place_q[ShiftLatency];
  logic [ShiftLatency-1:0] stage_valid_q;
  logic read_hidden_q;
  query_t aligned[Lanes];
  query_t low_q[Lanes];  // The first chunk of a word.

  assign sending = state_q == Send;

  for (genvar i = 0; i < Lanes; i++) begin : gen_buffer
    (* ram_style = "distributed" *) number_t cells[1<<PlaceBits];
    always_ff @(posedge clk_i) begin
      if (number_valid) cells[number_place] <= {negative[i], exponent[i], significand[i]};
      if (sending) read_q[i] <= cells[send_q];
    end
  end

  nkv_query_align u_align (
    .clk_i,
    .rst_ni,
    .valid_i (stage_valid_q[0]),
    .hidden_i(read_hidden_q),
    .top_i   (read_top_q),
    .number_i(read_q),
    .query_o (aligned)
  );

  always_ff @(posedge clk_i) begin
    if (sending) begin
      stage_place_q[0] <= send_q;
      read_top_q <= top_q[send_q.row];
      read_hidden_q <= send_q.row > last_row_q || send_q.chunk > last_chunk_q;
    end
    for (int unsigned i = 1; i < ShiftLatency; i++) begin
      if (stage_valid_q[i-1]) stage_place_q[i] <= stage_place_q[i-1];
    end
    if (stage_valid_q[4] && !stage_place_q[4].chunk[0]) low_q <= aligned;
  end

  always_comb begin
    for (int unsigned i = 0; i < Lanes; i++) begin
      query_o[i] = low_q[i];
      query_o[Lanes+i] = aligned[i];
    end
  end

  assign query_valid_o = stage_valid_q[4] && stage_place_q[4].chunk[0];
  assign query_row_o = stage_place_q[4].row;
  assign query_word_o = stage_place_q[4].chunk[ChunkBits-1:1];
  assign exponent_o = top_q;

  // ---- Order ------------------------------------------------------------------------------------
  logic [DecodeLatency-1:0] decode_busy_q;  // A chunk entered the decoder within as many cycles.
  logic decoder_empty, last_sent;

  assign decoder_empty = !decode_busy_q[DecodeLatency-1] && !number_valid &&
                         tree_valid_q == '0;
  assign last_sent = query_valid_o && stage_place_q[4] == '1;
  assign done_o = last_sent || (state_q == Drain && decoder_empty && bad_q);
  assign bad_o = bad_q;
  assign bad_row_o = bad_row_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      send_q <= '0;
      stage_valid_q <= '0;
      decode_busy_q <= '0;
    end else if (clear_i) begin
      state_q <= Idle;
      stage_valid_q <= '0;
      decode_busy_q <= '0;
    end else begin
      stage_valid_q <= {stage_valid_q[ShiftLatency-2:0], sending};
      decode_busy_q <= burst_held_q ? '1 : decode_busy_q << 1;
      unique case (state_q)
        Idle: begin
          send_q <= '0;
          if (start_i) state_q <= Take;
        end
        Take: if (burst_held_q && rows_end) state_q <= Drain;
        Drain: if (decoder_empty) state_q <= bad_q ? Idle : Send;
        Send: begin
          send_q <= send_q + 1'b1;
          if (send_q == '1) state_q <= Idle;
        end
      endcase
    end
  end

endmodule
