// The plane stage of the engine (ARITHMETIC.md, sections 5 to 5.4, steps 1 to 3 of section 6):
// scans pages into stored midpoints, finds thresholds, tells which tokens to read, sharpens what is
// left.
//
// One operation at a time: op_ready_o is high again when it is done. A command is OpStart (with the
// query at any time after it), OpScan, and then whatever it needs in any order. Cycles:
//   OpStart      66; it waits up to 340 cycles for the one before (4,200 after reset)
//   OpScan       per page the largest of its bursts, 32, and 16 * L0; about 90 at the ends
//   OpThreshold  140
//   OpBest/Alive 4 a page with tokens, 1 without; 8 at the end
//   OpFreeze     12
//   OpRefine     per page the larger of its bursts and 16; about 100 at the ends
//   query        4 a beat (one row, 32 channels)
//
// What OpScan and OpRefine read comes as page records, one a page, and as one stream of bursts. A
// page's digest should come two pages before its planes, so that the weights and tables of the next
// pages are made while the planes of one pass; three pages is the most. OpRefine needs no digests: the
// weights of the first KeptPages pages were kept. Those behind them are as in OpScan: their digests come
// again, and a page takes 32 cycles. OpScan of no planes takes digests alone, of which midpoints are
// ceilings.
//
// Midpoints of pages behind those go to scratch memory, and come back by fill_i before they are wanted.

