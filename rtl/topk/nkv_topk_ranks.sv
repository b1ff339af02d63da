// From rows that were read to what TOPK returns: hands pages to the scorer, takes their scores, ranks
// those that count (INDEXER's by the one score that the rows share), and writes the best k.

`include "nkv_assert.svh"

module nkv_topk_ranks
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,            // Before each command.

  input  logic           start_i,            // With the command, held as all that follows.
  input  topk_command_t  command_i,
  input  logic           indexer_i,
  input  exponent_t      query_exponent_i[Rows],
  input  exponent_t      key_exponent_i,
  input  logic [31:0]    weight_i[Rows],     // INDEXER's.

  input  logic           ranks_i,            // Selectors are in use.
  input  logic           select_valid_i,
  output logic           select_ready_o,
  input  nkv_select_pkg::select_command_e select_i,
  output logic           started_o,          // By the first candidate.
  output logic           answered_o,         // All rows, since the last command.
  output logic [31:0]    found_o,            // Tokens that all rows return.
  output logic           idle_o,             // Every score has come and is ranked.
  output logic           nonfinite_o,        // A key scale is not finite.

  input  logic           body_valid_i,       // Pages whose rows will come.
  output logic           body_ready_o,
  input  page_body_t     body_i,
  input  logic           scale_valid_i,      // Bursts of KEY_SCALES.
  output logic           scale_ready_o,
  input  burst_t         scale_i,

  output logic           page_valid_o,       // Rows to score, and their scores (nkv_key_scores).
  input  logic           page_ready_i,
  output page_body_t     page_o,
  input  logic           score_valid_i,
  output logic           score_ready_o,
  input  logic [$clog2(PageTokens)-1:0] score_token_i,
  input  logic           score_last_i,
  input  score_t         score_i[Rows],

  input  logic           writes_i,           // From write_start_i until all is written.
  input  logic           write_start_i,
  output logic           written_o,
  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  wire group_t ranked_rows = indexer_i ? group_t'(1) : group_t'(command_i.group);

  // ---- Pages wait for the scorer, and for their scores ----
  logic bodies_valid, bodies_pop, bodies_ready, pages_ready;
  page_body_t scored_body;
  logic [$clog2(PagesAhead):0] unused_pages_used, bodies_used;

  assign body_ready_o = pages_ready && bodies_ready;
  wire body_taken = body_valid_i && body_ready_o;

  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_pages (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (body_taken),
    .in_ready_o (pages_ready),
    .in_data_i  (body_i),
    .out_valid_o(page_valid_o),
    .out_ready_i(page_ready_i),
    .out_data_o (page_o),
    .used_o     (unused_pages_used)
  );

  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_bodies (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (body_taken),
    .in_ready_o (bodies_ready),
    .in_data_i  (body_i),
    .out_valid_o(bodies_valid),
    .out_ready_i(bodies_pop),
    .out_data_o (scored_body),
    .used_o     (bodies_used)
  );

  // ---- Candidates to the selectors; of INDEXER with the one score that they get ----
  logic candidate_ready, indexer_ready, scales_ready, indexed_valid, indexer_idle;
  nkv_indexer_pkg::shared_t weight_exponent;
  nkv_select_pkg::token_t indexed_token, scored_token;
  score_t indexed_score;
  score_t ranked_score[Rows];

  wire is_candidate = scored_body.tokens[score_token_i] && !scored_body.nonfinite[score_token_i];
  assign scored_token = nkv_select_pkg::token_t'({scored_body.page, score_token_i});
  assign score_ready_o =
      bodies_valid && (indexer_i ? indexer_ready : !is_candidate || candidate_ready);
  assign bodies_pop = score_valid_i && score_ready_o && score_last_i;
  assign idle_o = !page_valid_o && bodies_used == '0 && indexer_idle;

  nkv_indexer u_indexer (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i          (start_i && indexer_i),
    .rows_i           (group_t'(command_i.group)),
    .weight_i,
    .query_exponent_i,
    .exponent_o       (weight_exponent),
    .scale_valid_i    (scale_valid_i && indexer_i),
    .scale_ready_o    (scales_ready),
    .scale_i,
    .score_valid_i    (score_valid_i && bodies_valid && indexer_i),
    .score_ready_o    (indexer_ready),
    .score_scaled_i   (scored_body.key_scales),
    .score_counts_i   (is_candidate),
    .score_page_i     (scored_body.page),
    .score_token_i,
    .score_i,
    .candidate_valid_o(indexed_valid),
    .candidate_ready_i(candidate_ready),
    .candidate_o      (indexed_token),
    .rank_o           (indexed_score),
    .nonfinite_o,
    .idle_o           (indexer_idle)
  );
  assign scale_ready_o = !indexer_i || scales_ready;

  always_comb begin
    ranked_score = score_i;
    if (indexer_i) begin
      ranked_score = '{default: '0};
      ranked_score[0] = indexed_score;
    end
  end

  logic rank_clk, result_clk;
  nkv_idle_clock #(
    .HoldCycles(ClearCycles)
  ) u_rank_clock (
    .clk_i,
    .rst_ni,
    .busy_i(ranks_i || clear_i),
    .clk_o (rank_clk)
  );
  nkv_idle_clock u_result_clock (
    .clk_i,
    .rst_ni,
    .busy_i(writes_i || clear_i),
    .clk_o (result_clk)
  );

  // ---- Ranks and results ----
  nkv_select_pkg::token_t out_token;
  score_t      out_score;
  logic [15:0] count[Rows];
  row_index_t  result_row;
  logic        out_valid, result_pop;

  nkv_rank_rows u_rank (
    .clk_i            (rank_clk),
    .rst_ni,
    .clear_i,
    .rows_i           (ranked_rows),
    .k_i              (command_i.top_k[12:0]),
    .indexer_i,
    .command_valid_i  (select_valid_i),
    .command_ready_o  (select_ready_o),
    .command_i        (select_i),
    .started_o,
    .answered_o,
    .count_o          (count),
    .candidate_valid_i(indexer_i ? indexed_valid : score_valid_i && bodies_valid && is_candidate),
    .candidate_ready_o(candidate_ready),
    .candidate_i      (indexer_i ? indexed_token : scored_token),
    .candidate_score_i(ranked_score),
    .out_row_i        (result_row),
    .out_valid_o      (out_valid),
    .out_ready_i      (result_pop),
    .out_token_o      (out_token),
    .out_score_o      (out_score)
  );

  always_comb begin
    found_o = '0;
    for (int unsigned r = 0; r < Rows; r++) if (group_t'(r) < ranked_rows) found_o += 32'(count[r]);
  end

  nkv_topk_result u_result (
    .clk_i           (result_clk),
    .rst_ni,
    .clear_i,
    .start_i         (write_start_i),
    .address_i       (command_i.result),
    .rows_i          (ranked_rows),
    .top_k_i         (command_i.top_k),
    .scale_i         (command_i.scale),
    .indexer_i,
    .weight_exponent_i(weight_exponent),
    .query_exponent_i,
    .key_exponent_i,
    .count_i         (count),
    .done_o          (written_o),
    .row_o           (result_row),
    .token_valid_i   (out_valid),
    .token_ready_o   (result_pop),
    .token_i         (out_token),
    .token_score_i   (out_score),
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  wire unused = ^{command_i, scored_body};

  `NKV_ASSERT_STAYS(PageStays_A, page_valid_o, page_ready_i, page_o, clear_i || start_i)

endmodule
