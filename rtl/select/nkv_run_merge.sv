// Merges two streams of sorted runs: run i of the output is run i of A and run i of B together, the
// best candidate first (nkv_select_pkg::ranks_before). A run ends with last. A pad stands where
// there is no candidate any more: a run of A has pads only where B's has nothing else. Pads come
// out last. One item per cycle; the first comes out 3 cycles after both runs began. Each input has
// a queue of 8 and a head behind it; taken_*_o tells that a place of the queue became free.

module nkv_run_merge
  import nkv_select_pkg::*;
(
  input  logic   clk_i,
  input  logic   rst_ni,
  input  logic   clear_i,      // Drops all that is held; what comes in this cycle is lost too.

  input  logic   a_valid_i,
  output logic   a_ready_o,
  input  logic   a_pad_i,
  input  logic   a_last_i,
  input  score_t a_score_i,
  input  token_t a_token_i,
  output logic   a_taken_o,

  input  logic   b_valid_i,
  output logic   b_ready_o,
  input  logic   b_pad_i,
  input  logic   b_last_i,
  input  score_t b_score_i,
  input  token_t b_token_i,
  output logic   b_taken_o,

  output logic   out_valid_o,
  input  logic   out_ready_i,
  output logic   out_pad_o,
  output logic   out_last_o,
  output score_t out_score_o,
  output token_t out_token_o
);

  logic a_valid, a_pad, a_last, a_pop;
  score_t a_score;
  token_t a_token;
  logic b_valid, b_pad, b_last, b_pop;
  score_t b_score;
  token_t b_token;

  nkv_run_queue u_a (
    .clk_i, .rst_ni, .clear_i,
    .in_valid_i(a_valid_i), .in_ready_o(a_ready_o), .in_pad_i(a_pad_i), .in_last_i(a_last_i),
    .in_score_i(a_score_i), .in_token_i(a_token_i), .taken_o(a_taken_o),
    .out_valid_o(a_valid), .out_pop_i(a_pop), .out_pad_o(a_pad), .out_last_o(a_last),
    .out_score_o(a_score), .out_token_o(a_token)
  );

  nkv_run_queue u_b (
    .clk_i, .rst_ni, .clear_i,
    .in_valid_i(b_valid_i), .in_ready_o(b_ready_o), .in_pad_i(b_pad_i), .in_last_i(b_last_i),
    .in_score_i(b_score_i), .in_token_i(b_token_i), .taken_o(b_taken_o),
    .out_valid_o(b_valid), .out_pop_i(b_pop), .out_pad_o(b_pad), .out_last_o(b_last),
    .out_score_o(b_score), .out_token_o(b_token)
  );

  logic a_over_q, b_over_q;  // One side's part of the run is through, the other's is not.
  logic out_valid_q;

  // Both heads must be known, unless one side is through.
  wire moves = (a_valid || a_over_q) && (b_valid || b_over_q) && (out_ready_i || !out_valid_q);
  wire a_wins = b_pad || ranks_before(a_score, a_token, b_score, b_token);
  wire takes_a = b_over_q || (!a_over_q && a_wins);
  assign a_pop = moves && takes_a;
  assign b_pop = moves && !takes_a;

  wire a_over = a_over_q || (takes_a && a_last);
  wire b_over = b_over_q || (!takes_a && b_last);

  assign out_valid_o = out_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      a_over_q <= 1'b0;
      b_over_q <= 1'b0;
      out_valid_q <= 1'b0;
    end else if (clear_i) begin
      a_over_q <= 1'b0;
      b_over_q <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      if (moves) begin
        a_over_q <= a_over && !b_over;
        b_over_q <= b_over && !a_over;
      end
      if (moves || out_ready_i) out_valid_q <= moves;
    end
  end

  always_ff @(posedge clk_i) begin
    if (moves) begin
      out_pad_o <= takes_a ? a_pad : b_pad;
      out_last_o <= a_over && b_over;
      out_score_o <= takes_a ? a_score : b_score;
      out_token_o <= takes_a ? a_token : b_token;
    end
  end

endmodule
