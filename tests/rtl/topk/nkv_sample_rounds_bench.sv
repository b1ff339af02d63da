// nkv_sample_rounds between what it works with: the feed and the sets of pages, and nkv_tail_rest with the
// units that make its tables' logits.
module nkv_sample_rounds_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_sample_pkg::*;
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
  input  logic [28:0] reference_i[Rows],
  input  logic [3:0]  shift_i[Rows],
  input  logic [15:0] highest_i[Rows],
  input  logic [15:0] lowest_i[Rows],

  input  logic [7:0]  rows_i,
  input  logic [15:0] head_dim_i,
  input  logic [15:0] value_dim_i,
  input  logic [31:0] tokens_i,
  input  logic [31:0] window_i,
  input  logic [7:0]  sinks_i,
  input  logic [7:0]  byte_cap_i,
  input  logic [31:0] seed_i,

  input  logic        scanned_i,
  input  logic [PageIndexBits-1:0] body_page_i,
  input  logic [63:0] body_tokens_i,
  input  logic [63:0] body_nonfinite_i,
  input  logic [7:0]  body_k_form_i,
  input  logic [7:0]  body_v_form_i,
  input  logic [7:0]  body_dtype_i,

  input  logic        start_i,
  input  logic [31:0] scan_bursts_i,
  output logic        done_o,
  output logic        failed_o,
  output logic        dense_o,
  output logic        capped_o,
  output logic [2:0]  rounds_o,
  output logic [31:0] sum_bursts_o,
  output logic [31:0] exact_bursts_o,
  output logic [31:0] value_bursts_o,
  output logic [31:0] planned_o,           // What the round would read.

  output logic        read_o,
  input  logic        read_ready_i,
  output logic [PageIndexBits-1:0] read_page_o,
  output logic [1:0]  read_word_o,
  input  logic [15:0] midpoint_i[Rows][ScanTokens],

  output logic        pass_clear_o,
  output logic        visit_valid_o,
  input  logic        visit_ready_i,
  output logic [PageIndexBits-1:0] visit_page_o,
  output logic [63:0] visit_tokens_o,
  output logic        visit_sums_o,
  output logic        visits_end_o,
  input  logic        pass_done_i,
  input  logic        pass_failed_i,
  input  logic [31:0] pass_bursts_i,
  input  logic [31:0] pass_value_bursts_i,
  input  logic [31:0] pass_sum_bursts_i,

  output logic [63:0] page_sampled_o,
  output logic        page_rest_o,
  output logic        clear_groups_o,
  output logic        measure_o,
  output logic        sampled_valid_o,
  input  logic        sampled_ready_i,
  output logic [47:0] sampled_logit_o[Rows],
  output logic [4:0]  sampled_halvings_o,
  output logic [2:0]  sampled_group_o,
  output logic        rest_valid_o,
  input  logic        rest_ready_i,
  input  logic        taken_i,
  input  logic        measured_i,
  input  logic        all_within_i,
  input  logic [41:0] log_error_i,
  input  logic [7:0]  known_i,
  input  logic [41:0] log_bound_i[Rows]
);

  attend_command_t command;
  always_comb begin
    command = '0;
    command.group = rows_i;
    command.head_dim = head_dim_i;
    command.value_dim = value_dim_i;
    command.seed = seed_i;
    command.byte_cap = byte_cap_i;
  end
  page_body_t body;
  always_comb begin
    body = '0;
    body.page = body_page_i;
    body.tokens = body_tokens_i;
    body.nonfinite = body_nonfinite_i;
    body.k_form = row_form_e'(body_k_form_i);
    body.v_form = row_form_e'(body_v_form_i);
    body.dtype = dtype_e'(body_dtype_i);
  end

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
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i       (feed_start),
    .tokens_i,
    .window_i,
    .sinks_i,
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
    .pages_o       (pages)
  );
  nkv_page_set u_set (
    .clk_i,
    .scanned_i,
    .body_i      (body),
    .set_i       (set_exact),
    .set_tokens_i(set),
    .page_i      (feed_page),
    .visible_o   (visible),
    .set_o       (exact),
    .step_exponent_o(unused_step_exponent),
    .any_page_i  ('0),
    .any_set_o   (unused_any),
    .crc_page_i  ('0),
    .crc_hot_o   (unused_crc)
  );

  // ---- Tables ----
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
    .soft_cap_i   ('0),
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

  nkv_scan_pkg::constant_t plane_reference[Rows];
  nkv_scan_pkg::midpoint_t highest[Rows], lowest[Rows], midpoint[Rows][ScanTokens];
  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    assign plane_reference[r] = reference_i[r];
    assign highest[r] = highest_i[r];
    assign lowest[r] = lowest_i[r];
    for (genvar t = 0; t < int'(ScanTokens); t++) begin : g_token
      assign midpoint[r][t] = midpoint_i[r][t];
    end
  end

  logic       walk_valid, walk_ready, hold;
  visit_t     walk, visit;
  tail_quad_t quad;
  reference_t reference[Rows];
  rest_weight_t [Rows-1:0] unused_rest;
  logic [$clog2(TailAnswers):0] unused_rests;
  nkv_tail_rest #(
    .Units(Units)
  ) u_rest (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i      (build_i),
    .rows_i       (group_t'(rows_i)),
    .reference_i  (plane_reference),
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
    .page_valid_i (walk_valid),
    .page_ready_o (walk_ready),
    .page_i       (walk),
    .hold_i       (hold),
    .read_o,
    .read_ready_i,
    .read_page_o,
    .read_word_o,
    .midpoint_i   (midpoint),
    .quad_o       (quad),
    .reference_o  (reference),
    .rest_valid_o,
    .rest_ready_i,
    .rest_o       (unused_rest),
    .rests_o      (unused_rests)
  );

  // ---- Rounds ----
  logic            unused_busy, unused_visits;
  rounds_outcome_t outcome;
  sample_orders_t  orders;
  sample_report_t  report;
  always_comb begin
    report = '{
        taken: taken_i,
        measured: measured_i,
        all_within: all_within_i,
        log_error: log_error_i,
        known: known_i,
        log_bound: '0
    };
    for (int unsigned r = 0; r < Rows; r++) begin
      report.log_bound[r] = log_bound_i[r];
      sampled_logit_o[r] = orders.logit[r];
    end
  end
  wire pass_report_t pass = '{
      done: pass_done_i,
      failed: pass_failed_i,
      bursts: pass_bursts_i,
      value_bursts: pass_value_bursts_i,
      sum_bursts: pass_sum_bursts_i,
      default: '0
  };
  nkv_sample_rounds u_rounds (
    .clk_i,
    .rst_ni,
    .clear_i,
    .command_i      (command),
    .scanned_i,
    .body_i         (body),
    .start_i,
    .scan_bursts_i,
    .busy_o         (unused_busy),
    .done_o,
    .outcome_o      (outcome),
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
    .pass_clear_o,
    .visits_o       (unused_visits),
    .visit_valid_o,
    .visit_ready_i,
    .visit_o        (visit),
    .visits_end_o,
    .pass_i         (pass),
    .orders_o       (orders),
    .sampled_ready_i,
    .report_i       (report)
  );
  assign {failed_o, dense_o, capped_o, rounds_o, sum_bursts_o, exact_bursts_o, value_bursts_o} = outcome;
  assign planned_o = u_rounds.planned;
  assign visit_page_o = visit.page;
  assign visit_tokens_o = visit.tokens;
  assign visit_sums_o = visit.sums;
  assign page_sampled_o = orders.page_sampled;
  assign page_rest_o = orders.page_rest;
  assign clear_groups_o = orders.clear_groups;
  assign measure_o = orders.measure;
  assign sampled_valid_o = orders.sampled_valid;
  assign sampled_halvings_o = orders.halvings;
  assign sampled_group_o = orders.group;

endmodule
