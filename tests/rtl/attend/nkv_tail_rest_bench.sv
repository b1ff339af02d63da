// nkv_tail_rest with the units that make its tables' logits, and their set-up.
module nkv_tail_rest_bench
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_scan_pkg::midpoint_t;
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
  input  group_t      rows_i,
  input  nkv_scan_pkg::constant_t reference_i[Rows],
  input  nkv_scan_pkg::shift_t    shift_i[Rows],
  output logic        built_o,
  input  midpoint_t   highest_i[Rows],
  input  midpoint_t   lowest_i[Rows],

  input  logic        page_valid_i,
  output logic        page_ready_o,
  input  visit_t      page_i,
  output logic        read_o,
  input  logic        read_ready_i,
  output page_index_t read_page_o,
  output logic [1:0]  read_word_o,
  input  midpoint_t   midpoint_i[Rows][ScanTokens],

  output logic        rest_valid_o,
  input  logic        rest_ready_i,
  output rest_weight_t [Rows-1:0] rest_o,
  output logic [5:0]  rests_o
);

  localparam int unsigned Units = 2;
  logic       score_valid, logit_valid;
  logic [1:0] score_phase, logit_phase;
  score_t     score[Units];
  logit_t     logit[Units];
  nkv_table_logits u_logits (
    .score_valid_i(score_valid),
    .score_phase_i(score_phase),
    .score_i      (score),
    .logit_valid_o(logit_valid),
    .logit_phase_o(logit_phase),
    .logit_o      (logit),
    .*
  );

  tail_quad_t unused_quad;
  reference_t unused_reference[Rows];
  nkv_tail_rest #(
    .Units(Units)
  ) u_rest (
    .score_valid_o(score_valid),
    .score_phase_o(score_phase),
    .score_o      (score),
    .logit_valid_i(logit_valid),
    .logit_phase_i(logit_phase),
    .logit_i      (logit),
    .hold_i       (1'b0),
    .quad_o       (unused_quad),
    .reference_o  (unused_reference),
    .*
  );

endmodule
