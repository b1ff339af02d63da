// Carries out the sequences of a block: literals, then the match behind them, up to 16 bytes of
// either per cycle, through nkv_lz_history. Each is checked before it is carried out: against the
// block's literals, against the plain bytes that are left, and for matches that reach behind the
// frame's beginning. failed_o stands from the first that fails, and nothing after it is done.
//
// start_i begins a frame of plain_i bytes; begin_i a block with literals_i of them literals. A
// sequence without a match ends the block: it stands for all literals that are left. block_done_o
// stands for one cycle when it has been carried out.

`include "nkv_assert.svh"

module nkv_zstd_execute
  import nkv_lz_pkg::*;
  import nkv_zstd_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         start_i,
  input  size_t        plain_i,
  input  logic         begin_i,
  input  size_t        literals_i,
  input  logic         cancel_i,

  input  logic         valid_i,
  input  sequence_t    sequence_i,
  input  logic         is_end_i,           // Whatever the sequence is.
  output logic         ready_o,            // Room for four.

  input  logic [7:0]   bytes_i[16],        // The next literals,
  input  logic [4:0]   count_i,            // as far as they are there.
  output logic [4:0]   take_o,

  output logic         block_done_o,
  output logic         failed_o,
  output size_t        plain_left_o,       // When the block is done.
  output logic         busy_o,

  input  logic         flush_i,
  output logic         out_valid_o,
  input  logic         out_ready_i,
  output logic [511:0] out_data_o
);

  typedef logic signed [19:0] room_t;
  typedef struct packed {
    logic        is_end;
    logic [15:0] offset;
    size_t       match_bytes;
    size_t       literals;
  } step_t;

  // ---- Checks: sums, then comparisons ----------------------------------------------------------
  room_t literals_left_q, plain_left_q;
  size_t reached_q;                        // Plain bytes of all sequences so far.
  logic sum_valid_q, check_valid_q, failed_q;
  step_t sum_q, check_q;
  logic [16:0] sum_offset_q, check_offset_q;
  room_t total_q;
  size_t source_room_q;                    // Plain bytes before the match.
  assign plain_left_o = size_t'(plain_left_q);

  wire size_t literals = is_end_i ? size_t'(literals_left_q) : sequence_i.literals;
  wire size_t match_bytes = is_end_i ? '0 : sequence_i.match_bytes;

  wire is_wrong = check_valid_q &&
                  (literals_left_q < 0 || plain_left_q < 0 ||
                   (!check_q.is_end && {1'b0, check_offset_q} > source_room_q));
  assign failed_o = failed_q || is_wrong;

  always_ff @(posedge clk_i) begin
    sum_q <= '{is_end_i, sequence_i.offset[15:0], match_bytes, literals};
    sum_offset_q <= sequence_i.offset;
    total_q <= room_t'(literals) + room_t'(match_bytes);
    check_q <= sum_q;
    check_offset_q <= sum_offset_q;
    source_room_q <= reached_q + sum_q.literals;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      literals_left_q <= '0;
      plain_left_q <= '0;
      reached_q <= '0;
      sum_valid_q <= 1'b0;
      check_valid_q <= 1'b0;
      failed_q <= 1'b0;
    end else if (start_i) begin
      plain_left_q <= room_t'(plain_i);
      reached_q <= '0;
      sum_valid_q <= 1'b0;
      check_valid_q <= 1'b0;
      failed_q <= 1'b0;
    end else begin
      sum_valid_q <= valid_i && !cancel_i;
      check_valid_q <= sum_valid_q && !cancel_i;
      if (is_wrong) failed_q <= 1'b1;
      if (begin_i) literals_left_q <= room_t'(literals_i);
      if (sum_valid_q) begin
        literals_left_q <= literals_left_q - room_t'(sum_q.literals);
        plain_left_q <= plain_left_q - total_q;
        reached_q <= reached_q + size_t'(total_q);
      end
    end
  end

  // ---- Steps that are good ---------------------------------------------------------------------
  step_t next;
  logic next_valid, next_ready, steps_ready;
  logic [3:0] used;
  wire stops = start_i || cancel_i;
  nkv_fifo #(.T(step_t), .Depth(8)) u_steps (
    .clk_i, .rst_ni, .clear_i(stops),
    .in_valid_i(check_valid_q && !failed_o), .in_ready_o(steps_ready), .in_data_i(check_q),
    .out_valid_o(next_valid), .out_ready_i(next_ready), .out_data_o(next), .used_o(used)
  );
  assign ready_o = used <= 4'd3;

  // ---- The step in hand ------------------------------------------------------------------------
  logic valid_q, is_end_q, has_literals_q, has_match_q;
  size_t literals_q, match_q;              // Left of it.
  logic [15:0] offset_q;
  logic [4:0] stride_q;

  logic stall;
  wire [4:0] wanted = literals_q < 18'd16 ? literals_q[4:0] : 5'd16;
  wire [4:0] given = count_i < wanted ? count_i : wanted;
  wire [4:0] copied = match_q < 18'(stride_q) ? match_q[4:0] : stride_q;
  wire is_match = !has_literals_q;
  wire chunk_valid = valid_q && (has_literals_q ? given != '0 : has_match_q);
  wire [4:0] chunk = is_match ? copied : given;
  wire appends = chunk_valid && !stall;
  assign take_o = appends && !is_match ? given : '0;

  wire ends_literals = has_literals_q && literals_q == size_t'(given);
  wire ends_match = is_match && match_q == size_t'(copied);
  wire is_over = !has_match_q ? ends_literals : ends_match;
  wire is_empty = valid_q && !has_literals_q && !has_match_q;
  wire is_done = (appends && is_over) || is_empty;
  assign next_ready = !valid_q || is_done;
  assign block_done_o = is_done && is_end_q;

  always_ff @(posedge clk_i) begin
    if (next_ready) begin
      is_end_q <= next.is_end;
      literals_q <= next.literals;
      match_q <= next.match_bytes;
      offset_q <= next.offset;
      stride_q <= stride_of(next.offset);
      has_literals_q <= next.literals != '0;
      has_match_q <= next.match_bytes != '0;
    end else if (appends) begin
      if (is_match) match_q <= match_q - size_t'(chunk);
      else literals_q <= literals_q - size_t'(chunk);
      if (ends_literals) has_literals_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= 1'b0;
    else if (stops) valid_q <= 1'b0;
    else if (next_ready) valid_q <= next_valid;
  end

  logic history_busy;
  assign busy_o = history_busy;
  nkv_lz_history u_history (
    .clk_i, .rst_ni,
    .begin_i(start_i), .cancel_i(1'b0),
    .chunk_valid_i(appends), .stall_o(stall),
    .chunk_count_i(chunk), .chunk_is_match_i(is_match),
    .chunk_bytes_i(bytes_i), .chunk_offset_i(offset_q),
    .busy_o(history_busy),
    .flush_i,
    .out_valid_o, .out_ready_i, .out_data_o
  );

  `NKV_ASSERT_ROOM(StepsHaveRoom_A, check_valid_q && !failed_o, steps_ready)

endmodule
