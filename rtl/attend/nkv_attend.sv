// ATTEND, modes DENSE and TAIL (ARITHMETIC.md sections 4 and 7). DENSE: every visible token exactly, one
// pass over the pages. TAIL: nkv_topk scans and makes the visits; of what is not read, midpoints give the
// weights and page sums the values.
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
  import nkv_tail_pkg::TailAnswers;
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
  output pass_setup_t     pass_o,
  input  pass_report_t    pass_i,

  // TAIL: the plane search, whose end comes with its outcome.
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
  input  logic            grant_i,
  output logic            word_valid_o,
  output word_index_t     word_index_o,
  output logic            word_last_o,
  output key_t            word_o[ExactLanes],
  output word_index_t     last_word_o,
  output weight_t         weight_o[Rows],
  output shift_t          shift_o[Rows],
  output units_t          units_o[Rows],
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
  output nkv_sample_pkg::sample_group_t read_sum_o,
  input  logic            acc_valid_i,
  input  sum_t            acc_i,
  input  sum_t            z_i[Rows],

  output logic            write_valid_o,
  input  logic            write_ready_i,
  output write_request_t  write_o
);

  typedef enum logic [2:0] {
    StIdle,
    StStart,     // TAIL: until there are midpoints, whose logits tables then give.
    StPass,
    StScores,    // Until all logits are there, and the results of the command before have been written.
    StFailed,    // Until what was asked for has been used up.
    StSums       // Until the last page's values have been added.
  } state_e;

  state_e       state_q;
  logic         setup_done, searched_q, scaled_q;
  outcome_t     search_q;
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

  // ---- Pages go to the scorer, to the logits and to the values, in order ----
  logic       to_scores_valid, to_scores_ready, to_logits_valid, to_logits_ready;
  logic       to_values_ready, to_values_valid;
  page_body_t to_scores, to_logits, to_values;
  logic [2:0] scores_ready_all;
  logic [$clog2(PagesAhead):0] unused_scores_used, unused_logits_used, unused_values_used;

  assign body_ready_o = &scores_ready_all;
  wire body_taken = body_valid_i && body_ready_o;
  wire is_tail = command_i.mode == AttendModeTail;

  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_to_scores (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (body_taken && (!is_tail || body_i.tokens != '0)),
    .in_ready_o (scores_ready_all[0]),
    .in_data_i  (body_i),
    .out_valid_o(to_scores_valid),
    .out_ready_i(to_scores_ready),
    .out_data_o (to_scores),
    .used_o     (unused_scores_used)
  );
  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_to_logits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (body_taken),
    .in_ready_o (scores_ready_all[1]),
    .in_data_i  (body_i),
    .out_valid_o(to_logits_valid),
    .out_ready_i(to_logits_ready),
    .out_data_o (to_logits),
    .used_o     (unused_logits_used)
  );
  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_to_values (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (body_taken),
    .in_ready_o (scores_ready_all[2]),
    .in_data_i  (body_i),
    .out_valid_o(to_values_valid),
    .out_ready_i(to_values_ready),
    .out_data_o (to_values),
    .used_o     (unused_values_used)
  );

  assign page_valid_o = to_scores_valid && query_ready_i;
  assign to_scores_ready = page_ready_i && query_ready_i;
  assign page_form_o = to_scores.k_form;
  assign page_dtype_o = to_scores.dtype;
  assign page_rows_o = is_tail ? to_scores.tokens : '1;

  // ---- What is not read ----
  logic tables_started_q;
  wire starts_tables = state_q == StStart && is_tail && midpoints_any_i && scaled_q;
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

  nkv_tail_pkg::tail_quad_t unused_quad;
  reference_t unused_reference[Rows];
  logic rest_clk;
  nkv_idle_clock u_rest_clock (
    .clk_i,
    .rst_ni,
    .busy_i(is_tail || clear_i),
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
    .hold_i       (1'b0),
    .read_o       (midpoint_read_o),
    .read_ready_i (midpoint_ready_i),
    .read_page_o  (midpoint_page_o),
    .read_word_o  (midpoint_word_o),
    .midpoint_i,
    .quad_o       (unused_quad),
    .reference_o  (unused_reference),
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
  logic       unused_sampled_ready, unused_subtract;
  logit_t     no_logit[Rows];
  nkv_sample_pkg::halvings_t     halvings;
  nkv_sample_pkg::sample_group_t group, unused_sum;
  assign no_logit = '{default: '0};

  nkv_attend_logits u_logits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .bounded_i       (1'b0),
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
    .page_scored_i   (!is_tail || to_logits.tokens != '0),
    .page_visible_i  (to_logits.tokens & ~to_logits.nonfinite),
    .page_sampled_i  ('0),
    .page_rest_i     (to_logits.sums),
    .score_valid_i,
    .score_ready_o,
    .score_token_i,
    .score_last_i,
    .score_i,
    .sampled_valid_i (1'b0),
    .sampled_ready_o (unused_sampled_ready),
    .sampled_logit_i (no_logit),
    .sampled_halvings_i('0),
    .sampled_group_i ('0),
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
    else if (clear_i || to_values_ready) ready_page_q <= 1'b0;
    else if (logits_valid) ready_page_q <= 1'b1;
  end
  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < Rows; r++) begin
      if (logits_valid && logits_ready) begin
        raise_q[r] <= raise[r];
        reference_q[r] <= reference[r];
      end else if (clear_i) begin
        reference_q[r] <= NoReference;
      end
    end
  end

  logic       values_idle;

  nkv_attend_values u_values (
    .clk_i,
    .rst_ni,
    .clear_i,
    .value_exponent_i,
    .head_dim_i         (dim_t'(command_i.head_dim)),
    .value_dim_i        (dim_t'(command_i.value_dim)),
    .chosen_i           (is_tail),
    .bounded_i          (1'b0),
    .page_valid_i       (ready_page_q && to_values_valid),
    .page_ready_o       (to_values_ready),
    .page_i             (to_values),
    .page_rest_i        (to_values.sums),
    .page_sampled_i     ('0),
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
    .word_sum_o         (unused_sum),
    .word_subtract_o    (unused_subtract),
    .raise_valid_o,
    .raise_o,
    .sums_ready_i,
    .sums_idle_i,
    .idle_o             (values_idle)
  );

  wire [31:0] output_bytes = (32'(command_i.group) * 32'(command_i.value_dim)) <<
      (command_i.flags[AttendFlagOutputBf16] ? 1 : 2);
  assign results_o = results_t'(bursts_of(output_bytes)) +
      results_t'(2 * bursts_of(32'(command_i.group) * 4));

  logic result_busy, pages_done;
  assign idle_o = state_q == StIdle;
  assign set_aside_o = state_q == StSums && pages_done;
  assign results_busy_o = state_q == StSums || result_busy;

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
    .grouped_i       (1'b0),
    .bound_i         ('{default: '0}),
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
  logic [PageArrayCount-1:0] arrays;
  always_comb begin
    arrays = '0;
    arrays[PageArrayKExponents] = 1'b1;
    arrays[PageArrayKRows] = 1'b1;
    arrays[PageArrayVExponents] = 1'b1;
    arrays[PageArrayVRows] = 1'b1;
  end

  assign pass_start_o = state_q == StStart && !is_tail;
  assign pass_o = '{
      tokens: command_i.tokens,
      window: command_i.window,
      sinks: command_i.sinks,
      first_index: '0,
      demand: '{
          whole_header: 1'b1,
          any_codec: 1'b0,
          keys: 1'b1,
          values: 1'b1,
          raw_keys: 1'b0,
          alike: 1'b0,
          any_values: 1'b0,
          head_dim: command_i.head_dim,
          value_dim: command_i.value_dim
      },
      plan: '{whole: arrays, default: '0},
      erase: 1'b0
  };

  wire passed = is_tail ? searched_q : pass_i.done && query_ready_i;
  wire failed = is_tail ? search_q.verdict.status != StatusOk : pass_i.failed;
  wire tables_under_way = tables_started_q && !tables_built_o;
  wire scored = scaled_q && !tables_under_way && !to_scores_valid && !to_logits_valid && logits_idle;
  assign pages_done = scored && !to_values_valid && !ready_page_q && values_idle;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      done_o <= 1'b0;
      outcome_o <= '0;
      results_left_o <= 1'b0;
      searched_q <= 1'b0;
      search_q <= '0;
    end else if (clear_i) begin
      state_q <= StIdle;
      done_o <= 1'b0;
      searched_q <= 1'b0;
    end else begin
      done_o <= 1'b0;
      if (searched_i) begin
        searched_q <= 1'b1;
        search_q <= search_outcome_i;
      end
      unique case (state_q)
        StIdle: if (start_i) state_q <= StStart;
        StStart: if (!is_tail || (midpoints_any_i && scaled_q) || searched_q) state_q <= StPass;
        StPass: begin
          if (passed) begin
            state_q <= failed ? StFailed : StScores;
            outcome_o <= is_tail ? search_q : '0;
            if (!failed) outcome_o.count <= 32'(command_i.group);
            if (!is_tail && failed) begin
              outcome_o.verdict <= '{
                  status: pass_i.failure.status,
                  detail: 64'(pass_i.failure.index)
              };
            end else if (!is_tail) begin
              outcome_o.stream_bursts <= pass_i.bursts;
              outcome_o.flags[CompletionFlagNonfinite] <= pass_i.nonfinite;
            end
          end
        end
        StScores: begin
          if (scored && !results_wait_i && !result_busy) begin
            state_q <= StSums;
            done_o <= 1'b1;
            results_left_o <= 1'b1;
          end
        end
        StFailed: begin
          if (pages_done) begin
            state_q <= StIdle;
            done_o <= 1'b1;
            results_left_o <= 1'b0;
          end
        end
        StSums: if (pages_done) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
    end
  end

  wire unused = ^{command_i, pass_i, to_scores, to_logits, rest_valid};

endmodule
