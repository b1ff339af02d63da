// nkv_tail_rest with the units that make its tables' logits, and their set-up.
module nkv_tail_rest_bench
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_scan_pkg::ScanTokens;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  logic        set_i,               // A scale; done with `set_o`.
  input  logic [31:0] scale_i,
  input  logic [31:0] soft_cap_i,
  input  exponent_t   key_exponent_i,
  output logic        set_o,
  input  exponent_t   query_exponent_i[Rows],

  input  logic        start_i,
  input  logic [3:0]  rows_i,
  input  logic [28:0] reference_i[Rows],
  input  logic [3:0]  shift_i[Rows],
  output logic        built_o,
  input  logic [15:0] highest_i[Rows],
  input  logic [15:0] lowest_i[Rows],

  input  logic        page_valid_i,
  output logic        page_ready_o,
  input  logic [PageIndexBits-1:0] page_i,
  input  logic [63:0] page_tokens_i,
  output logic        read_o,
  input  logic        read_ready_i,
  output logic [PageIndexBits-1:0] read_page_o,
  output logic [1:0]  read_word_o,
  input  logic [15:0] midpoint_i[Rows][ScanTokens],

  output logic        rest_valid_o,
  input  logic        rest_ready_i,
  output logic [31:0] rest_whole_o[Rows],
  output logic [17:0] rest_weight_o[Rows],
  output logic [5:0]  rests_o
);

  localparam int unsigned Units = 2;
  logic       score_valid, logit_valid;
  logic [1:0] score_phase, logit_phase;
  score_t     score[Units];
  logit_t     logit[Units];
  nkv_table_logits u_logits (
    .clk_i,
    .rst_ni,
    .set_i,
    .scale_i,
    .soft_cap_i,
    .key_exponent_i,
    .set_o,
    .query_exponent_i,
    .score_valid_i(score_valid),
    .score_phase_i(score_phase),
    .score_i      (score),
    .logit_valid_o(logit_valid),
    .logit_phase_o(logit_phase),
    .logit_o      (logit)
  );

  nkv_scan_pkg::constant_t reference[Rows];
  nkv_scan_pkg::midpoint_t highest[Rows], lowest[Rows], midpoint[Rows][ScanTokens];
  rest_weight_t [Rows-1:0] rest;
  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    assign reference[r] = reference_i[r];
    assign highest[r] = highest_i[r];
    assign lowest[r] = lowest_i[r];
    assign rest_whole_o[r] = rest[r].whole;
    assign rest_weight_o[r] = rest[r].weight;
    for (genvar t = 0; t < int'(ScanTokens); t++) begin : g_token
      assign midpoint[r][t] = midpoint_i[r][t];
    end
  end

  tail_quad_t unused_quad;
  reference_t unused_reference[Rows];
  nkv_tail_rest #(
    .Units(Units)
  ) u_rest (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .rows_i,
    .reference_i  (reference),
    .shift_i,
    .score_valid_o(score_valid),
    .score_phase_o(score_phase),
    .score_o      (score),
    .logit_valid_i(logit_valid),
    .logit_phase_i(logit_phase),
    .logit_i      (logit),
    .built_o,
    .highest_i    (highest),
    .lowest_i     (lowest),
    .page_valid_i,
    .page_ready_o,
    .page_i       ('{page: page_i, tokens: page_tokens_i, sums: 1'b1}),
    .hold_i       (1'b0),
    .read_o,
    .read_ready_i,
    .read_page_o,
    .read_word_o,
    .midpoint_i   (midpoint),
    .quad_o       (unused_quad),
    .reference_o  (unused_reference),
    .rest_valid_o,
    .rest_ready_i,
    .rest_o       (rest),
    .rests_o
  );

endmodule
