// TOPK (ARITHMETIC.md section 6). CERTIFIED and STATISTICAL:
//
//   scan all pages --> threshold --> best 2k: their rows --> tau --> alive? --> refine planes
//        --> alive? --> ... --> rows of those left --> the best k in order
//
// SIGN and DIGEST, which scans no planes, rank the rows of their best midpoints and stop there.
// FULL reads every visible row and ranks, INDEXER too, by one score for all rows. Begins when the query rows
// and the page list are on chip. A page that fails ends the command with its verdict once the pass is over;
// nothing is written then.
//
// For ATTEND TAIL (section 7), whose command has its fields at the same places, it scans and visits the
// pages with their exact tokens, and leaves the rest to nkv_attend; for BOUNDED (section 8) visits come in
// rounds (nkv_sample_rounds).

module nkv_topk
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_scan_pkg::op_t;
  import nkv_scan_pkg::planes_t;
  import nkv_scan_pkg::scan_page_t;
  import nkv_scan_pkg::midpoint_t;
  import nkv_scan_pkg::ScanTokens;
  import nkv_topk_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,           // Before each command.

  input  logic           query_valid_i,     // Broadcast, before start_i.
  input  row_index_t     query_row_i,
  input  word_index_t    query_word_i,
  input  query_t         query_i[ExactLanes],

  input  logic           start_i,
  input  topk_command_t  command_i,         // Checked; held until done, as all that follows.
  input  logic           tail_i,            // It is an ATTEND TAIL, or BOUNDED,
  input  logic           bounded_i,
  input  logic [15:0]    value_dim_i,       // with this many channels of values.
  input  exponent_t      query_exponent_i[Rows],
  input  exponent_t      key_exponent_i,    // Ek
  input  logic [31:0]    weight_i[Rows],    // INDEXER's.
  output logic           done_o,            // For one cycle.
  output outcome_t       outcome_o,

  // Passes over pages: those in sight, or those that come as visits.
  output logic           pass_start_o,      // Of pages in sight.
  output logic           pass_clear_o,      // Before each pass.
  output pass_setup_t    pass_o,
  output logic           visits_o,          // The pass goes to visits,
  output logic           visit_valid_o,
  input  logic           visit_ready_i,
  output visit_t         visit_o,
  output logic           visits_end_o,      // of which no more will come.
  input  pass_report_t   pass_i,
  input  page_index_t    scanned_page_i,
  output logic [31:0]    scanned_crc_o,

  input  logic           body_valid_i,
  output logic           body_ready_o,
  input  page_body_t     body_i,

  output logic           scans_o,           // Bodies are those of a scan.
  output logic           no_rows_o,         // For now no row is scored.

  // Refining goes past the passes: entries are looked up, bursts asked for.
  output logic           refining_o,
  output page_index_t    entry_page_o,
  input  page_entry_t    entry_i,
  output logic           request_valid_o,
  input  logic           request_ready_i,
  output read_request_t  request_o,

  // Midpoints that do not stay on chip, to and from scratch memory.
  output logic           spill_valid_o,
  input  logic           spill_ready_i,
  output write_request_t spill_o,
  input  logic           spilled_i,         // Memory has all that was taken.
  output logic           load_valid_o,
  input  logic           load_ready_i,
  output read_request_t  load_o,
  input  logic           loaded_valid_i,    // Always taken.

  // Bursts of digests and planes.
  input  logic           beat_valid_i,
  output logic           beat_ready_o,
  input  read_beat_t     beat_i,

  input  logic           scale_valid_i,     // Bursts of KEY_SCALES.
  output logic           scale_ready_o,

  // TAIL: what nkv_attend takes of the midpoints, and pages with tokens that are not read.
  output logic           ranged_o,
  output nkv_scan_pkg::constant_t reference_o[Rows],
  output nkv_scan_pkg::shift_t    shift_o[Rows],
  output midpoint_t      highest_o[Rows],
  output midpoint_t      lowest_o[Rows],
  input  logic           visits_wait_i,     // No visit yet.
  output logic           rest_valid_o,
  input  logic           rest_ready_i,
  output visit_t         rest_o,
  input  logic           read_i,
  output logic           read_ready_o,
  input  page_index_t    read_page_i,
  input  logic [1:0]     read_word_i,
  output midpoint_t      midpoint_o[Rows][ScanTokens],
  // BOUNDED.
  output logic           hold_o,            // No further word is to be read.
  input  nkv_tail_pkg::tail_quad_t quad_i,
  input  nkv_attend_pkg::reference_t midpoint_reference_i[Rows],
  output nkv_sample_pkg::sample_orders_t orders_o,
  input  logic           sampled_ready_i,
  input  nkv_sample_pkg::sample_report_t report_i,

  // Rows to score, and their scores (nkv_key_scores).
  output logic           page_valid_o,
  input  logic           page_ready_i,
  output page_body_t     page_o,
  output token_mask_t    page_rows_o,
  input  logic           score_valid_i,
  output logic           score_ready_o,
  input  logic [$clog2(PageTokens)-1:0] score_token_i,
  input  logic           score_last_i,
  input  score_t         score_i[Rows],

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  state_e  state;
  logic    begun;         // What the state starts has been started.
  planes_t planes;        // That midpoints have.
  logic    started;       // The plane stage has been told.
  logic    all_seeds;
  logic [PageIndexBits:0] alive_pages;
  logic    scanned;

  localparam planes_t TailPlanes = 3'd2;
  wire is_indexer = !tail_i && command_i.mode == SelectIndexer;
  wire asks_alive = state inside {StAlive, StLeft};
  wire is_full = is_indexer || (!tail_i && command_i.mode == SelectFull);
  wire is_digest = !tail_i && command_i.mode == SelectDigest;
  wire is_filter = is_digest || (!tail_i && command_i.mode == SelectSign);
  wire planes_t scan_planes = tail_i ? TailPlanes : is_digest ? '0 :
      command_i.planes != '0 ? planes_t'(command_i.planes) : is_filter ? 3'd1 : planes_t'(TopkPlanes);
  wire [15:0] top_k = command_i.top_k;
  wire [15:0] candidates = command_i.candidates;
  wire [13:0] seeds_wanted = tail_i ? 14'(top_k) : !is_filter || candidates == '0 ? 14'(top_k) << 1 :
      14'(candidates < top_k ? top_k : candidates);

  // ---- Sets of tokens, and visits to them ----
  logic   feed_valid, feed_done, all_picked, rounds_done;
  visit_t feed;
  logic [PageIndexBits:0] pages;  // In sight.
  nkv_sample_pkg::rounds_outcome_t rounds;

  // ---- The plane stage ----
  op_t  op;
  logic op_valid, op_ready, aborts;
  logic tau_known[Rows];
  score_t tau_score[Rows];
  logic scan_record_valid, scan_record_ready, refine_record_valid;
  scan_page_t refine_record;
  logic scan_burst_ready;
  logic choose_valid, choose_ready, chosen_valid, chosen_ready, refined;
  page_index_t refined_page, refine_poisoned_page, load_poisoned_page;
  visit_t chosen;
  nkv_scan_pkg::constant_t reference[Rows];
  nkv_scan_pkg::shift_t shift[Rows];
  logic first_page, query_taken;

  wire in_scan = state == StScan;
  wire scan_page_t scan_record = '{
      page: body_i.page,
      tokens: body_i.tokens & ~body_i.nonfinite,
      step_exponent: body_i.k_step_exponent,
      first: first_page
  };
  wire past_planes = state inside {StFinish, StResult, StWrite, StDone};
  nkv_plane_search #(
    .KeptPages(KeptPages)
  ) u_search (
    .clk_i,
    .rst_ni,
    .clear_i,
    .needed_i      (state != StIdle && !is_full && !past_planes),
    .abort_i       (aborts),
    .head_dim_i    (command_i.head_dim),
    .query_valid_i (query_valid_i && !is_full),
    .query_row_i,
    .query_word_i,
    .query_i,
    .started_i     (started),
    .query_taken_o (query_taken),
    .op_valid_i    (op_valid),
    .op_ready_o    (op_ready),
    .op_i          (op),
    .tau_known_i   (tau_known),
    .tau_score_i   (tau_score),
    .reference_o   (reference),
    .shift_o       (shift),
    .ranged_o,
    .highest_o,
    .lowest_o,
    .read_i,
    .read_ready_o,
    .read_page_i,
    .read_word_i,
    .midpoint_o,
    .spill_valid_o,
    .spill_ready_i,
    .spill_o,
    .spilled_i,
    .fill_i        (loaded_valid_i),
    .refined_o     (refined),
    .refined_page_o(refined_page),
    .record_valid_i(scan_record_valid || refine_record_valid),
    .record_ready_o(scan_record_ready),
    .record_i      (in_scan ? scan_record : refine_record),
    .beat_valid_i  (beat_valid_i && !pass_i.failed),
    .beat_ready_o  (scan_burst_ready),
    .beat_i,
    .choose_valid_i(choose_valid),
    .choose_ready_o(choose_ready),
    .choose_i      (feed),
    .chosen_valid_o(chosen_valid),
    .chosen_ready_i(chosen_ready),
    .chosen_o      (chosen)
  );
  assign reference_o = reference;
  assign shift_o = shift;
  // A pass that failed is drained.
  assign beat_ready_o = scan_burst_ready || pass_i.failed;

  // ---- Refining ----
  logic refine_ready, refine_idle, visits_clear, refine_poisoned, load_poisoned;
  logic [31:0] refine_bursts;
  logic signed [15:0] feed_step_exponent;
  wire is_refine = state == StRefine;
  wire page_index_t poisoned_page = load_poisoned ? load_poisoned_page : refine_poisoned_page;
  nkv_refine_stream #(
    .KeptPages(KeptPages)
  ) u_refine (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i        (is_refine && !begun),
    .head_dim_i     (command_i.head_dim),
    .plane_i        (planes + 3'd1),
    .page_valid_i   (is_refine && begun && feed_valid && feed.tokens != '0),
    .page_ready_o   (refine_ready),
    .page_i         (feed),
    .step_exponent_i(feed_step_exponent),
    .entry_i,
    .pages_end_i    (feed_done),
    .record_valid_o (refine_record_valid),
    .record_ready_i (scan_record_ready),
    .record_o       (refine_record),
    .request_valid_o,
    .request_ready_i,
    .request_o,
    .beat_taken_i   (is_refine && beat_valid_i && beat_ready_o),
    .beat_i,
    .bursts_o       (refine_bursts),
    .poisoned_o     (refine_poisoned),
    .poisoned_page_o(refine_poisoned_page),
    .idle_o         (refine_idle)
  );
  assign entry_page_o = feed.page;
  assign refining_o = is_refine;
  assign scans_o = in_scan;
  assign no_rows_o = state inside {StScanOp, StScan, StTail, StSelect, StThreshold, StRank, StFreeze, StAlive,
                                     StRefine, StFinish, StResult, StWrite};

  // ---- Masks, through the plane stage or past it, to visits ----
  wire begins = !begun;
  wire through_scan = (state == StBest && !all_seeds) || asks_alive;

  nkv_topk_visits #(
    .KeptPages(KeptPages)
  ) u_visits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .command_i,
    .tail_i,
    .begun_i       (begun),
    .best_i        (state == StBest),
    .alive_i       (state == StAlive),
    .left_i        (state == StLeft),
    .refine_i      (is_refine),
    .rounds_i      (state == StRounds),
    .past_scan_i   (all_seeds),
    .seeds_apart_i (planes == scan_planes),
    .scanned_i     (scanned),
    .body_i,
    .scanned_page_i,
    .scanned_crc_o,
    .pages_o       (pages),
    .feed_valid_o  (feed_valid),
    .feed_o        (feed),
    .feed_step_exponent_o(feed_step_exponent),
    .feed_done_o   (feed_done),
    .choose_valid_o(choose_valid),
    .choose_ready_i(choose_ready),
    .chosen_valid_i(chosen_valid),
    .chosen_ready_o(chosen_ready),
    .chosen_i      (chosen),
    .refine_ready_i(refine_ready),
    .all_picked_o  (all_picked),
    .alive_pages_o (alive_pages),
    .clear_o       (visits_clear),
    .visits_o,
    .visit_valid_o,
    .visit_ready_i,
    .visit_o,
    .visits_end_o,
    .pass_i,
    .rest_valid_o,
    .rest_ready_i,
    .rest_o,
    .word_i        (read_i && read_ready_o),
    .word_page_i   (read_page_i),
    .page_words_end_i(read_word_i == '1),
    .hold_o,
    .quad_i,
    .midpoint_reference_i,
    .orders_o,
    .sampled_ready_i,
    .report_i,
    .scan_bursts_i (outcome_o.stream_bursts),
    .rounds_done_o (rounds_done),
    .rounds_o      (rounds),
    .refined_i     (refined),
    .refined_page_i(refined_page),
    .load_valid_o,
    .load_ready_i,
    .load_o,
    .loaded_valid_i,
    .loaded_i      (beat_i),
    .poisoned_o    (load_poisoned),
    .poisoned_page_o(load_poisoned_page)
  );

  // ---- Bodies: of a scan to the plane stage, of rows to the scorer ----
  logic rows_ready;
  wire  rows_pass = state inside {StBest, StLeft, StFull};

  assign body_ready_o = rows_pass ? rows_ready : in_scan && scan_record_ready;
  assign scan_record_valid = in_scan && body_valid_i;
  assign scanned = scan_record_valid && body_ready_o;

  // ---- Scores to ranks to results ----
  logic select_valid, selects_ready, full_started, all_answered, scores_over, scale_nonfinite, written;
  nkv_select_pkg::select_command_e select;
  logic [31:0] found;
  // Nobody ranks while planes pass, or for TAIL.
  wire writes_result = state inside {StResult, StWrite};
  wire ranks = !tail_i && (writes_result ||
      state inside {StSelect, StBest, StRank, StLeft, StFull, StScores, StFinish});

  nkv_topk_ranks u_ranks (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .command_i,
    .full_i          (is_full),
    .indexer_i       (is_indexer),
    .query_exponent_i,
    .key_exponent_i,
    .weight_i,
    .reference_i     (reference),
    .shift_i         (shift),
    .ranks_i         (ranks),
    .select_valid_i  (select_valid),
    .select_ready_o  (selects_ready),
    .select_i        (select),
    .started_o       (full_started),
    .answered_o      (all_answered),
    .tau_known_o     (tau_known),
    .tau_score_o     (tau_score),
    .found_o         (found),
    .idle_o          (scores_over),
    .nonfinite_o     (scale_nonfinite),
    .body_valid_i    (rows_pass && body_valid_i && !tail_i),
    .body_ready_o    (rows_ready),
    .body_i,
    .scale_valid_i,
    .scale_ready_o,
    .scale_i         (beat_i.data),
    .page_valid_o,
    .page_ready_i,
    .page_o,
    .page_rows_o,
    .score_valid_i,
    .score_ready_o,
    .score_token_i,
    .score_last_i,
    .score_i,
    .writes_i        (writes_result),
    .write_start_i   (state == StResult),
    .written_o       (written),
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  // ---- What each state starts ----
  wire passes = state inside {StScan, StFull, StBest, StLeft};
  assign pass_start_o = begins && (in_scan || state == StFull);
  assign pass_clear_o = (begins && passes) || visits_clear;
  nkv_topk_pass u_pass (
    .command_i,
    .tail_i,
    .value_dim_i,
    .planes_i   (scan_planes),
    .scan_i     (in_scan),
    .full_i     (state == StFull),
    .pass_o
  );

  wire op_now = state inside {StStart, StScanOp, StThreshold, StFreeze} ||
      through_scan || is_refine;
  assign op_valid = op_now && begins;
  nkv_topk_op u_op (
    .command_i,
    .tail_i,
    .bounded_i,
    .key_exponent_i,
    .scan_planes_i(scan_planes),
    .planes_i     (planes),
    .pages_i      (is_refine ? alive_pages : pages),
    .count_i      (seeds_wanted),
    .starts_i     (state == StStart && begins),
    // A start may wait for histograms; that it has ended does not.
    .scans_i      (state == StScanOp || (state == StStart && begun)),
    .threshold_i  (state == StThreshold),
    .best_i       (state == StBest),
    .freeze_i     (state == StFreeze),
    .alive_i      (asks_alive),
    .op_o         (op)
  );
  // An operation begins together with its feed.
  wire select_now = state inside {StSelect, StRank, StFinish};
  wire can_begin = (!op_now || op_ready) && (!select_now || selects_ready);

  assign select_valid = begins && select_now;
  assign select = state == StSelect ? nkv_select_pkg::SelectStart :
      state == StRank ? nkv_select_pkg::SelectRank : nkv_select_pkg::SelectFinish;
  assign aborts = state == StFail && begins;

  // ---- The order of all that ----
  wire progress_t progress = '{
      op_ready: op_ready,
      query_taken: query_taken,
      any_pages: pages != '0,
      visits_wait: visits_wait_i,
      rounds_done: rounds_done,
      selected: select_valid && selects_ready,
      answered: all_answered,
      full_started: full_started,
      scores_over: scores_over,
      all_picked: all_picked,
      any_alive: alive_pages != '0,
      refined: feed_done && refine_idle,
      poisoned: refine_poisoned || load_poisoned,
      written: written
  };
  nkv_topk_order u_order (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .tail_i,
    .bounded_i,
    .full_i         (is_full),
    .filter_i       (is_filter),
    .none_wanted_i  (top_k == '0),
    .seeds_wanted_i (seeds_wanted),
    .scan_planes_i  (scan_planes),
    .done_o,
    .outcome_o,
    .state_o        (state),
    .begun_o        (begun),
    .can_begin_i    (can_begin),
    .progress_i     (progress),
    .scanned_i      (scanned),
    .visible_i      (7'($countones(scan_record.tokens))),
    .started_o      (started),
    .first_page_o   (first_page),
    .all_seeds_o    (all_seeds),
    .planes_o       (planes),
    .pass_i,
    .rounds_i       (rounds),
    .refine_bursts_i(refine_bursts),
    .poisoned_page_i(poisoned_page),
    .found_i        (found),
    .nonfinite_i    (scale_nonfinite)
  );
  wire unused = ^command_i;

endmodule
