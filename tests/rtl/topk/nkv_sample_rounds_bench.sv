// nkv_sample_rounds between what it works with: the feed and the sets of pages, and nkv_tail_rest with the
// units that make its tables' logits.
module nkv_sample_rounds_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_sample_pkg::*;
  import nkv_scan_pkg::midpoint_t;
  import nkv_scan_pkg::ScanTokens;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  logic        set_i,               // A scale; done with `set_o`.
  input  logic [31:0] scale_i,
  input  exponent_t   key_exponent_i,
  output logic        set_o,
  input  exponent_t   query_exponent_i[Rows],
  input  logic        build_i,             // The tables; done with `built_o`.
  output logic        built_o,
  input  nkv_scan_pkg::constant_t reference_i[Rows],
  input  nkv_scan_pkg::shift_t    shift_i[Rows],
  input  midpoint_t   highest_i[Rows],
  input  midpoint_t   lowest_i[Rows],

  input  attend_command_t command_i,
  input  logic [31:0] tokens_i,
  input  logic [31:0] window_i,
  input  logic [7:0]  sinks_i,
  input  logic        scanned_i,
  input  page_body_t  body_i,

  input  logic        start_i,
  input  logic [31:0] scan_bursts_i,
  output logic        done_o,
  output rounds_outcome_t outcome_o,
  output logic [31:0] planned_o,           // What the round would read.

  output logic        read_o,
  input  logic        read_ready_i,
  output page_index_t read_page_o,
  output logic [1:0]  read_word_o,
  input  midpoint_t   midpoint_i[Rows][ScanTokens],

  output logic        pass_clear_o,
  output logic        visit_valid_o,
  input  logic        visit_ready_i,
  output visit_t      visit_o,
  output logic        visits_end_o,
  input  pass_report_t pass_i,

  output sample_orders_t orders_o,
  input  logic        sampled_ready_i,
  output logic        rest_valid_o,
  input  logic        rest_ready_i,
  input  sample_report_t report_i
);

  // ---- Pages ----
  logic        feed_start, feed_valid, feed_ready, unused_feed_done, set_exact;
  logic        seen_valid, seen_ready, unused_any;
  page_index_t seen, feed_page;
  logic signed [15:0] unused_step_exponent;
  token_mask_t visible, exact;
  visit_t      unused_feed, set;
  logic [31:0] unused_crc;
  logic [PageIndexBits:0] pages;
  nkv_page_feed u_feed (
    .start_i       (feed_start),
    .take_visible_i(1'b1),
    .take_set_i    (1'b0),
    .seen_valid_o  (seen_valid),
    .seen_ready_i  (seen_ready),
    .seen_o        (seen),
    .page_valid_i  (seen_valid),
    .page_ready_o  (seen_ready),
    .page_i        (seen),
    .none_between_i(1'b1),
    .page_o        (feed_page),
    .visible_i     (visible),
    .set_i         (exact),
    .valid_o       (feed_valid),
    .ready_i       (feed_ready),
    .visit_o       (unused_feed),
    .done_o        (unused_feed_done),
    .pages_o       (pages),
    .*
  );
  nkv_page_set u_set (
    .set_i       (set_exact),
    .set_tokens_i(set),
    .page_i      (feed_page),
    .visible_o   (visible),
    .set_o       (exact),
    .step_exponent_o(unused_step_exponent),
    .any_page_i  ('0),
    .any_set_o   (unused_any),
    .crc_page_i  ('0),
    .crc_hot_o   (unused_crc),
    .*
  );

  // ---- Tables ----
  localparam int unsigned Units = 2;
  logic       score_valid, logit_valid;
  logic [1:0] score_phase, logit_phase;
  score_t     score[Units];
  logit_t     logit[Units];
  nkv_table_logits u_logits (
    .soft_cap_i   ('0),
    .score_valid_i(score_valid),
    .score_phase_i(score_phase),
    .score_i      (score),
    .logit_valid_o(logit_valid),
    .logit_phase_o(logit_phase),
    .logit_o      (logit),
    .*
  );

  logic       walk_valid, walk_ready, hold;
  visit_t     walk;
  tail_quad_t quad;
  reference_t reference[Rows];
  rest_weight_t [Rows-1:0] unused_rest;
  logic [$clog2(TailAnswers):0] unused_rests;
  nkv_tail_rest #(
    .Units(Units)
  ) u_rest (
    .start_i      (build_i),
    .rows_i       (group_t'(command_i.group)),
    .score_valid_o(score_valid),
    .score_phase_o(score_phase),
    .score_o      (score),
    .logit_valid_i(logit_valid),
    .logit_phase_i(logit_phase),
    .logit_i      (logit),
    .page_valid_i (walk_valid),
    .page_ready_o (walk_ready),
    .page_i       (walk),
    .hold_i       (hold),
    .quad_o       (quad),
    .reference_o  (reference),
    .rest_o       (unused_rest),
    .rests_o      (unused_rests),
    .*
  );

  // ---- Rounds ----
  logic unused_busy, unused_visits;
  nkv_sample_rounds u_rounds (
    .busy_o         (unused_busy),
    .pages_i        (pages),
    .feed_start_o   (feed_start),
    .feed_valid_i   (feed_valid),
    .feed_ready_o   (feed_ready),
    .feed_page_i    (feed_page),
    .visible_i      (visible),
    .exact_i        (exact),
    .set_exact_o    (set_exact),
    .set_o          (set),
    .walk_valid_o   (walk_valid),
    .walk_ready_i   (walk_ready),
    .walk_o         (walk),
    .word_i         (read_o && read_ready_i),
    .hold_o         (hold),
    .quad_i         (quad),
    .reference_i    (reference),
    .visits_o       (unused_visits),
    .*
  );
  assign planned_o = u_rounds.planned;

endmodule
