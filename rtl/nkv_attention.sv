// Commands that hold a query against a page list, TOPK and ATTEND: their input, exact scores, ranks and
// attention. Both read pages by passes that they set up (nkv_page_pass), and share one exact stage: keys go
// first, values in the cycles that they leave.
//
//   scan_input --> topk ---------> results
//                   ^
//   bursts --> key_scores --> attend --> results
//                   `-- exact_stage <-- values

module nkv_attention
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,            // CONTROL.RESET

  input  logic          busy_i,             // A command is here: TOPK or ATTEND
  input  logic          start_i,            // and now, checked, begins; held until it is over.
  input  logic [511:0]  command_i,
  output logic          done_o,             // For one cycle.
  output outcome_t      outcome_o,
  output logic          results_left_o,     // With done_o: results are still to be written by writer 0,
  output results_t      results_o,          // so many bursts,
  output logic          results_busy_o,     // while the next command may begin,
  input  logic          results_wait_i,     // whose results must wait.

  // The page list.
  output logic          load_o,
  output list_load_t    list_o,
  input  logic          loaded_i,
  input  logic          poisoned_i,
  input  exponent_t     key_exponent_i,     // Ek
  input  exponent_t     value_exponent_i,   // Ev

  // The pass over pages in sight.
  output logic          pass_start_o,
  output logic          abandon_o,          // No pass, and nothing that was read for one, counts any more.
  output pass_setup_t   pass_o,
  input  pass_report_t  pass_i,
  input  logic          body_valid_i,
  output logic          body_ready_o,
  input  page_body_t    body_i,

  // Query rows are read past the pass. All bursts of these, and of arrays; results.
  output logic          request_valid_o,
  input  logic          request_ready_i,
  output read_request_t request_o,
  input  logic          beat_valid_i,
  output logic          beat_ready_o,
  input  read_beat_t    beat_i,
  output logic           [1:0] write_valid_o,   // 0: ATTEND's, 1: TOPK's.
  input  logic           [1:0] write_ready_i,
  output write_request_t [1:0] write_o
);

  wire attend_command_t attend = attend_command_t'(command_i);
  wire is_topk = attend.opcode == OpcodeTopk;
  wire clears = clear_i || start_i;
  logic go, go_q;                           // What the command needs to begin is here.

  // ---- Clocks of the units that a command does not always need ----
  logic input_clk, topk_clk, attend_clk, result_clk, exact_clk;
  logic input_done, set_aside;
  logic no_rows;  // TOPK scores no row for now.

  nkv_attention_clocks u_clocks (
    .clk_i,
    .rst_ni,
    .clear_i,
    .busy_i,
    .start_i,
    .ranks_i       (is_topk),
    .input_done_i  (input_done),
    .no_rows_i     (no_rows),
    .set_aside_i   (set_aside),
    .results_busy_i(results_busy_o),
    .input_clk_o   (input_clk),
    .topk_clk_o    (topk_clk),
    .attend_clk_o  (attend_clk),
    .result_clk_o  (result_clk),
    .exact_clk_o   (exact_clk)
  );

  // ---- Query and page list: fields for them stand at the same places in both commands ----
  logic        goes_on, begun_q, query_ready_q, listed, attend_idle;
  verdict_t    input_verdict;
  exponent_t   query_exponent[Rows];
  logic [31:0] indexer_weight[Rows];
  wire topk_command_t topk = topk_command_t'(command_i);
  logic        query_beat_ready;
  logic        query_valid;
  row_index_t  query_row;
  word_index_t query_word;
  query_t      query[ExactLanes];

  nkv_scan_input u_scan_input (
    .clk_i           (input_clk),
    .rst_ni,
    .clear_i,
    .start_i,
    .query_i         (attend.query),
    .page_list_i     (attend.page_list),
    .tokens_i        (attend.tokens),
    .head_dim_i      (attend.head_dim),
    .group_i         (attend.group),
    .query_dtype_i   (attend.query_dtype),
    .weighted_i      (is_topk && topk.mode == SelectIndexer),
    .weights_i       (topk.weights),
    .listed_o        (listed),
    .done_o          (input_done),
    .verdict_o       (input_verdict),
    .query_exponent_o(query_exponent),
    .weight_o        (indexer_weight),
    .request_valid_o,
    .request_ready_i,
    .request_o,
    .beat_valid_i    (beat_valid_i && beat_i.tag.sink == SinkQuery),
    .beat_ready_o    (query_beat_ready),
    .beat_i,
    .query_valid_o   (query_valid),
    .query_row_o     (query_row),
    .query_word_o    (query_word),
    .query_o         (query),
    .load_o,
    .list_o,
    .loaded_i,
    .poisoned_i
  );
  assign goes_on = input_done && input_verdict.status == StatusOk;

  // ATTEND asks for pages while its query rows come; if they are no good, that was for nothing. The
  // command before may still have values to add. What ATTEND needs of its command until then is kept.
  wire refused = input_done && !goes_on;
  assign go = (goes_on || query_ready_q || (listed && !is_topk)) && attend_idle && !begun_q &&
      !refused;
  assign abandon_o = refused && begun_q;
  attend_command_t attend_q;
  exponent_t       value_exponent_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {begun_q, query_ready_q, go_q} <= '0;
    end else if (clears) begin
      {begun_q, query_ready_q, go_q} <= '0;
    end else begin
      if (goes_on) query_ready_q <= 1'b1;
      if (go) begun_q <= 1'b1;
      go_q <= go;
    end
  end
  always_ff @(posedge clk_i) begin
    if (go) begin
      attend_q <= attend;
      value_exponent_q <= value_exponent_i;
    end
  end

  // ---- Where bursts of arrays go: those of key rows that are values too, to both users at once ----
  wire is_array = beat_valid_i && beat_i.tag.sink == SinkArray;
  wire is_key_exponents = 32'(beat_i.tag.array) == PageArrayKExponents;
  wire is_key_rows = 32'(beat_i.tag.array) == PageArrayKRows;
  wire for_values = !is_topk &&
      (32'(beat_i.tag.array) inside {PageArrayVExponents, PageArrayVRows} ||
       ((is_key_exponents || is_key_rows) && beat_i.tag.keys_too));
  wire is_scales = is_topk && 32'(beat_i.tag.array) == PageArrayKeyScales;
  logic rows_ready, exponents_ready, values_ready, scales_ready;
  wire  key_side_ready = is_key_rows ? rows_ready : !is_key_exponents || exponents_ready;
  wire  value_side_ready = !for_values || values_ready;
  wire  array_ready = is_scales ? scales_ready : key_side_ready && value_side_ready;
  assign beat_ready_o = beat_i.tag.sink == SinkQuery ? query_beat_ready : array_ready;

  // ---- The exact stage: keys first, values in the cycles that they leave ----
  localparam int unsigned TokenBits = $clog2(PageTokens);
  logic        key_wants, key_valid, key_last, value_valid, value_last;
  logic [TokenBits:0] key_tag, dot_tag;
  word_index_t key_index, value_index, value_last_word;
  key_t        key[ExactLanes];
  key_t        value[ExactLanes];
  key_t        word[ExactLanes];
  logic        dot_valid;
  score_t      dot[Rows];
  weight_t     weight[Rows];
  shift_t      shift[Rows];
  units_t      units[Rows];
  logic        raise_valid, sums_ready, sums_idle, sum_read, sum_read_ready, acc_valid;
  logic [5:0]  raise[Rows];
  row_index_t  sum_row;
  logic [$clog2(Channels)-1:0] sum_channel;
  sum_t        acc;
  sum_t        z[Rows];

  // Both decoders take as long, so that words never meet.
  always_comb begin
    for (int unsigned i = 0; i < ExactLanes; i++) word[i] = value_valid ? value[i] : key[i];
  end

  nkv_exact_stage #(
    .TagBits(TokenBits + 1)
  ) u_exact (
    .clk_i               (exact_clk),
    .rst_ni,
    .query_valid_i       (query_valid),
    .query_row_i         (query_row),
    .query_word_i        (query_word),
    .query_i             (query),
    .word_valid_i        (key_valid || value_valid),
    .word_is_value_i     (value_valid),
    .word_tag_i          (key_tag),
    .word_index_i        (value_valid ? value_index : key_index),
    .word_last_i         (value_valid ? value_last : key_last),
    .word_i              (word),
    .score_valid_o       (dot_valid),
    .score_tag_o         (dot_tag),
    .score_o             (dot),
    .value_last_word_i   (value_last_word),
    .value_ready_o       (sums_ready),
    .value_idle_o        (sums_idle),
    .value_clear_i       (go),
    .value_swap_i        (set_aside),
    .value_raise_valid_i (raise_valid),
    .value_raise_i       (raise),
    .value_weight_i      (weight),
    .value_shift_i       (shift),
    .value_units_i       (units),
    .value_read_valid_i  (sum_read),
    .value_read_ready_o  (sum_read_ready),
    .value_read_row_i    (sum_row),
    .value_read_channel_i(sum_channel),
    .value_acc_valid_o   (acc_valid),
    .value_acc_o         (acc),
    .value_z_o           (z)
  );

  // ---- Exact scores ----
  logic       page_ready, score_valid, score_last, attend_scores_ready, topk_scores_ready;
  logic       attend_page_valid, topk_page_valid;
  row_form_e  attend_page_form;
  dtype_e     attend_page_dtype;
  page_body_t topk_page;
  logic [$clog2(PageTokens)-1:0] score_token;
  score_t     score[Rows];

  nkv_key_scores u_scores (
    .clk_i            (exact_clk),
    .rst_ni,
    .clear_i          (clears || abandon_o),
    .key_exponent_i,
    .head_dim_i       (dim_t'(attend.head_dim)),
    .page_valid_i     (is_topk ? topk_page_valid : attend_page_valid),
    .page_ready_o     (page_ready),
    .page_form_i      (is_topk ? topk_page.k_form : attend_page_form),
    .page_dtype_i     (is_topk ? topk_page.dtype : attend_page_dtype),
    .exponents_valid_i(is_array && is_key_exponents && value_side_ready),
    .exponents_ready_o(exponents_ready),
    .rows_valid_i     (is_array && is_key_rows && value_side_ready),
    .rows_ready_o     (rows_ready),
    .beat_i,
    .wants_o          (key_wants),
    .word_valid_o     (key_valid),
    .word_tag_o       (key_tag),
    .word_index_o     (key_index),
    .word_last_o      (key_last),
    .word_o           (key),
    .dot_valid_i      (dot_valid),
    .dot_tag_i        (dot_tag),
    .dot_i            (dot),
    .score_valid_o    (score_valid),
    .score_ready_i    (is_topk ? topk_scores_ready : attend_scores_ready),
    .score_token_o    (score_token),
    .score_last_o     (score_last),
    .score_o          (score)
  );

  // ---- ATTEND ----
  logic        attended, attend_results_left, attend_start, attend_body_ready;
  logic        ranked, topk_start, topk_body_ready;
  pass_setup_t attend_pass, topk_pass;
  outcome_t    attend_outcome, topk_outcome;

  nkv_attend u_attend (
    .clk_i           (attend_clk),
    .rst_ni,
    .clear_i         (clear_i || go || abandon_o),
    .result_clk_i    (result_clk),
    .result_clear_i  (clear_i),
    .start_i         (go_q && !is_topk),
    .query_ready_i   (query_ready_q),
    .command_i       (attend_q),
    .value_exponent_i(value_exponent_q),
    .query_exponent_i(query_exponent),
    .key_exponent_i,
    .idle_o          (attend_idle),
    .done_o          (attended),
    .outcome_o       (attend_outcome),
    .results_left_o  (attend_results_left),
    .results_o,
    .results_busy_o,
    .results_wait_i,
    .pass_start_o    (attend_start),
    .pass_o          (attend_pass),
    .pass_i,
    .body_valid_i    (body_valid_i && !is_topk),
    .body_ready_o    (attend_body_ready),
    .body_i,
    .page_valid_o    (attend_page_valid),
    .page_ready_i    (page_ready && !is_topk),
    .page_form_o     (attend_page_form),
    .page_dtype_o    (attend_page_dtype),
    .score_valid_i   (score_valid && !is_topk),
    .score_ready_o   (attend_scores_ready),
    .score_token_i   (score_token),
    .score_last_i    (score_last),
    .score_i         (score),
    .beat_valid_i    (is_array && for_values && key_side_ready),
    .beat_ready_o    (values_ready),
    .beat_i,
    .grant_i         (!key_wants),
    .word_valid_o    (value_valid),
    .word_index_o    (value_index),
    .word_last_o     (value_last),
    .word_o          (value),
    .last_word_o     (value_last_word),
    .weight_o        (weight),
    .shift_o         (shift),
    .units_o         (units),
    .raise_valid_o   (raise_valid),
    .raise_o         (raise),
    .sums_ready_i    (sums_ready),
    .sums_idle_i     (sums_idle),
    .set_aside_o     (set_aside),
    .read_valid_o    (sum_read),
    .read_ready_i    (sum_read_ready),
    .read_row_o      (sum_row),
    .read_channel_o  (sum_channel),
    .acc_valid_i     (acc_valid),
    .acc_i           (acc),
    .z_i             (z),
    .write_valid_o   (write_valid_o[0]),
    .write_ready_i   (write_ready_i[0]),
    .write_o         (write_o[0])
  );

  // ---- TOPK ----

  nkv_topk u_topk (
    .clk_i           (topk_clk),
    .rst_ni,
    .clear_i         (clears),
    .start_i         (go_q && is_topk),
    .command_i       (topk),
    .query_exponent_i(query_exponent),
    .key_exponent_i,
    .weight_i        (indexer_weight),
    .done_o          (ranked),
    .outcome_o       (topk_outcome),
    .pass_start_o    (topk_start),
    .pass_o          (topk_pass),
    .pass_i,
    .body_valid_i    (body_valid_i && is_topk),
    .body_ready_o    (topk_body_ready),
    .body_i,
    .no_rows_o       (no_rows),
    .scale_valid_i   (is_array && is_scales),
    .scale_ready_o   (scales_ready),
    .scale_i         (beat_i.data),
    .page_valid_o    (topk_page_valid),
    .page_ready_i    (page_ready && is_topk),
    .page_o          (topk_page),
    .score_valid_i   (score_valid && is_topk),
    .score_ready_o   (topk_scores_ready),
    .score_token_i   (score_token),
    .score_last_i    (score_last),
    .score_i         (score),
    .write_valid_o   (write_valid_o[1]),
    .write_ready_i   (write_ready_i[1]),
    .write_o         (write_o[1])
  );

  assign pass_start_o = attend_start || topk_start;
  assign pass_o = is_topk ? topk_pass : attend_pass;
  assign body_ready_o = is_topk ? topk_body_ready : attend_body_ready;

  assign done_o = refused || attended || ranked;
  assign results_left_o = attended && attend_results_left;
  always_comb begin
    outcome_o = is_topk ? topk_outcome : attend_outcome;
    if (refused) outcome_o = '{verdict: input_verdict, default: '0};
  end

  wire unused = ^topk_page;

endmodule
