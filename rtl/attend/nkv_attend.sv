// ATTEND (ARITHMETIC.md sections 4, 7 and 8). DENSE: every visible token exactly, one pass over the pages.
// TAIL: nkv_topk scans and makes the visits; of what is not read, midpoints give the weights and page sums
// the values. BOUNDED: its visits come in rounds, after each of which the sums are measured; if nothing
// but a dense read will do, DENSE begins anew.
//
//   bursts --> key_scores --> attend_logits --> attend_values <-- bursts
//        midpoints --> tail_rest --^                 `--> attend_result --> writes
//
// Begins when the page list is on chip; DENSE asks for pages while query rows still come. A page that fails
// ends the command with its verdict once the pass is over; nothing is written then. Else the command is
// done with, but for its results, as soon as all scores have become logits: the next command may begin, up
// to its start here, which waits until the last values have been added. Then the sums are set aside, and
// outputs are made of them and written.

module nkv_attend
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::rest_weight_t;
  import nkv_tail_pkg::tail_quad_t;
  import nkv_tail_pkg::TailAnswers;
  import nkv_sample_pkg::*;
  import nkv_scan_pkg::midpoint_t;
  import nkv_scan_pkg::ScanTokens;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,          // Before each command.
  input  logic            result_clk_i,     // Runs while results are written, too.
  input  logic            result_clear_i,   // CONTROL.RESET

  input  logic            start_i,
  input  logic            query_ready_i,    // The query rows are here.
  input  attend_command_t command_i,        // Checked; held while not idle_o.
  input  exponent_t       value_exponent_i, // Ev; so is this.
  input  exponent_t       query_exponent_i[Rows],  // From query_ready_i on held until done.
  input  exponent_t       key_exponent_i,   // Ek; held until done.
  output logic            idle_o,
  output logic            done_o,           // For one cycle: all but the results is done with.
  output outcome_t        outcome_o,
  output logic            results_left_o,   // With done_o: there are results,
  output results_t        results_o,        // of so many bursts,
  output logic            results_busy_o,   // and until then they have not all been handed on.
  input  logic            results_wait_i,   // Those of the command before have not all been written.

  output logic            pass_start_o,
  output logic            dense_after_all_o, // The pass is DENSE's, though it was BOUNDED that was asked for.
  output pass_setup_t     pass_o,
  input  pass_report_t    pass_i,

  // TAIL and BOUNDED: the plane search, whose end comes with its outcome.
  input  logic            searched_i,
  input  outcome_t        search_outcome_i,
  input  logic            midpoints_any_i,  // Midpoints have come.
  input  nkv_scan_pkg::constant_t reference_i[Rows],
  input  nkv_scan_pkg::shift_t    scan_shift_i[Rows],
  input  midpoint_t       highest_i[Rows],
  input  midpoint_t       lowest_i[Rows],
  output logic            tables_built_o,
  input  logic            rest_valid_i,     // Pages with tokens that are not read: those tokens.
  output logic            rest_ready_o,
  input  visit_t          rest_i,
  output logic            midpoint_read_o,
  input  logic            midpoint_ready_i,
  output page_index_t     midpoint_page_o,
  output logic [1:0]      midpoint_word_o,
  input  midpoint_t       midpoint_i[Rows][ScanTokens],
  output tail_quad_t      quad_o,           // BOUNDED: tokens as logits on their way to rests,
  output reference_t      midpoint_reference_o[Rows],
  input  logic            midpoint_hold_i,
  input  sample_orders_t  orders_i,         // and what its rounds want.
  output logic            sampled_ready_o,
  output sample_report_t  report_o,

  input  logic            body_valid_i,
  output logic            body_ready_o,
  input  page_body_t      body_i,

  // Rows to score, and their scores (nkv_key_scores).
  output logic            page_valid_o,
  input  logic            page_ready_i,
  output row_form_e       page_form_o,
  output dtype_e          page_dtype_o,
  output token_mask_t     page_rows_o,
  input  logic            score_valid_i,
  output logic            score_ready_o,
  input  logic [$clog2(PageTokens)-1:0] score_token_i,
  input  logic            score_last_i,
  input  score_t          score_i[Rows],

  input  logic            beat_valid_i,     // Bursts of values.
  output logic            beat_ready_o,
  input  read_beat_t      beat_i,

  // The exact stage: words of values, and the sums.
  output logic            grouped_o,        // Eight sums a row,
  output logic            clear_o,          // which are to be cleared,
  output logic            clear_groups_o,   // or seven of them.
  input  logic            grant_i,
  output logic            word_valid_o,
  output word_index_t     word_index_o,
  output logic            word_last_o,
  output key_t            word_o[ExactLanes],
  output word_index_t     last_word_o,
  output weight_t         weight_o[Rows],
  output shift_t          shift_o[Rows],
  output units_t          units_o[Rows],
  output sample_group_t   word_sum_o,
  output logic            word_subtract_o,
  output logic            raise_valid_o,
  output logic [5:0]      raise_o[Rows],
  input  logic            sums_ready_i,
  input  logic            sums_idle_i,
  output logic            set_aside_o,      // The sums are complete, and the results' from now on.
  output logic            read_valid_o,
  input  logic            read_ready_i,
  output logic            read_z_o,
  output row_index_t      read_row_o,
  output logic [$clog2(Channels)-1:0] read_channel_o,
  output sample_group_t   read_sum_o,
  input  logic            acc_valid_i,
  input  sum_t            acc_i,
  input  sum_t            z_i[Rows],
  output logic            growing_valid_o,  // Reads of the sums that grow; 3 cycles later acc_i.
  output logic            growing_z_o,
  output row_index_t      growing_row_o,
  output logic [$clog2(Channels)-1:0] growing_channel_o,
  output sample_group_t   growing_sum_o,

  output logic            write_valid_o,
  input  logic            write_ready_i,
  output write_request_t  write_o
);

  logic         setup_done, scaled_q, is_chosen, is_bounded, begins_again, starts, any_sampled;
  logic [7:0]   rounds;
  logic         scored, pages_done, result_busy, sums_under_way;
  logit_scale_t scale;

  nkv_logit_setup u_setup (
    .clk_i,
    .rst_ni,
    .start_i       (start_i),
    .scale_i       (command_i.scale),
    .soft_cap_i    (command_i.soft_cap),
    .key_exponent_i,
    .done_o        (setup_done),
    .scale_o       (scale)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) scaled_q <= 1'b0;
    else if (clear_i || start_i) scaled_q <= 1'b0;
    else if (setup_done) scaled_q <= 1'b1;
  end

  wire clears = clear_i || begins_again;
  assign clear_o = begins_again;
  assign clear_groups_o = orders_i.clear_groups;
  assign grouped_o = is_bounded;

  // ---- Pages go to the scorer, to the logits and to the values, in order ----
  logic         to_scores_valid, to_scores_ready, to_logits_valid, to_logits_ready;
  logic         to_values_ready, to_values_valid;
  page_body_t   to_scores;
  attend_page_t to_logits, to_values;

  nkv_attend_pages u_pages (
    .clk_i,
    .rst_ni,
    .clear_i          (clears),
    .chosen_i         (is_chosen),
    .bounded_i        (is_bounded),
    .body_valid_i,
    .body_ready_o,
    .body_i,
    .page_sampled_i   (orders_i.page_sampled),
    .page_rest_i      (orders_i.page_rest),
    .to_scores_valid_o(to_scores_valid),
    .to_scores_ready_i(to_scores_ready),
    .to_scores_o      (to_scores),
    .to_logits_valid_o(to_logits_valid),
    .to_logits_ready_i(to_logits_ready),
    .to_logits_o      (to_logits),
    .to_values_valid_o(to_values_valid),
    .to_values_ready_i(to_values_ready),
    .to_values_o      (to_values)
  );

  assign page_valid_o = to_scores_valid && query_ready_i;
  assign to_scores_ready = page_ready_i && query_ready_i;
  assign page_form_o = to_scores.k_form;
  assign page_dtype_o = to_scores.dtype;
  assign page_rows_o = is_chosen ? to_scores.tokens : '1;

  // ---- What is not read ----
  logic tables_started_q;
  wire starts_tables = starts && is_chosen && midpoints_any_i && scaled_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) tables_started_q <= 1'b0;
    else if (clear_i) tables_started_q <= 1'b0;
    else if (starts_tables) tables_started_q <= 1'b1;
  end

  localparam int unsigned Units = 2;
  logic         table_score_valid, table_logit_valid, rest_taken, rest_valid;
  logic [1:0]   table_score_phase, table_logit_phase;
  score_t       table_score[Units];
  logit_t       table_logit[Units];
  logic [$clog2(TailAnswers):0] rests;
  rest_weight_t [Rows-1:0] rest;

  logic rest_clk;
  nkv_idle_clock u_rest_clock (
    .clk_i,
    .rst_ni,
    .busy_i(is_chosen || clear_i),
    .clk_o (rest_clk)
  );

  nkv_tail_rest #(
    .Units(Units)
  ) u_rest (
    .clk_i        (rest_clk),
    .rst_ni,
    .clear_i,
    .start_i      (starts_tables),
    .rows_i       (group_t'(command_i.group)),
    .reference_i,
    .shift_i      (scan_shift_i),
    .score_valid_o(table_score_valid),
    .score_phase_o(table_score_phase),
    .score_o      (table_score),
    .logit_valid_i(table_logit_valid),
    .logit_phase_i(table_logit_phase),
    .logit_i      (table_logit),
    .built_o      (tables_built_o),
    .highest_i,
    .lowest_i,
    .page_valid_i (rest_valid_i),
    .page_ready_o (rest_ready_o),
    .page_i       (rest_i),
    .hold_i       (midpoint_hold_i),
    .read_o       (midpoint_read_o),
    .read_ready_i (midpoint_ready_i),
    .read_page_o  (midpoint_page_o),
    .read_word_o  (midpoint_word_o),
    .midpoint_i,
    .quad_o,
    .reference_o  (midpoint_reference_o),
    .rest_valid_o (rest_valid),
    .rest_ready_i (rest_taken),
    .rest_o       (rest),
    .rests_o      (rests)
  );

  // ---- Logits and references ----
  logic       logits_valid, logits_ready, logits_idle, take, take_rest;
  logic [5:0] raise[Rows];
  reference_t reference[Rows];
  logit_t     logit[Rows];
  weight_t    rest_weight[Rows];
  logit_t     sampled_logit[Rows];
  halvings_t  halvings;
  sample_group_t group;
  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) sampled_logit[r] = orders_i.logit[r];
  end

  nkv_attend_logits u_logits (
    .clk_i,
    .rst_ni,
    .clear_i         (clears),
    .bounded_i       (is_bounded),
    .scale_i         (scale),
    .query_exponent_i,
    .other_valid_i   (table_score_valid),
    .other_phase_i   (table_score_phase),
    .other_score_i   (table_score),
    .other_valid_o   (table_logit_valid),
    .other_phase_o   (table_logit_phase),
    .other_logit_o   (table_logit),
    .page_valid_i    (to_logits_valid && scaled_q),
    .page_ready_o    (to_logits_ready),
    .page_scored_i   (!is_chosen || to_logits.body.tokens != '0),
    .page_visible_i  (to_logits.body.tokens & ~to_logits.body.nonfinite),
    .page_sampled_i  (to_logits.sampled),
    .page_rest_i     (to_logits.rest),
    .score_valid_i,
    .score_ready_o,
    .score_token_i,
    .score_last_i,
    .score_i,
    .sampled_valid_i (orders_i.sampled_valid),
    .sampled_ready_o,
    .sampled_logit_i (sampled_logit),
    .sampled_halvings_i(orders_i.halvings),
    .sampled_group_i (orders_i.group),
    .rests_i         (rests),
    .rest_ready_o    (rest_taken),
    .rest_i          (rest),
    .done_valid_o    (logits_valid),
    .done_ready_i    (logits_ready),
    .done_raise_o    (raise),
    .done_reference_o(reference),
    .take_i          (take),
    .release_i       (to_values_ready),
    .logit_o         (logit),
    .halvings_o      (halvings),
    .group_o         (group),
    .take_rest_i     (take_rest),
    .rest_weight_o   (rest_weight),
    .idle_o          (logits_idle)
  );

  // ---- A page whose logits are complete, until its values have been added ----
  logic       ready_page_q;
  logic [5:0] raise_q[Rows];
  reference_t reference_q[Rows];
  assign logits_ready = !ready_page_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) ready_page_q <= 1'b0;
    else if (clears || to_values_ready) ready_page_q <= 1'b0;
    else if (logits_valid) ready_page_q <= 1'b1;
  end
  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < Rows; r++) begin
      if (logits_valid && logits_ready) begin
        raise_q[r] <= raise[r];
        reference_q[r] <= reference[r];
      end else if (clears) begin
        reference_q[r] <= NoReference;
      end
    end
  end

  logic       values_idle;

  nkv_attend_values u_values (
    .clk_i,
    .rst_ni,
    .clear_i            (clears),
    .value_exponent_i,
    .head_dim_i         (dim_t'(command_i.head_dim)),
    .value_dim_i        (dim_t'(command_i.value_dim)),
    .chosen_i           (is_chosen),
    .bounded_i          (is_bounded),
    .page_valid_i       (ready_page_q && to_values_valid),
    .page_ready_o       (to_values_ready),
    .page_i             (to_values.body),
    .page_rest_i        (to_values.rest),
    .page_sampled_i     (to_values.sampled),
    .page_raise_i       (raise_q),
    .page_reference_i   (reference_q),
    .take_o             (take),
    .logit_i            (logit),
    .halvings_i         (halvings),
    .group_i            (group),
    .take_rest_o        (take_rest),
    .rest_weight_i      (rest_weight),
    .beat_valid_i,
    .beat_ready_o,
    .beat_i,
    .grant_i,
    .word_valid_o,
    .word_index_o,
    .word_last_o,
    .word_o,
    .last_word_o,
    .weight_o,
    .shift_o,
    .units_o,
    .word_sum_o,
    .word_subtract_o,
    .raise_valid_o,
    .raise_o,
    .sums_ready_i,
    .sums_idle_i,
    .idle_o             (values_idle)
  );

  // ---- How far off BOUNDED may be ----
  logic [31:0] bound[Rows], largest_bound;

  nkv_attend_bound u_bound (
    .clk_i,
    .rst_ni,
    .clear_i,
    .command_i,
    .measure_i     (orders_i.measure),
    .rounds_i      (rounds),
    .taken_i       (pages_done),
    .report_o,
    .bound_o       (bound),
    .largest_o     (largest_bound),
    .read_valid_o  (growing_valid_o),
    .read_z_o      (growing_z_o),
    .read_row_o    (growing_row_o),
    .read_channel_o(growing_channel_o),
    .read_sum_o    (growing_sum_o),
    .acc_i
  );

  wire [31:0] output_bytes = (32'(command_i.group) * 32'(command_i.value_dim)) <<
      (command_i.flags[AttendFlagOutputBf16] ? 1 : 2);
  assign results_o = results_t'(bursts_of(output_bytes)) +
      results_t'(2 * bursts_of(32'(command_i.group) * 4));

  assign set_aside_o = sums_under_way && pages_done;
  assign results_busy_o = sums_under_way || result_busy;

  nkv_attend_result u_result (
    .clk_i           (result_clk_i),
    .rst_ni,
    .clear_i         (result_clear_i),
    .start_i         (set_aside_o),
    .address_i       (command_i.result),
    .rows_i          (group_t'(command_i.group)),
    .value_dim_i     (dim_t'(command_i.value_dim)),
    .bf16_i          (command_i.flags[AttendFlagOutputBf16]),
    .base2_i         (command_i.flags[AttendFlagLseBase2]),
    .value_exponent_i,
    .reference_i     (reference_q),
    .grouped_i       (any_sampled),
    .bound_i         (bound),
    .busy_o          (result_busy),
    .z_i,
    .read_valid_o,
    .read_ready_i,
    .read_z_o,
    .read_row_o,
    .read_channel_o,
    .read_sum_o,
    .acc_valid_i,
    .acc_i,
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  // ---- The command ----
  wire tables_under_way = tables_started_q && !tables_built_o;
  assign scored = scaled_q && !tables_under_way && !to_scores_valid && !to_logits_valid && logits_idle;
  assign pages_done = scored && !to_values_valid && !ready_page_q && values_idle;

  nkv_attend_order u_order (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .command_i,
    .query_ready_i,
    .begins_i       (midpoints_any_i && scaled_q),
    .scored_i       (scored),
    .pages_done_i   (pages_done),
    .results_free_i (!results_wait_i && !result_busy),
    .largest_bound_i(largest_bound),
    .idle_o,
    .done_o,
    .outcome_o,
    .results_left_o,
    .starts_o       (starts),
    .sums_o         (sums_under_way),
    .chosen_o       (is_chosen),
    .bounded_o      (is_bounded),
    .again_o        (begins_again),
    .dense_after_all_o,
    .rounds_o       (rounds),
    .any_sampled_o  (any_sampled),
    .searched_i,
    .search_outcome_i,
    .pass_start_o,
    .pass_o,
    .pass_i
  );

  wire unused = ^{command_i, to_scores, to_logits, rest_valid};

endmodule
