// ATTEND DENSE (ARITHMETIC.md section 4): every visible token exactly, one pass over the pages.
//
//   bursts --> key_scores --> attend_logits --> attend_values <-- bursts
//                                                     `--> attend_result --> writes
//
// Begins when the page list is on chip, and asks for pages while query rows still come. A page that fails
// ends the command with its verdict once the pass is over; nothing is written then. Else the command is
// done with, but for its results, as soon as all scores have become logits: the next command may begin, up
// to its start here, which waits until the last values have been added. Then the sums are set aside, and
// outputs are made of them and written.

module nkv_attend
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
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

  input  logic            body_valid_i,
  output logic            body_ready_o,
  input  page_body_t      body_i,

  // Rows to score, and their scores (nkv_key_scores).
  output logic            page_valid_o,
  input  logic            page_ready_i,
  output row_form_e       page_form_o,
  output dtype_e          page_dtype_o,
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
  output row_index_t      read_row_o,
  output logic [$clog2(Channels)-1:0] read_channel_o,
  input  logic            acc_valid_i,
  input  sum_t            acc_i,
  input  sum_t            z_i[Rows],

  output logic            write_valid_o,
  input  logic            write_ready_i,
  output write_request_t  write_o
);

  logic         setup_done, scaled_q;
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

  // ---- Pages go to the scorer, to the logits and to the values, in order ----
  logic       to_scores_valid, to_scores_ready, to_logits_valid, to_logits_ready;
  logic       to_values_ready, to_values_valid;
  page_body_t to_scores, to_logits, to_values;

  nkv_attend_pages u_pages (
    .clk_i,
    .rst_ni,
    .clear_i,
    .body_valid_i,
    .body_ready_o,
    .body_i,
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

  // ---- Logits and references ----
  logic       logits_valid, logits_ready, logits_idle, take;
  logic [5:0] raise[Rows];
  reference_t reference[Rows];
  logit_t     logit[Rows];

  nkv_attend_logits u_logits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .scale_i         (scale),
    .query_exponent_i,
    .page_valid_i    (to_logits_valid && scaled_q),
    .page_ready_o    (to_logits_ready),
    .page_visible_i  (to_logits.tokens & ~to_logits.nonfinite),
    .score_valid_i,
    .score_ready_o,
    .score_token_i,
    .score_last_i,
    .score_i,
    .done_valid_o    (logits_valid),
    .done_ready_i    (logits_ready),
    .done_raise_o    (raise),
    .done_reference_o(reference),
    .take_i          (take),
    .release_i       (to_values_ready),
    .logit_o         (logit),
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

  logic values_idle;

  nkv_attend_values u_values (
    .clk_i,
    .rst_ni,
    .clear_i,
    .value_exponent_i,
    .head_dim_i      (dim_t'(command_i.head_dim)),
    .value_dim_i     (dim_t'(command_i.value_dim)),
    .page_valid_i    (ready_page_q && to_values_valid),
    .page_ready_o    (to_values_ready),
    .page_i          (to_values),
    .page_raise_i    (raise_q),
    .page_reference_i(reference_q),
    .take_o          (take),
    .logit_i         (logit),
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
    .raise_valid_o,
    .raise_o,
    .sums_ready_i,
    .sums_idle_i,
    .idle_o          (values_idle)
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
    .busy_o          (result_busy),
    .z_i,
    .read_valid_o,
    .read_ready_i,
    .read_row_o,
    .read_channel_o,
    .acc_valid_i,
    .acc_i,
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  // ---- The command ----
  assign scored = scaled_q && !to_scores_valid && !to_logits_valid && logits_idle;
  assign pages_done = scored && !to_values_valid && !ready_page_q && values_idle;

  nkv_attend_order u_order (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .command_i,
    .query_ready_i,
    .scored_i      (scored),
    .pages_done_i  (pages_done),
    .results_free_i(!results_wait_i && !result_busy),
    .idle_o,
    .done_o,
    .outcome_o,
    .results_left_o,
    .sums_o        (sums_under_way),
    .pass_start_o,
    .pass_o,
    .pass_i
  );

  wire unused = ^{command_i, to_scores, to_logits};

endmodule