module nkv_scan
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages,
  localparam int unsigned QueryBits = nkv_abi_pkg::QueryBits,
  localparam int unsigned WordBits = $clog2(Words)
) (
  input  logic clk_i,
  input  logic rst_ni,

  // Ends the operation that runs; the next one is an OpStart. What comes meanwhile is lost.
  input  logic   abort_i,

  input  logic   op_valid_i,
  output logic   op_ready_o,
  input  op_t    op_i,
  input  logic   tau_known_i[Rows],  // With OpFreeze: there are top_k seeds,
  input  score_t tau_score_i[Rows],  // and this is the score of the top_k-th best

  // The query, after OpStart: integers of 32 channels of a row, zero from head_dim on.
  input  logic                                   query_valid_i,
  output logic                                   query_ready_o,
  input  row_t                                   query_row_i,
  input  logic [WordBits-1:0]                    query_word_i,
  input  logic [WordChannels-1:0][QueryBits-1:0] query_data_i,

  // OpScan and OpRefine.
  input  logic         record_valid_i,
  output logic         record_ready_o,
  input  scan_page_t record_i,
  input  logic         burst_valid_i,
  output logic         burst_ready_o,
  input  burst_t       burst_data_i,
  input  burst_tag_t   burst_tag_i,

  // OpBest and OpAlive: tokens to choose from, and those chosen.
  input  logic         choose_valid_i,
  output logic         choose_ready_o,
  input  page_tokens_t choose_i,
  output logic         chosen_valid_o,
  input  logic         chosen_ready_i,
  output page_tokens_t chosen_o,

  // Of the last OpThreshold, OpFreeze and OpScan.
  output bin_t      threshold_o[Rows],
  output midpoint_t tau_o[Rows],
  output constant_t reference_o[Rows],
  output shift_t    shift_o[Rows],

  // What midpoints a tail's reference comes from, since OpStart.
  output logic      ranged_o,
  output midpoint_t highest_o[Rows],
  output midpoint_t lowest_o[Rows],

  // A word of midpoints, 16 tokens of all rows, two cycles after the read is granted, for a cycle.
  input  logic       read_i,
  output logic       read_ready_o,
  input  page_t      read_page_i,
  input  logic [1:0] read_word_i,
  output midpoint_t  midpoint_o[Rows][ScanTokens],

  // Midpoints to scratch memory, and back, 4 tokens of all rows at a time.
  output logic           spill_valid_o,
  input  logic           spill_ready_i,
  output write_request_t spill_o,
  input  logic           spilled_i,     // Memory has all that was taken.
  input  logic           fill_i,
  input  page_t          fill_page_i,
  input  quad_t          fill_quad_i,
  input  burst_t         fill_data_i,
  output logic           refined_o,     // OpRefine is done with a page.
  output page_t          refined_page_o
);

  localparam int unsigned SlicerCycles = 3, TableCycles = 5;

  // ---- Operations -------------------------------------------------------------------------
  // An abort is a reset of all but the histograms, whose bins would have to be cleared one by one;
  // OpStart makes those invalid anyway.
  logic abort_q;
  wire run_rst_n = rst_ni && !abort_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) abort_q <= 1'b0;
    else abort_q <= abort_i;
  end

  logic running, threshold_ready, clearing, walking, tau_busy, radius_busy, page_done, spill_busy,
      records_left;
  op_e       op;
  settings_t settings;
  planes_t   planes;
  wire refining = op == OpRefine;
  wire streams = running && (op == OpScan || refining);
  wire chooses = running && (op == OpBest || op == OpAlive);
  wire op_accept = op_valid_i && op_ready_o;
  wire starts = op_accept && op_i.op == OpStart;

  nkv_scan_order u_order (
    .clk_i,
    .rst_ni(run_rst_n),
    .op_valid_i,
    .op_ready_o,
    .op_i,
    .rests_i(abort_q),
    .threshold_ready_i(threshold_ready),
    .clearing_i(clearing),
    .walking_i(walking),
    .freezing_i(tau_busy),
    .storing_i(radius_busy || spill_busy),
    .record_taken_i(record_valid_i && record_ready_o),
    .page_done_i(page_done),
    .chosen_i(chosen_valid_o && chosen_ready_i),
    .running_o(running),
    .op_o(op),
    .settings_o(settings),
    .planes_o(planes),
    .records_left_o(records_left)
  );

  // What pages stream through rests while tokens are chosen and thresholds are found.
  logic stream_clk;
  nkv_idle_clock u_stream_clock (
    .clk_i,
    .rst_ni,
    .busy_i(streams || query_valid_i || burst_valid_i || abort_q),
    .clk_o(stream_clk)
  );

  // ---- Pages between fold and midpoints ---------------------------------------------------
  slot_t   slot;       // Of the next page
  page_t   page_of[Slots];
  tokens_t tokens_of[Slots];
  logic    first_of[Slots];
  logic    record_room, kept, weights_ready;
  assign record_ready_o = record_room && weights_ready;

  nkv_scan_slots #(
    .KeptPages(KeptPages)
  ) u_slots (
    .clk_i,
    .rst_ni(run_rst_n),
    .begins_i(op_accept),
    .open_i(streams && records_left),
    .refining_i(refining),
    .record_valid_i,
    .room_o(record_room),
    .taken_i(record_valid_i && record_ready_o),
    .record_i,
    .done_i(page_done),
    .kept_o(kept),
    .slot_o(slot),
    .page_o(page_of),
    .tokens_o(tokens_of),
    .first_o(first_of)
  );

  // ---- Weights and terms ------------------------------------------------------------------
  logic digest_ready, slicer_ready;
  assign burst_ready_o = burst_tag_i.kind == BurstDigest ? digest_ready : slicer_ready;
  logic weights_room, weights_begin, weight_last, terms_valid;
  logic [1:0] weight_valid, weight_step;
  logic [WordBits-1:0] weight_word;
  weight_t weight[Rows][FoldLanes];
  row_terms_t terms;

  nkv_weight_source #(
    .KeptPages(KeptPages)
  ) u_weights (
    .clk_i(stream_clk),
    .rst_ni(run_rst_n),
    .key_exponent_i(settings.key_exponent),
    .words_i(3'((settings.blocks + 4'd1) >> 1)),
    .stored_i(refining && kept),
    .keeps_i(!settings.tail),
    .query_valid_i,
    .query_ready_o,
    .query_row_i,
    .query_word_i,
    .query_data_i,
    .digest_valid_i(burst_valid_i && burst_tag_i.kind == BurstDigest),
    .digest_ready_o(digest_ready),
    .digest_data_i(burst_data_i),
    .page_valid_i(record_valid_i && record_room),
    .page_ready_o(weights_ready),
    .page_i(record_i.page),
    .page_slot_i(slot),
    .page_step_exponent_i(record_i.step_exponent),
    .page_of_i(page_of),
    .room_i(weights_room),
    .begins_o(weights_begin),
    .weight_valid_o(weight_valid),
    .weight_word_o(weight_word),
    .weight_step_o(weight_step),
    .weight_last_o(weight_last),
    .weight_o(weight),
    .terms_valid_o(terms_valid),
    .terms_o(terms)
  );

  // ---- Bursts to beats --------------------------------------------------------------------
  // Pages whose beats have begun and whose sums have not all been taken: two at most, for which there
  // is room behind the tables.
  logic tables_ready, tables_bank, page_open_q, begun, begun_last;
  logic [1:0] pages_begun_q;
  slot_t beat_slot_q;
  wire go = tables_ready && (page_open_q || pages_begun_q != 2'd2);

  logic whole_valid, whole_ready;
  beat_t whole_beat;
  always_ff @(posedge clk_i or negedge run_rst_n) begin
    if (!run_rst_n) begin
      page_open_q <= 1'b0;
      pages_begun_q <= '0;
      beat_slot_q <= '0;
    end else begin
      if (begun) page_open_q <= !begun_last;
      if (begun && begun_last) beat_slot_q <= beat_slot_q + 1'b1;
      pages_begun_q <= pages_begun_q + 2'(begun && !page_open_q) -
          2'(whole_valid && whole_ready && whole_beat.last);
    end
  end

  // Of digests alone a page's beats are made up, without a bit, so that offsets are all there is.
  wire by_digest = settings.planes == '0;
  quad_t made_quad_q;
  always_ff @(posedge clk_i or negedge run_rst_n) begin
    if (!run_rst_n) made_quad_q <= '0;
    else if (begun && by_digest) made_quad_q <= made_quad_q + 1'b1;
  end
  wire burst_tag_t made_tag = '{kind: BurstPlane, plane: 3'd1, quad: made_quad_q, last: made_quad_q == '1};

  logic beat_valid, beat_last;
  logic [Channels-1:0] beat_bits[PlaneTokens];
  planes_t beat_plane;
  quad_t beat_quad;

  nkv_token_slicer u_slicer (
    .clk_i(stream_clk),
    .rst_ni(run_rst_n),
    .blocks_i(by_digest ? 4'(Channels / 16) : settings.blocks),
    .burst_valid_i(by_digest || (burst_valid_i && burst_tag_i.kind == BurstPlane)),
    .burst_ready_o(slicer_ready),
    .burst_data_i(by_digest ? '0 : burst_data_i),
    .burst_tag_i(by_digest ? made_tag : burst_tag_i),
    .go_i(go),
    .begun_o(begun),
    .begun_last_o(begun_last),
    .beat_valid_o(beat_valid),
    .beat_bits_o(beat_bits),
    .beat_plane_o(beat_plane),
    .beat_quad_o(beat_quad),
    .beat_last_o(beat_last)
  );

  // Slot and table bank of beats in the slicer, then what goes along with those in the tables.
  slot_t slicer_slot_q[SlicerCycles];
  logic slicer_bank_q[SlicerCycles];
  beat_t table_beat_q[TableCycles];
  logic [1:0] free_q;
  wire beat_t beat = '{slot: slicer_slot_q[SlicerCycles-1], quad: beat_quad,
                       begins: refining || beat_plane == 3'd1,
                       completes: refining || by_digest || beat_plane == planes, last: beat_last};

  always_ff @(posedge clk_i) begin
    slicer_slot_q[0] <= beat_slot_q;
    slicer_bank_q[0] <= tables_bank;
    for (int i = 1; i < int'(SlicerCycles); i++) begin
      slicer_slot_q[i] <= slicer_slot_q[i-1];
      slicer_bank_q[i] <= slicer_bank_q[i-1];
    end
    table_beat_q[0] <= beat;
    for (int i = 1; i < int'(TableCycles); i++) table_beat_q[i] <= table_beat_q[i-1];
  end
  always_ff @(posedge clk_i or negedge run_rst_n) begin
    if (!run_rst_n) free_q <= '0;
    else free_q <= {free_q[0], begun && begun_last};
  end

  // ---- Tables and sums --------------------------------------------------------------------
  logic sum_valid;
  sum_t sum[Rows][PlaneTokens];

  nkv_table_bank u_tables (
    .clk_i(stream_clk),
    .rst_ni(run_rst_n),
    .all_rows_i(refining && kept),
    .room_o(weights_room),
    .begins_i(weights_begin),
    .weight_valid_i(weight_valid),
    .weight_word_i(weight_word),
    .weight_step_i(weight_step),
    .weight_last_i(weight_last),
    .weight_i(weight),
    .page_ready_o(tables_ready),
    .page_bank_o(tables_bank),
    .page_done_i(begun && begun_last),
    .page_free_i(free_q[1]),
    .beat_valid_i(beat_valid),
    .beat_bank_i(slicer_bank_q[SlicerCycles-1]),
    .beat_bits_i(beat_bits),
    .sum_valid_o(sum_valid),
    .sum_o(sum)
  );

  logic whole_read;
  partial_t whole_sum[Rows][PlaneTokens];
  offset_t offset[Rows];

  nkv_plane_sums u_sums (
    .clk_i(stream_clk),
    .rst_ni(run_rst_n),
    .valid_i(sum_valid),
    .beat_i(table_beat_q[TableCycles-1]),
    .sum_i(sum),
    .out_valid_o(whole_valid),
    .out_ready_i(whole_ready),
    .out_beat_o(whole_beat),
    .read_i(whole_read),
    .read_beat_i(whole_beat),
    .read_sum_o(whole_sum)
  );

  nkv_row_scales u_scales (
    .clk_i(stream_clk),
    .rst_ni(run_rst_n),
    .refining_i(refining),
    .planes_i(planes),
    .terms_valid_i(terms_valid),
    .terms_first_i(first_of[terms.slot]),
    .terms_i(terms),
    .reference_o,
    .shift_o,
    .read_i(whole_read),
    .read_slot_i(whole_beat.slot),
    .offset_o(offset)
  );

  // ---- Midpoints --------------------------------------------------------------------------
  logic fetch, write, spill_room, pass_fetch, pass_ready;
  page_t fetch_page, write_page, pass_page;
  quad_t fetch_quad, write_quad;
  logic [1:0] pass_word;
  midpoint_t write_data[Rows][PlaneTokens];
  logic write_visible[PlaneTokens];

  nkv_midpoints u_midpoints (
    .clk_i(stream_clk),
    .rst_ni(run_rst_n),
    .refining_i(refining),
    .planes_i(planes),
    .shift_i(shift_o),
    .room_i(spill_room),
    .beat_valid_i(whole_valid),
    .beat_ready_o(whole_ready),
    .beat_i(whole_beat),
    .page_i(page_of),
    .tokens_i(tokens_of),
    .read_o(whole_read),
    .sum_i(whole_sum),
    .offset_i(offset),
    .fetch_o(fetch),
    .fetch_page_o(fetch_page),
    .fetch_quad_o(fetch_quad),
    .stored_i(midpoint_o),
    .write_o(write),
    .write_page_o(write_page),
    .write_quad_o(write_quad),
    .write_data_o(write_data),
    .write_visible_o(write_visible),
    .page_done_o(page_done)
  );

  nkv_midpoint_store #(
    .KeptPages(KeptPages)
  ) u_store (
    .clk_i,
    .rst_ni(run_rst_n),
    .write_i(write),
    .write_page_i(write_page),
    .write_quad_i(write_quad),
    .write_data_i(write_data),
    .clear_i(starts),
    .counts_i(write && !refining),
    .visible_i(write_visible),
    .ranged_o,
    .highest_o,
    .lowest_o,
    .room_o(spill_room),
    .busy_o(spill_busy),
    .spill_valid_o,
    .spill_ready_i,
    .spill_o,
    .spilled_i,
    .fill_i,
    .fill_page_i,
    .fill_quad_i,
    .fill_data_i,
    .pass_fetch_i(pass_fetch),
    .pass_page_i(pass_page),
    .pass_word_i(pass_word),
    .fetch_i(fetch),
    .fetch_page_i(fetch_page),
    .fetch_quad_i(fetch_quad),
    .read_i,
    .read_ready_o,
    .read_page_i,
    .read_word_i,
    .data_o(midpoint_o)
  );

  assign refined_o = page_done && refining;
  assign refined_page_o = write_page;

  // ---- Thresholds, radii and passes -------------------------------------------------------
  logic radius_fetch;
  page_t radius_page;
  radius_t radius[Rows];

  nkv_threshold u_threshold (
    .clk_i,
    .rst_ni,
    .start_i(starts),
    .ready_o(threshold_ready),
    .clearing_o(clearing),
    .valid_i(write && !refining),
    .midpoint_i(write_data),
    .visible_i(write_visible),
    .walk_i(op_accept && op_i.op == OpThreshold),
    .count_i(op_i.count),
    .walking_o(walking),
    .threshold_o
  );

  nkv_radius u_radius (
    .clk_i,
    .rst_ni(run_rst_n),
    .settings_i(settings),
    .terms_valid_i(terms_valid && !refining && !by_digest),
    .terms_i(terms),
    .terms_page_i(page_of[terms.slot]),
    .shift_i(shift_o),
    .busy_o(radius_busy),
    .read_i(radius_fetch),
    .read_page_i(radius_page),
    .read_planes_i(planes),
    .radius_o(radius)
  );

  nkv_tau u_tau (
    .clk_i,
    .rst_ni(run_rst_n),
    .start_i(op_accept && op_i.op == OpFreeze),
    .busy_o(tau_busy),
    .known_i(tau_known_i),
    .score_i(tau_score_i),
    .reference_i(reference_o),
    .shift_i(shift_o),
    .tau_o
  );

  assign choose_ready_o = chooses && pass_ready;
  nkv_midpoint_scan u_pass (
    .clk_i,
    .rst_ni(run_rst_n),
    .alive_i(op == OpAlive),
    .tail_i(settings.tail),
    .no_best_i(settings.no_best),
    .rows_i(settings.rows),
    .threshold_i(threshold_o),
    .tau_i(tau_o),
    .in_valid_i(choose_valid_i && chooses),
    .in_ready_o(pass_ready),
    .in_i(choose_i),
    .out_valid_o(chosen_valid_o),
    .out_ready_i(chosen_ready_i),
    .out_o(chosen_o),
    .fetch_o(pass_fetch),
    .fetch_page_o(pass_page),
    .fetch_word_o(pass_word),
    .midpoint_i(midpoint_o),
    .radius_fetch_o(radius_fetch),
    .radius_page_o(radius_page),
    .radius_i(radius)
  );

endmodule
