// Announced pages on their way to the scorer, to the logits and to the values, each in order and at its
// own pace.

`include "nkv_assert.svh"

module nkv_attend_pages
  import nkv_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       clear_i,

  input  logic       body_valid_i,
  output logic       body_ready_o,
  input  page_body_t body_i,

  output logic       to_scores_valid_o,
  input  logic       to_scores_ready_i,
  output page_body_t to_scores_o,
  output logic       to_logits_valid_o,
  input  logic       to_logits_ready_i,
  output page_body_t to_logits_o,
  output logic       to_values_valid_o,
  input  logic       to_values_ready_i,
  output page_body_t to_values_o
);

  logic [2:0] ready;
  logic [$clog2(PagesAhead):0] unused_used[3];
  wire taken = body_valid_i && body_ready_o;
  assign body_ready_o = &ready;

  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_to_scores (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (taken),
    .in_ready_o (ready[0]),
    .in_data_i  (body_i),
    .out_valid_o(to_scores_valid_o),
    .out_ready_i(to_scores_ready_i),
    .out_data_o (to_scores_o),
    .used_o     (unused_used[0])
  );
  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_to_logits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (taken),
    .in_ready_o (ready[1]),
    .in_data_i  (body_i),
    .out_valid_o(to_logits_valid_o),
    .out_ready_i(to_logits_ready_i),
    .out_data_o (to_logits_o),
    .used_o     (unused_used[1])
  );
  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_to_values (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (taken),
    .in_ready_o (ready[2]),
    .in_data_i  (body_i),
    .out_valid_o(to_values_valid_o),
    .out_ready_i(to_values_ready_i),
    .out_data_o (to_values_o),
    .used_o     (unused_used[2])
  );

  `NKV_ASSERT_STAYS(ToScoresStays_A, to_scores_valid_o, to_scores_ready_i, to_scores_o, clear_i)
  `NKV_ASSERT_STAYS(ToLogitsStays_A, to_logits_valid_o, to_logits_ready_i, to_logits_o, clear_i)
  `NKV_ASSERT_STAYS(ToValuesStays_A, to_values_valid_o, to_values_ready_i, to_values_o, clear_i)

endmodule
