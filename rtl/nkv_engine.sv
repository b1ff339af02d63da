// One engine: takes a checked command at a time, reads pages through its own reorder buffer, writes
// results, and gives an outcome once memory has them all.
//
//   command --> command_check --> maintenance | append | scan_input --> topk | attend
//                                     |  page_list, page_pass, key_scores
//                                     `--> reader, writer --> AXI
//
// A command that makes no progress for `WatchdogCycles` ends with INTERNAL, and the engine takes no
// other until it is cleared: whatever memory does, nothing hangs.

module nkv_engine
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  parameter logic [2:0] Client = '0,
  parameter int unsigned WatchdogCycles = 262144
) (
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,        // CONTROL.RESET

  input  logic            command_valid_i,
  output logic            command_ready_o,
  input  engine_command_t command_i,
  output logic            outcome_valid_o,
  input  logic            outcome_ready_i,
  output outcome_t        outcome_o,
  output logic            fatal_o,

  output logic            ar_valid_o,
  input  logic            ar_ready_i,
  output axi_ar_t         ar_o,
  input  logic            r_valid_i,
  input  axi_r_t          r_i,
  output logic            w_valid_o,
  input  logic            w_ready_i,
  output axi_w_t          w_o,
  input  logic            b_valid_i,
  input  axi_b_t          b_i
);

  typedef enum logic [2:0] {
    StIdle,
    StCheck,
    StDispatch,
    StRun,
    StFlush,    // Until memory has all writes.
    StOutcome
  } state_e;

  state_e          state_q;
  engine_command_t command_q;
  outcome_t        outcome_q;
  logic            fatal_q;
  verdict_t        verdict;
  wire opcode_e    opcode = opcode_e'(command_q.command[7:0]);
  wire is_maintenance = opcode inside {OpcodeScrub, OpcodeErase};
  wire is_append = opcode == OpcodeAppend;
  wire is_scan = opcode inside {OpcodeTopk, OpcodeAttend};
  wire is_topk = opcode == OpcodeTopk;
  wire attend_command_t attend = attend_command_t'(command_q.command);
  wire is_tail = opcode == OpcodeAttend && attend.mode == AttendModeTail;
  wire searches = is_topk || is_tail;       // nkv_topk goes over the pages.
  wire             dispatch = state_q == StDispatch && verdict.status == StatusOk;

  assign command_ready_o = state_q == StIdle && !fatal_q;
  assign outcome_valid_o = state_q == StOutcome;
  assign outcome_o = outcome_q;
  assign fatal_o = fatal_q;

  nkv_command_check u_check (
    .clk_i,
    .valid_i  (state_q == StCheck),
    .command_i(command_q),
    .verdict_o(verdict)
  );

  // ---- Clocks of the units that a command does not always need ----
  wire  busy = state_q != StIdle;
  logic topk_clk, attend_clk, append_clk, exact_clk;
  logic no_rows;  // TOPK scores no row for now.

  nkv_idle_clock #(
    .HoldCycles(ClearCycles)
  ) u_topk_clock (
    .clk_i,
    .rst_ni,
    .busy_i((busy && searches) || clear_i),
    .clk_o (topk_clk)
  );
  nkv_idle_clock u_attend_clock (
    .clk_i,
    .rst_ni,
    .busy_i((busy && is_scan && !is_topk) || clear_i),
    .clk_o (attend_clk)
  );
  nkv_idle_clock u_append_clock (
    .clk_i,
    .rst_ni,
    .busy_i((busy && is_append) || clear_i),
    .clk_o (append_clk)
  );
  nkv_idle_clock u_exact_clock (
    .clk_i,
    .rst_ni,
    .busy_i((busy && is_scan && !(searches && no_rows)) || clear_i),
    .clk_o (exact_clk)
  );

  // ---- SCRUB and ERASE ----
  logic        maintained, maintenance_load, maintenance_start;
  outcome_t    maintenance_outcome;
  list_load_t  maintenance_list;
  pass_setup_t maintenance_pass;
  logic          loaded, poisoned, pass_done, pass_failed, pass_nonfinite;
  page_failure_t pass_failure;
  logic [31:0]   pass_bursts, pass_value_bursts, pass_sum_bursts;

  nkv_maintenance u_maintenance (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i       (dispatch && is_maintenance),
    .command_i     (pages_command_t'(command_q.command)),
    .done_o        (maintained),
    .outcome_o     (maintenance_outcome),
    .load_o        (maintenance_load),
    .list_o        (maintenance_list),
    .loaded_i      (loaded),
    .poisoned_i    (poisoned),
    .pass_start_o  (maintenance_start),
    .pass_o        (maintenance_pass),
    .pass_done_i   (pass_done),
    .pass_failed_i (pass_failed),
    .pass_failure_i(pass_failure)
  );

  // ---- APPEND ----
  logic           appended, append_load, append_beat_ready;
  logic           append_request_valid, append_request_ready;
  logic           append_write_valid, append_write_ready, writer_idle;
  outcome_t       append_outcome;
  list_load_t     append_list;
  page_index_t    append_page;
  page_entry_t    entry;
  read_request_t  append_request;
  write_request_t append_write;
  logic           beat_valid, beat_ready;
  read_beat_t     beat;

  nkv_append u_append (
    .clk_i          (append_clk),
    .rst_ni,
    .clear_i,
    .start_i        (dispatch && is_append),
    .command_i      (append_command_t'(command_q.command)),
    .domain_i       (command_q.domain),
    .done_o         (appended),
    .outcome_o      (append_outcome),
    .load_o         (append_load),
    .list_o         (append_list),
    .loaded_i       (loaded),
    .poisoned_i     (poisoned),
    .page_o         (append_page),
    .entry_i        (entry),
    .request_valid_o(append_request_valid),
    .request_ready_i(append_request_ready),
    .request_o      (append_request),
    .beat_valid_i   (beat_valid && beat.tag.sink == SinkRows),
    .beat_ready_o   (append_beat_ready),
    .beat_i         (beat),
    .write_valid_o  (append_write_valid),
    .write_ready_i  (append_write_ready),
    .write_o        (append_write),
    .writes_done_i  (writer_idle)
  );

  // ---- Query and page list of TOPK and ATTEND, whose fields for them stand at the same places ----
  logic        scan_ready, scan_load;
  verdict_t    scan_verdict;
  list_load_t  scan_list;
  exponent_t   query_exponent[Rows];
  logic        query_request_valid, query_request_ready, query_beat_ready;
  read_request_t query_request;
  logic        query_valid;
  row_index_t  query_row;
  word_index_t query_word;
  query_t      query[ExactLanes];

  nkv_scan_input u_scan_input (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i         (dispatch && is_scan),
    .query_i         (attend.query),
    .page_list_i     (attend.page_list),
    .tokens_i        (attend.tokens),
    .head_dim_i      (attend.head_dim),
    .group_i         (attend.group),
    .query_dtype_i   (attend.query_dtype),
    .done_o          (scan_ready),
    .verdict_o       (scan_verdict),
    .query_exponent_o(query_exponent),
    .request_valid_o (query_request_valid),
    .request_ready_i (query_request_ready),
    .request_o       (query_request),
    .beat_valid_i    (beat_valid && beat.tag.sink == SinkQuery),
    .beat_ready_o    (query_beat_ready),
    .beat_i          (beat),
    .query_valid_o   (query_valid),
    .query_row_o     (query_row),
    .query_word_o    (query_word),
    .query_o         (query),
    .load_o          (scan_load),
    .list_o          (scan_list),
    .loaded_i        (loaded),
    .poisoned_i      (poisoned)
  );
  wire scan_goes_on = scan_ready && scan_verdict.status == StatusOk;

  // ---- Page list and passes ----
  logic          list_request_valid, list_request_ready;
  read_request_t list_request;
  logic          refining;  // TOPK reads entries of pages that it has seen before.
  logic          scans;     // Bodies are those of a plane scan.
  page_index_t   page, refined_page;
  exponent_t     key_exponent, value_exponent;
  wire list_load_t list = is_maintenance ? maintenance_list : is_append ? append_list : scan_list;

  nkv_page_list u_list (
    .clk_i,
    .rst_ni,
    .load_i         (maintenance_load || append_load || scan_load),
    .address_i      (list.address),
    .entries_i      (list.entries),
    .loaded_o       (loaded),
    .poisoned_o     (poisoned),
    .request_valid_o(list_request_valid),
    .request_ready_i(list_request_ready),
    .request_o      (list_request),
    .beat_valid_i   (beat_valid && beat.tag.sink == SinkList),
    .beat_i         (beat),
    .page_i         (is_append ? append_page : refining ? refined_page : page),
    .entry_o        (entry),
    .k_exponent_o   (key_exponent),
    .v_exponent_o   (value_exponent)
  );

  logic        attend_start, topk_start, topk_clear, topk_visits, topk_visit_valid;
  logic        topk_visits_end;
  pass_setup_t attend_pass, topk_pass;
  wire pass_setup_t pass =
      is_maintenance ? maintenance_pass : searches ? topk_pass : attend_pass;
  logic        visit_valid, visit_ready, visits_end;
  logic [PageIndexBits:0] unused_pages;
  visit_t      visit, topk_visit;
  page_index_t scanned_page;
  logic [31:0] scanned_crc;
  // What an erased page was is seen only once memory has the zeros.
  wire may_visit = !pass.erase || writer_idle;

  nkv_visible_pages u_visits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i      (maintenance_start || attend_start || topk_start),
    .tokens_i     (pass.tokens),
    .window_i     (pass.window),
    .sinks_i      (pass.sinks),
    .pages_o      (unused_pages),
    .done_o       (visits_end),
    .visit_valid_o(visit_valid),
    .visit_ready_i(visit_ready && may_visit),
    .visit_o      (visit)
  );

  logic           pass_request_valid, pass_request_ready;
  read_request_t  pass_request;
  logic           header_ready, body_valid, body_ready, topk_body_ready;
  page_body_t     body;
  logic           erase_valid, erase_ready;
  write_request_t erase_write;

  nkv_page_pass u_pass (
    .clk_i,
    .rst_ni,
    .clear_i        (clear_i || dispatch || topk_clear),
    .domain_i       (command_q.domain),
    .demand_i       (pass.demand),
    .plan_i         (pass.plan),
    .erase_i        (pass.erase),
    .first_index_i  (pass.first_index),
    .visit_valid_i  (topk_visits ? topk_visit_valid : visit_valid && may_visit),
    .visit_ready_o  (visit_ready),
    .visit_i        (topk_visits ? topk_visit : visit),
    .visits_end_i   (topk_visits ? topk_visits_end : visits_end),
    .page_o         (page),
    .entry_i        (entry),
    .scanned_page_o (scanned_page),
    .scanned_crc_i  (scanned_crc),
    .body_valid_o   (body_valid),
    .body_ready_i   (is_maintenance || (is_topk || scans ? topk_body_ready : body_ready)),
    .body_o         (body),
    .request_valid_o(pass_request_valid),
    .request_ready_i(pass_request_ready),
    .request_o      (pass_request),
    .header_valid_i (beat_valid && beat.tag.sink == SinkHeader),
    .header_ready_o (header_ready),
    .array_taken_i  (beat_valid && beat_ready && beat.tag.sink == SinkArray && !refining),
    .beat_i         (beat),
    .write_valid_o  (erase_valid),
    .write_ready_i  (erase_ready),
    .write_o        (erase_write),
    .done_o         (pass_done),
    .bursts_o       (pass_bursts),
    .value_bursts_o (pass_value_bursts),
    .sum_bursts_o   (pass_sum_bursts),
    .nonfinite_o    (pass_nonfinite),
    .failed_o       (pass_failed),
    .failure_o      (pass_failure)
  );

  // ---- Where bursts of arrays go: those of key rows that are values too, to both users at once ----
  wire is_array = beat_valid && beat.tag.sink == SinkArray && is_scan;
  wire is_key_exponents = beat.tag.array == 4'(PageArrayKExponents);
  wire is_key_rows = beat.tag.array == 4'(PageArrayKRows);
  wire for_planes = beat.tag.array <= 4'(PageArrayKPlane3);
  wire for_values = !is_topk &&
      (beat.tag.array inside {4'(PageArrayVExponents), 4'(PageArrayVRows), 4'(PageArrayVSum)} ||
       ((is_key_exponents || is_key_rows) && beat.tag.keys_too));
  logic rows_ready, exponents_ready, values_ready, planes_ready;
  wire  key_side_ready = is_key_rows ? rows_ready : !is_key_exponents || exponents_ready;
  wire  value_side_ready = !for_values || values_ready;
  wire  array_ready =
      !is_scan || (for_planes ? planes_ready : key_side_ready && value_side_ready);

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
  logic        raise_valid, sums_ready, sums_idle, sum_read, acc_valid;
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
    .value_clear_i       (dispatch),
    .value_raise_valid_i (raise_valid),
    .value_raise_i       (raise),
    .value_weight_i      (weight),
    .value_shift_i       (shift),
    .value_units_i       (units),
    .value_read_valid_i  (sum_read),
    .value_read_row_i    (sum_row),
    .value_read_channel_i(sum_channel),
    .value_acc_valid_o   (acc_valid),
    .value_acc_o         (acc),
    .value_z_o           (z)
  );

  // ---- Exact scores ----
  logic      page_ready, score_valid, score_last, attend_scores_ready, topk_scores_ready;
  logic      attend_page_valid, topk_page_valid;
  row_form_e attend_page_form;
  token_mask_t attend_rows;
  dtype_e    attend_page_dtype;
  page_body_t topk_page;
  token_mask_t topk_rows;
  logic [$clog2(PageTokens)-1:0] score_token;
  score_t    score[Rows];

  nkv_key_scores u_scores (
    .clk_i            (exact_clk),
    .rst_ni,
    .clear_i          (clear_i || dispatch),
    .key_exponent_i   (key_exponent),
    .head_dim_i       (dim_t'(attend.head_dim)),
    .page_valid_i     (is_topk ? topk_page_valid : attend_page_valid),
    .page_ready_o     (page_ready),
    .page_form_i      (is_topk ? topk_page.k_form : attend_page_form),
    .page_dtype_i     (is_topk ? topk_page.dtype : attend_page_dtype),
    .page_rows_i      (is_topk ? topk_rows : attend_rows),
    .exponents_valid_i(is_array && is_key_exponents && value_side_ready),
    .exponents_ready_o(exponents_ready),
    .rows_valid_i     (is_array && is_key_rows && value_side_ready),
    .rows_ready_o     (rows_ready),
    .beat_i           (beat),
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
  logic           attended, attend_write_valid, attend_write_ready;
  outcome_t       attend_outcome, topk_outcome;
  // Between the plane search and what it leaves to ATTEND TAIL.
  logic           ranked, ranged, tables_built, rest_valid, rest_ready;
  logic           midpoint_read, midpoint_ready;
  visit_t         rest;
  page_index_t    midpoint_page;
  logic [1:0]     midpoint_word;
  nkv_scan_pkg::constant_t scan_reference[Rows];
  nkv_scan_pkg::shift_t    scan_shift[Rows];
  nkv_scan_pkg::midpoint_t highest[Rows], lowest[Rows];
  nkv_scan_pkg::midpoint_t midpoint[Rows][nkv_scan_pkg::ScanTokens];
  write_request_t attend_write;

  nkv_attend u_attend (
    .clk_i           (attend_clk),
    .rst_ni,
    .clear_i         (clear_i || dispatch),
    .start_i         (scan_goes_on && opcode == OpcodeAttend),
    .command_i       (attend),
    .query_exponent_i(query_exponent),
    .key_exponent_i  (key_exponent),
    .value_exponent_i(value_exponent),
    .done_o          (attended),
    .outcome_o       (attend_outcome),
    .pass_start_o    (attend_start),
    .pass_o          (attend_pass),
    .pass_done_i     (pass_done),
    .pass_failed_i   (pass_failed),
    .pass_failure_i  (pass_failure),
    .pass_bursts_i   (pass_bursts),
    .pass_nonfinite_i(pass_nonfinite),
    .searched_i      (ranked && is_tail),
    .search_outcome_i(topk_outcome),
    .midpoints_any_i (ranged),
    .reference_i     (scan_reference),
    .scan_shift_i    (scan_shift),
    .highest_i       (highest),
    .lowest_i        (lowest),
    .tables_built_o  (tables_built),
    .rest_valid_i    (rest_valid),
    .rest_ready_o    (rest_ready),
    .rest_i          (rest),
    .midpoint_read_o (midpoint_read),
    .midpoint_ready_i(midpoint_ready),
    .midpoint_page_o (midpoint_page),
    .midpoint_word_o (midpoint_word),
    .midpoint_i      (midpoint),
    .body_valid_i    (body_valid && is_scan && !is_topk && !scans),
    .body_ready_o    (body_ready),
    .body_i          (body),
    .page_valid_o    (attend_page_valid),
    .page_ready_i    (page_ready && !is_topk),
    .page_form_o     (attend_page_form),
    .page_dtype_o    (attend_page_dtype),
    .page_rows_o     (attend_rows),
    .score_valid_i   (score_valid && !is_topk),
    .score_ready_o   (attend_scores_ready),
    .score_token_i   (score_token),
    .score_last_i    (score_last),
    .score_i         (score),
    .beat_valid_i    (is_array && for_values && key_side_ready),
    .beat_ready_o    (values_ready),
    .beat_i          (beat),
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
    .read_valid_o    (sum_read),
    .read_row_o      (sum_row),
    .read_channel_o  (sum_channel),
    .acc_valid_i     (acc_valid),
    .acc_i           (acc),
    .z_i             (z),
    .write_valid_o   (attend_write_valid),
    .write_ready_i   (attend_write_ready),
    .write_o         (attend_write)
  );

  // ---- TOPK ----
  logic           topk_write_valid, topk_write_ready;
  logic           refine_request_valid, refine_request_ready;
  read_request_t  refine_request;
  write_request_t topk_write;

  nkv_topk u_topk (
    .clk_i           (topk_clk),
    .rst_ni,
    .clear_i         (clear_i || dispatch),
    .query_valid_i   (query_valid),
    .query_row_i     (query_row),
    .query_word_i    (query_word),
    .query_i         (query),
    .start_i         (scan_goes_on && searches),
    .command_i       (topk_command_t'(command_q.command)),
    .tail_i          (is_tail),
    .value_dim_i     (attend.value_dim),
    .query_exponent_i(query_exponent),
    .key_exponent_i  (key_exponent),
    .done_o          (ranked),
    .outcome_o       (topk_outcome),
    .pass_start_o    (topk_start),
    .pass_clear_o    (topk_clear),
    .pass_o          (topk_pass),
    .visits_o        (topk_visits),
    .visit_valid_o   (topk_visit_valid),
    .visit_ready_i   (visit_ready),
    .visit_o         (topk_visit),
    .visits_end_o    (topk_visits_end),
    .pass_done_i     (pass_done),
    .pass_failed_i   (pass_failed),
    .pass_failure_i  (pass_failure),
    .pass_bursts_i   (pass_bursts),
    .pass_value_bursts_i(pass_value_bursts),
    .pass_sum_bursts_i(pass_sum_bursts),
    .pass_nonfinite_i(pass_nonfinite),
    .scanned_page_i  (scanned_page),
    .scanned_crc_o   (scanned_crc),
    .body_valid_i    (body_valid && (is_topk || scans)),
    .body_ready_o    (topk_body_ready),
    .body_i          (body),
    .scans_o         (scans),
    .no_rows_o       (no_rows),
    .refining_o      (refining),
    .entry_page_o    (refined_page),
    .entry_i         (entry),
    .request_valid_o (refine_request_valid),
    .request_ready_i (refine_request_ready),
    .request_o       (refine_request),
    .beat_valid_i    (is_array && for_planes),
    .beat_ready_o    (planes_ready),
    .beat_i          (beat),
    .ranged_o        (ranged),
    .reference_o     (scan_reference),
    .shift_o         (scan_shift),
    .highest_o       (highest),
    .lowest_o        (lowest),
    .visits_wait_i   (!tables_built),
    .rest_valid_o    (rest_valid),
    .rest_ready_i    (rest_ready),
    .rest_o          (rest),
    .read_i          (midpoint_read),
    .read_ready_o    (midpoint_ready),
    .read_page_i     (midpoint_page),
    .read_word_i     (midpoint_word),
    .midpoint_o      (midpoint),
    .page_valid_o    (topk_page_valid),
    .page_ready_i    (page_ready && is_topk),
    .page_o          (topk_page),
    .page_rows_o     (topk_rows),
    .score_valid_i   (score_valid && is_topk),
    .score_ready_o   (topk_scores_ready),
    .score_token_i   (score_token),
    .score_last_i    (score_last),
    .score_i         (score),
    .write_valid_o   (topk_write_valid),
    .write_ready_i   (topk_write_ready),
    .write_o         (topk_write)
  );

  // ---- Memory, for whom everything else waits first ----
  nkv_engine_memory #(
    .Readers(5),
    .Writers(4),
    .Client(Client)
  ) u_memory (
    .clk_i,
    .rst_ni,
    .clear_i,
    .domain_i     (command_q.domain),
    .read_valid_i ({append_request_valid, refine_request_valid, pass_request_valid,
                    query_request_valid, list_request_valid}),
    .read_ready_o ({append_request_ready, refine_request_ready, pass_request_ready,
                    query_request_ready, list_request_ready}),
    .read_i       ({append_request, refine_request, pass_request, query_request, list_request}),
    .beat_valid_o (beat_valid),
    .beat_ready_i (beat_ready),
    .beat_o       (beat),
    .write_valid_i({append_write_valid, topk_write_valid, attend_write_valid, erase_valid}),
    .write_ready_o({append_write_ready, topk_write_ready, attend_write_ready, erase_ready}),
    .write_i      ({append_write, topk_write, attend_write, erase_write}),
    .writes_done_o(writer_idle),
    .ar_valid_o,
    .ar_ready_i,
    .ar_o,
    .r_valid_i,
    .r_i,
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_i
  );

  always_comb begin
    unique case (beat.tag.sink)
      SinkHeader: beat_ready = header_ready;
      SinkQuery: beat_ready = query_beat_ready;
      SinkArray: beat_ready = array_ready;
      SinkRows: beat_ready = append_beat_ready;
      default: beat_ready = 1'b1;
    endcase
  end

  wire unused_page = ^topk_page;

  // ---- The command ----
  localparam int unsigned WatchdogBits = $clog2(WatchdogCycles) + 1;
  logic [WatchdogBits-1:0] idle_cycles_q;
  wire waits = state_q inside {StRun, StFlush};
  wire progress = r_valid_i || b_valid_i || beat_valid;
  wire stuck = idle_cycles_q == WatchdogBits'(WatchdogCycles);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      command_q <= '0;
      outcome_q <= '0;
      fatal_q <= 1'b0;
      idle_cycles_q <= '0;
    end else if (clear_i) begin
      state_q <= StIdle;
      fatal_q <= 1'b0;
    end else begin
      idle_cycles_q <= waits && !progress ? idle_cycles_q + 1'b1 : '0;
      unique case (state_q)
        StIdle: begin
          command_q <= command_i;
          if (command_valid_i && command_ready_o) state_q <= StCheck;
        end
        StCheck: state_q <= StDispatch;
        StDispatch: begin
          outcome_q <= '0;
          outcome_q.verdict <= verdict;
          state_q <= dispatch && (is_maintenance || is_append || is_scan) ? StRun : StOutcome;
        end
        StRun: begin
          if (maintained) begin
            outcome_q <= maintenance_outcome;
            state_q <= StFlush;
          end
          if (appended) begin
            outcome_q <= append_outcome;
            state_q <= StFlush;
          end
          if (attended) begin
            outcome_q <= attend_outcome;
            state_q <= StFlush;
          end
          if (ranked && is_topk) begin
            outcome_q <= topk_outcome;
            state_q <= StFlush;
          end
          if (scan_ready && !scan_goes_on) begin
            outcome_q.verdict <= scan_verdict;
            state_q <= StFlush;
          end
        end
        StFlush: if (writer_idle) state_q <= StOutcome;
        StOutcome: if (outcome_ready_i) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
      if (waits && stuck) begin
        state_q <= StOutcome;
        fatal_q <= 1'b1;
        outcome_q <= '0;
        outcome_q.verdict.status <= StatusInternal;
      end
    end
  end

endmodule
