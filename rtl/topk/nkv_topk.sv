// TOPK (ARITHMETIC.md section 6). CERTIFIED and STATISTICAL:
//
//   scan all pages --> threshold --> best 2k: their rows --> tau --> alive? --> refine planes
//        --> alive? --> ... --> rows of those left --> the best k in order
//
// FULL reads every visible row and ranks. Begins when the query rows and the page list are on chip. A
// page that fails ends the command with its verdict once the pass is over; nothing is written then.

module nkv_topk
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_scan_pkg::op_t;
  import nkv_scan_pkg::op_e;
  import nkv_scan_pkg::planes_t;
  import nkv_scan_pkg::scan_page_t;
  import nkv_scan_pkg::burst_tag_t;
  import nkv_scan_pkg::page_tokens_t;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,           // Before each command.

  input  logic           query_valid_i,     // Broadcast, before start_i.
  input  row_index_t     query_row_i,
  input  word_index_t    query_word_i,
  input  query_t         query_i[ExactLanes],

  input  logic           start_i,
  input  topk_command_t  command_i,         // Checked; held until done, as all that follows.
  input  exponent_t      query_exponent_i[Rows],
  input  exponent_t      key_exponent_i,    // Ek
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
  input  logic           pass_done_i,
  input  logic           pass_failed_i,
  input  page_failure_t  pass_failure_i,
  input  logic [31:0]    pass_bursts_i,
  input  logic           pass_nonfinite_i,
  input  page_index_t    scanned_page_i,
  output logic [31:0]    scanned_crc_o,

  input  logic           body_valid_i,
  output logic           body_ready_o,
  input  page_body_t     body_i,

  output logic           no_rows_o,         // For now no row is scored.

  // Refining goes past the passes: entries are looked up, bursts asked for.
  output logic           refining_o,
  output page_index_t    entry_page_o,
  input  page_entry_t    entry_i,
  output logic           request_valid_o,
  input  logic           request_ready_i,
  output read_request_t  request_o,

  // Bursts of digests and planes.
  input  logic           beat_valid_i,
  output logic           beat_ready_o,
  input  read_beat_t     beat_i,

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

  typedef enum logic [4:0] {
    StIdle,
    StStart,       // The plane stage is told what holds for the command.
    StScanOp,
    StScan,
    StSelect,      // Selectors begin; in FULL only if no row has begun them.
    StThreshold,
    StBest,        // The best 2k midpoints, and their rows.
    StRank,        // The k-th best score of each row.
    StFreeze,
    StAlive,       // Who may still reach it, with the planes so far.
    StRefine,
    StLeft,        // Rows of those left.
    StFull,        // FULL: all rows.
    StScores,      // Until the last score is ranked.
    StFinish,
    StResult,
    StWrite,
    StFail,
    StDone
  } state_e;

  state_e  state_q, after_scores_q;
  logic    begun_q;       // What the state starts has been started.
  planes_t planes_q;      // That midpoints have.
  logic    all_seeds_q;
  logic [ListTokensLog2:0] visible_q;
  logic [PageIndexBits:0]  alive_pages;
  outcome_t outcome_q;

  wire is_full = command_i.mode == SelectFull;
  wire planes_t scan_planes =
      command_i.planes == '0 ? planes_t'(TopkPlanes) : planes_t'(command_i.planes);
  wire [15:0] top_k = command_i.top_k;
  wire [13:0] seeds_wanted = 14'(top_k) << 1;

  // ---- The query waits for the plane stage's start ----
  typedef struct packed {
    row_index_t  row;
    word_index_t word;
    logic [ExactLanes-1:0][QueryBits-1:0] data;
  } query_word_t;
  query_word_t query_in, query_out;
  logic query_out_valid, query_out_ready, unused_query_ready;
  logic [$clog2(Rows*RowWords):0] unused_query_used;
  always_comb begin
    query_in.row = query_row_i;
    query_in.word = query_word_i;
    for (int unsigned i = 0; i < ExactLanes; i++) query_in.data[i] = query_i[i];
  end
  nkv_fifo #(
    .T(query_word_t),
    .Depth(Rows * RowWords)
  ) u_query (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (query_valid_i && !is_full),
    .in_ready_o (unused_query_ready),
    .in_data_i  (query_in),
    .out_valid_o(query_out_valid),
    .out_ready_i(query_out_ready && started_q),
    .out_data_o (query_out),
    .used_o     (unused_query_used)
  );
  logic started_q;  // OpStart has been taken.

  // ---- Sets of tokens ----
  logic        feed_start, feed_valid, feed_ready, feed_done, set_write;
  visit_t      feed, set_tokens;
  page_index_t feed_page;
  logic [PageIndexBits:0] pages;  // In sight.
  token_mask_t visible, set;
  logic signed [15:0] step_exponent;

  nkv_page_feed u_feed (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i       (feed_start),
    .tokens_i      (command_i.tokens),
    .window_i      (command_i.window),
    .sinks_i       (command_i.sinks),
    .take_visible_i(state_q == StBest || (state_q == StAlive && planes_q == scan_planes)),
    .take_set_i    (state_q != StBest),
    .page_o        (feed_page),
    .visible_i     (visible),
    .set_i         (set),
    .valid_o       (feed_valid),
    .ready_i       (feed_ready),
    .visit_o       (feed),
    .done_o        (feed_done),
    .pages_o       (pages)
  );

  nkv_page_set u_set (
    .clk_i,
    .scanned_i      (body_valid_i && body_ready_o && state_q == StScan),
    .body_i,
    .set_i          (set_write),
    .set_tokens_i   (set_tokens),
    .page_i         (feed_page),
    .visible_o      (visible),
    .set_o          (set),
    .step_exponent_o(step_exponent),
    .crc_page_i     (scanned_page_i),
    .crc_hot_o      (scanned_crc_o)
  );

  // ---- The plane stage ----
  op_t  op;
  logic op_valid, op_ready, aborts;
  logic tau_known[Rows];
  score_t tau_score[Rows];
  logic scan_record_valid, scan_record_ready, refine_record_valid;
  scan_page_t refine_record;
  logic scan_burst_ready;
  burst_tag_t burst_tag;
  logic choose_valid, choose_ready, chosen_valid, chosen_ready;
  page_tokens_t chosen;
  nkv_scan_pkg::bin_t unused_threshold[Rows];
  nkv_scan_pkg::midpoint_t unused_tau[Rows];
  nkv_scan_pkg::constant_t reference[Rows];
  nkv_scan_pkg::shift_t shift[Rows];
  nkv_scan_pkg::midpoint_t unused_midpoint[Rows][nkv_scan_pkg::ScanTokens];
  logic first_page_q;

  wire in_scan = state_q == StScan;
  wire scan_page_t scan_record = '{
      page: body_i.page,
      tokens: body_i.tokens & ~body_i.nonfinite,
      step_exponent: body_i.k_step_exponent,
      first: first_page_q
  };

  // Its histograms are cleared after its last operation of a command.
  logic scan_clk;
  nkv_idle_clock #(
    .HoldCycles(ClearCycles)
  ) u_scan_clock (
    .clk_i,
    .rst_ni,
    .busy_i((state_q != StIdle && !is_full && !past_planes) || clear_i),
    .clk_o (scan_clk)
  );
  wire past_planes = state_q inside {StLeft, StFinish, StResult, StWrite, StDone};

  // Records wait here, so that digests are asked for long before their page is taken up.
  logic waiting_valid, waiting_pop;
  logic [2:0] unused_waiting_used;
  scan_page_t waiting;
  nkv_fifo #(
    .T(scan_page_t),
    .Depth(4)
  ) u_records (
    .clk_i,
    .rst_ni,
    .clear_i    (clear_i || aborts),
    .in_valid_i (scan_record_valid || refine_record_valid),
    .in_ready_o (scan_record_ready),
    .in_data_i  (in_scan ? scan_record : refine_record),
    .out_valid_o(waiting_valid),
    .out_ready_i(waiting_pop),
    .out_data_o (waiting),
    .used_o     (unused_waiting_used)
  );

  nkv_scan u_scan (
    .clk_i         (scan_clk),
    .rst_ni,
    .abort_i       (aborts),
    .op_valid_i    (op_valid),
    .op_ready_o    (op_ready),
    .op_i          (op),
    .tau_known_i   (tau_known),
    .tau_score_i   (tau_score),
    .query_valid_i (query_out_valid && started_q),
    .query_ready_o (query_out_ready),
    .query_row_i   (query_out.row),
    .query_word_i  (query_out.word),
    .query_data_i  (query_out.data),
    .record_valid_i(waiting_valid),
    .record_ready_o(waiting_pop),
    .record_i      (waiting),
    .burst_valid_i (beat_valid_i && !pass_failed_i),
    .burst_ready_o (scan_burst_ready),
    .burst_data_i  (beat_i.data),
    .burst_tag_i   (burst_tag),
    .choose_valid_i(choose_valid),
    .choose_ready_o(choose_ready),
    .choose_i      ('{page: feed.page, tokens: feed.tokens}),
    .chosen_valid_o(chosen_valid),
    .chosen_ready_i(chosen_ready),
    .chosen_o      (chosen),
    .threshold_o   (unused_threshold),
    .tau_o         (unused_tau),
    .reference_o   (reference),
    .shift_o       (shift),
    .read_i        (1'b0),
    .read_page_i   ('0),
    .read_word_i   ('0),
    .midpoint_o    (unused_midpoint)
  );
  // A pass that failed is drained.
  assign beat_ready_o = scan_burst_ready || pass_failed_i;

  // Which granule a burst of a plane belongs to.
  localparam int unsigned TokenBits = $clog2(PageTokens);
  logic [TokenBits-1:0] token_q;
  logic [3:0] burst_q;
  wire [TokenBits-1:0] token = beat_i.first ? beat_i.tag.token : token_q;
  wire [3:0] burst = beat_i.first ? '0 : burst_q;
  wire is_plane = beat_i.tag.array != 4'(PageArrayKDigest);
  assign burst_tag = '{
      kind: is_plane ? nkv_scan_pkg::BurstPlane : nkv_scan_pkg::BurstDigest,
      plane: is_plane ? planes_t'(beat_i.tag.array - 4'(PageArrayKPlane0)) + 3'd1 : '0,
      quad: nkv_scan_pkg::quad_t'(token >> $clog2(PlaneTokens)),
      last: beat_i.last && beat_i.tag.page_last
  };
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      token_q <= '0;
      burst_q <= '0;
    end else if (beat_valid_i && beat_ready_o) begin
      if (burst + 4'd1 == granule_bursts(command_i.head_dim)) begin
        burst_q <= '0;
        token_q <= token + (TokenBits'(1) << granule_log2(command_i.head_dim));
      end else begin
        burst_q <= burst + 4'd1;
        token_q <= token;
      end
    end
  end

  // ---- Refining ----
  logic refine_ready, refine_idle;
  logic [31:0] refine_bursts;
  wire is_refine = state_q == StRefine;

  nkv_refine_stream u_refine (
    .clk_i,
    .rst_ni,
    .clear_i        (clear_i || (is_refine && !begun_q)),
    .head_dim_i     (command_i.head_dim),
    .plane_i        (planes_q + 3'd1),
    .flush_i        (feed_done),
    .page_valid_i   (is_refine && begun_q && feed_valid && feed.tokens != '0),
    .page_ready_o   (refine_ready),
    .page_i         (feed),
    .entry_i,
    .step_exponent_i(step_exponent),
    .record_valid_o (refine_record_valid),
    .record_ready_i (scan_record_ready),
    .record_o       (refine_record),
    .request_valid_o,
    .request_ready_i,
    .request_o,
    .bursts_o       (refine_bursts),
    .idle_o         (refine_idle)
  );
  assign entry_page_o = feed.page;
  assign refining_o = is_refine;
  assign no_rows_o = state_q inside {StScanOp, StScan, StSelect, StThreshold, StRank, StFreeze, StAlive,
                                     StRefine, StFinish, StResult, StWrite};

  // Bursts that refining has asked for and that have not come, and whether one came with poison.
  logic [11:0] refine_due_q;
  logic        poison_q;
  page_index_t poison_page_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      refine_due_q <= '0;
      poison_q <= 1'b0;
      poison_page_q <= '0;
    end else if (clear_i) begin
      refine_due_q <= '0;
      poison_q <= 1'b0;
    end else if (is_refine) begin
      refine_due_q <= refine_due_q + 12'(request_valid_o && request_ready_i) -
          12'(beat_valid_i && beat_ready_o && beat_i.last);
      if (beat_valid_i && beat_ready_o && beat_i.poison &&
          (!poison_q || beat_i.tag.page < poison_page_q)) begin
        poison_q <= 1'b1;
        poison_page_q <= beat_i.tag.page;
      end
    end
  end

  // ---- Masks from the feed, through the plane stage or past it ----
  wire through_scan = (state_q == StBest && !all_seeds_q) || state_q == StAlive;
  wire past_scan = (state_q == StBest && all_seeds_q) || state_q == StLeft;
  wire visit_t picked = past_scan ? feed : '{page: chosen.page, tokens: chosen.tokens};
  wire picked_valid = past_scan ? feed_valid && begun_q : chosen_valid;
  wire picked_ready = state_q == StAlive || picked.tokens == '0 || visit_ready_i;
  wire picked_taken = picked_valid && picked_ready;

  assign choose_valid = through_scan && begun_q && feed_valid;
  assign chosen_ready = picked_ready;
  always_comb begin
    feed_ready = 1'b0;
    if (through_scan) feed_ready = begun_q && choose_ready;
    else if (past_scan) feed_ready = begun_q && picked_ready;
    else if (is_refine) feed_ready = begun_q && (feed.tokens == '0 || refine_ready);
  end
  assign set_write = picked_taken && (state_q == StBest || state_q == StAlive);
  assign set_tokens = picked;

  logic [PageIndexBits:0] picked_q;
  wire all_picked = picked_q == pages;
  assign visits_o = state_q inside {StBest, StLeft};
  assign visit_valid_o = visits_o && picked_valid && picked.tokens != '0;
  assign visit_o = picked;
  assign visits_end_o = begun_q && all_picked;

  // ---- Bodies: of a scan to the plane stage, of rows to the scorer ----
  logic bodies_valid, bodies_pop, bodies_ready;
  page_body_t scored_body;
  logic page_fifo_ready;
  logic [3:0] unused_page_used, bodies_used;
  wire rows_pass = state_q inside {StBest, StLeft, StFull};

  assign body_ready_o = rows_pass ? page_fifo_ready && bodies_ready : in_scan && scan_record_ready;
  assign scan_record_valid = in_scan && body_valid_i;
  wire rows_body = rows_pass && body_valid_i && body_ready_o;

  nkv_fifo #(
    .T(page_body_t),
    .Depth(8)
  ) u_pages (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (rows_body),
    .in_ready_o (page_fifo_ready),
    .in_data_i  (body_i),
    .out_valid_o(page_valid_o),
    .out_ready_i(page_ready_i),
    .out_data_o (page_o),
    .used_o     (unused_page_used)
  );
  assign page_rows_o = is_full ? '1 : page_o.tokens;

  nkv_fifo #(
    .T(page_body_t),
    .Depth(8)
  ) u_bodies (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (rows_body),
    .in_ready_o (bodies_ready),
    .in_data_i  (body_i),
    .out_valid_o(bodies_valid),
    .out_ready_i(bodies_pop),
    .out_data_o (scored_body),
    .used_o     (bodies_used)
  );

  // ---- Selectors, one for each row in use ----
  logic select_valid;
  nkv_select_pkg::select_command_e select;
  logic [Rows-1:0] select_ready, select_in_ready, answered_q, out_valid, in_use;
  score_t out_score[Rows];
  nkv_select_pkg::token_t out_token[Rows];
  logic [15:0] count_q[Rows];
  row_index_t result_row;
  logic result_pop;

  wire is_candidate = scored_body.tokens[score_token_i] && !scored_body.nonfinite[score_token_i];
  wire in_ready_all = &(select_in_ready | ~in_use);
  assign score_ready_o =
      bodies_valid && (!is_candidate || (in_ready_all && (!is_full || full_started_q)));
  wire score_taken = score_valid_i && score_ready_o;
  assign bodies_pop = score_taken && score_last_i;
  wire nkv_select_pkg::token_t token_id = nkv_select_pkg::token_t'({scored_body.page, score_token_i});
  wire selects_idle = &(select_ready | ~in_use);

  // FULL knows no midpoints, so its bins are laid by the first token's scores: the largest of them
  // falls 128 bins from the reference.
  logic full_started_q;
  wire  full_start = is_full && state_q inside {StFull, StScores} && bodies_valid &&
      score_valid_i && is_candidate && selects_idle && !full_started_q;
  localparam int unsigned FirstBits = 11;
  logic [ScoreBits-1:PlaneWeightShift] first_magnitude;
  logic [5:0] first_shift;
  always_comb begin
    first_magnitude = '0;
    for (int unsigned r = 0; r < Rows; r++) begin
      first_magnitude |= score_i[r][ScoreBits-1:PlaneWeightShift] ^
          {(ScoreBits - PlaneWeightShift) {score_i[r][ScoreBits-1]}};
    end
    first_shift = '0;
    for (int unsigned i = FirstBits; i < ScoreBits - PlaneWeightShift; i++) begin
      if (first_magnitude[PlaneWeightShift+i]) first_shift = 6'(i - FirstBits + 1);
    end
  end

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    logic answer_valid, answer_found, unused_out_last;
    score_t answer_score;
    logic [13:0] answer_count;
    assign in_use[r] = group_t'(r) < group_t'(command_i.group);

    nkv_select u_select (
      .clk_i,
      .rst_ni,
      .command_valid_i(select_valid && in_use[r]),
      .command_ready_o(select_ready[r]),
      .command_i      (select),
      .k_i            (top_k[12:0]),
      .reference_i    (is_full ? 31'(signed'(score_i[r][ScoreBits-1:PlaneWeightShift])) :
                       31'(reference[r])),
      .shift_i        (is_full ? first_shift : 6'(shift[r])),
      .in_valid_i     (score_taken && is_candidate && in_use[r]),
      .in_ready_o     (select_in_ready[r]),
      .in_score_i     (score_i[r]),
      .in_token_i     (token_id),
      .answer_valid_o (answer_valid),
      .answer_found_o (answer_found),
      .answer_score_o (answer_score),
      .answer_count_o (answer_count),
      .out_valid_o    (out_valid[r]),
      .out_ready_i    (result_pop && result_row == row_index_t'(r)),
      .out_last_o     (unused_out_last),
      .out_score_o    (out_score[r]),
      .out_token_o    (out_token[r])
    );

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        answered_q[r] <= 1'b0;
        tau_known[r] <= 1'b0;
        tau_score[r] <= '0;
        count_q[r] <= '0;
      end else if (select_valid) begin
        answered_q[r] <= !in_use[r];
      end else if (answer_valid) begin
        answered_q[r] <= 1'b1;
        tau_known[r] <= answer_found;
        tau_score[r] <= answer_score;
        count_q[r] <= 16'(answer_count);
      end
    end
  end

  // ---- Results ----
  logic written;
  logic [31:0] found;
  always_comb begin
    found = '0;
    for (int unsigned r = 0; r < Rows; r++) if (in_use[r]) found += 32'(count_q[r]);
  end

  nkv_topk_result u_result (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i         (state_q == StResult),
    .address_i       (command_i.result),
    .rows_i          (group_t'(command_i.group)),
    .top_k_i         (top_k),
    .scale_i         (command_i.scale),
    .query_exponent_i,
    .key_exponent_i,
    .count_i         (count_q),
    .done_o          (written),
    .row_o           (result_row),
    .token_valid_i   (out_valid[result_row]),
    .token_ready_o   (result_pop),
    .token_i         (out_token[result_row]),
    .token_score_i   (out_score[result_row]),
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  // ---- What each state starts ----
  logic [PageArrayCount-1:0] exponents_only, full_arrays;
  always_comb begin
    exponents_only = '0;
    exponents_only[PageArrayKExponents] = 1'b1;
    full_arrays = exponents_only;
    full_arrays[PageArrayKRows] = 1'b1;
    full_arrays[PageArrayKeyScales] = 1'b1;
  end

  wire passes = state_q inside {StScan, StFull, StBest, StLeft};
  wire begins = !begun_q;
  assign pass_start_o = begins && (in_scan || state_q == StFull);
  assign pass_clear_o = begins && passes;
  assign pass_o = '{
      tokens: command_i.tokens,
      window: command_i.window,
      sinks: command_i.sinks,
      first_index: '0,
      demand: '{
          whole_header: !in_scan,
          any_codec: 1'b0,
          keys: in_scan || state_q == StFull,
          values: 1'b0,
          head_dim: command_i.head_dim,
          value_dim: '0
      },
      plan: '{
          whole: state_q == StFull ? full_arrays : exponents_only,
          compressed: 1'b0,
          rows: state_q inside {StBest, StLeft},
          scan: in_scan,
          planes: scan_planes
      },
      erase: 1'b0
  };
  assign feed_start = begins && state_q inside {StBest, StAlive, StRefine, StLeft};

  wire op_now = state_q inside {StStart, StScanOp, StThreshold, StFreeze} ||
      ((state_q == StBest && !all_seeds_q) || state_q == StAlive || is_refine);
  assign op_valid = op_now && begins;
  always_comb begin
    op = '0;
    op.settings = '{
        rows: group_t'(command_i.group),
        blocks: command_i.head_dim[7:4],
        planes: scan_planes,
        statistical: command_i.mode == SelectStatistical,
        z: command_i.z == '0 ? 8'd64 : command_i.z,
        key_exponent: key_exponent_i
    };
    op.pages = is_refine ? alive_pages : pages;
    op.planes = is_refine ? planes_q + 3'd1 : planes_q;
    op.count = seeds_wanted;
    unique case (state_q)
      // A start may wait for histograms; that it has ended does not.
      StStart: op.op = begun_q ? nkv_scan_pkg::OpScan : nkv_scan_pkg::OpStart;
      StScanOp: op.op = nkv_scan_pkg::OpScan;
      StThreshold: op.op = nkv_scan_pkg::OpThreshold;
      StBest: op.op = nkv_scan_pkg::OpBest;
      StFreeze: op.op = nkv_scan_pkg::OpFreeze;
      StAlive: op.op = nkv_scan_pkg::OpAlive;
      default: op.op = nkv_scan_pkg::OpRefine;
    endcase
  end
  // An operation begins together with its feed.
  wire select_now = state_q inside {StSelect, StRank, StFinish};
  wire can_begin = (!op_now || op_ready) && (!select_now || selects_idle);

  assign select_valid = full_start || (begins && selects_idle && select_now);
  assign select = state_q inside {StSelect, StFull, StScores} ? nkv_select_pkg::SelectStart :
      state_q == StRank ? nkv_select_pkg::SelectRank : nkv_select_pkg::SelectFinish;
  wire answered = begun_q && &answered_q;
  assign aborts = state_q == StFail && begins;

  wire scores_over = !page_valid_o && bodies_used == '0;
  wire [6:0] visible_now = 7'($countones(body_i.tokens & ~body_i.nonfinite));
  wire op_over = begun_q && op_ready;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      after_scores_q <= StIdle;
      begun_q <= 1'b0;
      planes_q <= '0;
      all_seeds_q <= 1'b0;
      visible_q <= '0;
      alive_pages <= '0;
      picked_q <= '0;
      first_page_q <= 1'b0;
      started_q <= 1'b0;
      full_started_q <= 1'b0;
      outcome_q <= '0;
      done_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      begun_q <= 1'b0;
      started_q <= 1'b0;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      if (state_q != StIdle && begins && can_begin) begun_q <= 1'b1;
      if (in_scan && body_valid_i && body_ready_o) begin
        first_page_q <= 1'b0;
        visible_q <= visible_q + (ListTokensLog2 + 1)'(visible_now);
      end
      if (full_start) full_started_q <= 1'b1;
      if (picked_taken) begin
        picked_q <= picked_q + 1'b1;
        if (state_q == StAlive && picked.tokens != '0) alive_pages <= alive_pages + 1'b1;
      end
      unique case (state_q)
        StIdle: begin
          begun_q <= 1'b0;
          outcome_q <= '0;
          visible_q <= '0;
          first_page_q <= 1'b1;
          planes_q <= scan_planes;
          full_started_q <= 1'b0;
          if (start_i) state_q <= is_full ? StFull : StStart;
        end
        StStart: begin
          if (begins && op_ready) started_q <= 1'b1;
          if (op_over && !query_out_valid) go_to(pages == '0 ? StSelect : StScanOp);
        end
        StScanOp: if (begins && op_ready) go_to(StScan);
        StScan: begin
          if (begun_q && pass_done_i) begin
            outcome_q.stream_bursts <= pass_bursts_i;
            outcome_q.flags[CompletionFlagNonfinite] <= pass_nonfinite_i;
            if (pass_failed_i) go_to(StFail);
            else if (op_ready) go_to(StSelect);
          end
        end
        StSelect: begin
          all_seeds_q <= visible_q <= (ListTokensLog2 + 1)'(seeds_wanted);
          if (select_valid) begin
            if (visible_q == '0) go_to(StFinish);
            else if (visible_q <= (ListTokensLog2 + 1)'(seeds_wanted)) go_to(StBest);
            else go_to(StThreshold);
          end
        end
        StThreshold: if (op_over) go_to(StBest);
        StBest: begin
          after_scores_q <= all_seeds_q ? StFinish : StRank;
          if (begun_q && pass_done_i && (all_seeds_q || op_ready)) begin
            outcome_q.exact_bursts <= pass_bursts_i;
            go_to(StScores);
          end
        end
        StScores: begin
          if (scores_over) begin
            go_to(pass_failed_i ? StFail :
                  is_full ? (full_started_q ? StFinish : StSelect) : after_scores_q);
          end
        end
        StRank: if (answered) go_to(StFreeze);
        StFreeze: if (op_over) go_to(StAlive);
        StAlive: begin
          if (op_over && all_picked) begin
            if (alive_pages == '0) go_to(StFinish);
            else go_to(planes_q == planes_t'(KeyPlanes) ? StLeft : StRefine);
          end
        end
        StRefine: begin
          if (op_over && feed_done && refine_idle && refine_due_q == '0) begin
            outcome_q.refine_bursts <= outcome_q.refine_bursts + refine_bursts;
            planes_q <= planes_q + 3'd1;
            go_to(poison_q ? StFail : StAlive);
          end
        end
        StLeft: begin
          after_scores_q <= StFinish;
          if (begun_q && pass_done_i) begin
            outcome_q.exact_bursts <= outcome_q.exact_bursts + pass_bursts_i;
            go_to(StScores);
          end
        end
        StFull: begin
          if (begun_q && pass_done_i) begin
            outcome_q.stream_bursts <= pass_bursts_i;
            outcome_q.flags[CompletionFlagNonfinite] <= pass_nonfinite_i;
            go_to(StScores);
          end
        end
        StFinish: if (answered) go_to(StResult);
        StResult: begin
          outcome_q.count <= found;
          go_to(StWrite);
        end
        StWrite: if (written) go_to(StDone);
        StFail: begin
          outcome_q <= '0;
          outcome_q.verdict <= poison_q ?
              verdict_t'({StatusPoison, 64'(poison_page_q)}) :
              verdict_t'({pass_failure_i.status, 64'(pass_failure_i.index)});
          go_to(StDone);
        end
        StDone: begin
          state_q <= StIdle;
          done_o <= 1'b1;
        end
        default: state_q <= StIdle;
      endcase
    end
  end

  task automatic go_to(state_e state);
    state_q <= state;
    begun_q <= 1'b0;
    picked_q <= '0;
    if (state == StAlive) alive_pages <= '0;
  endtask

  assign outcome_o = outcome_q;

  wire unused = ^{command_i, beat_i.fault, scored_body};

endmodule
