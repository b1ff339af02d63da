// TOPK INDEXER (ARITHMETIC.md section 6): turns the exact scores of all rows of a token into the one R by
// which tokens are ranked.
//
//   weights --> indexer_weights --.
//   scores ---------------------> indexer_rank --> queue --> candidates
//   bursts of KEY_SCALES --> queue --^
//
// Scores come of all tokens of a page, in order; those of them that count go on, unless their key scale
// is not finite. A token takes two cycles, or one if it does not count.

`include "nkv_assert.svh"

module nkv_indexer
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_indexer_pkg::*;
  import nkv_select_pkg::token_t;
#(
  localparam int unsigned TokenBits = $clog2(PageTokens)
) (
  input  logic      clk_i,
  input  logic      rst_ni,
  input  logic      clear_i,                 // Before each command.

  input  logic      start_i,                 // What follows is held from here on.
  input  group_t    rows_i,
  input  logic [31:0] weight_i[Rows],        // Binary32, finite.
  input  exponent_t query_exponent_i[Rows],
  output shared_t   exponent_o,              // X, once scores are taken.

  input  logic      scale_valid_i,           // Bursts of KEY_SCALES.
  output logic      scale_ready_o,
  input  burst_t    scale_i,

  input  logic      score_valid_i,
  output logic      score_ready_o,
  input  logic      score_scaled_i,          // Its page has KEY_SCALES.
  input  logic      score_counts_i,
  input  page_index_t score_page_i,
  input  logic [TokenBits-1:0] score_token_i,
  input  score_t    score_i[Rows],

  output logic      candidate_valid_o,
  input  logic      candidate_ready_i,
  output token_t    candidate_o,
  output score_t    rank_o,                  // R
  output logic      nonfinite_o,             // A key scale that counts was not.
  output logic      idle_o                   // Every score has been answered.
);

  localparam logic [31:0] One = 32'h3f80_0000;
  localparam int unsigned BurstScales = BurstBits / 32;
  localparam int unsigned Queue = 32;
  localparam int unsigned QueueBits = $clog2(Queue);

  logic            weighed;
  indexer_weight_t weight[Rows];

  nkv_indexer_weights u_weights (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .rows_i,
    .weight_i,
    .query_exponent_i,
    .ready_o   (weighed),
    .weight_o  (weight),
    .exponent_o
  );

  // ---- Key scales ----
  logic   scales_valid, scales_done;
  burst_t scales;
  logic [3:0] unused_scales;

  nkv_fifo #(
    .T(burst_t),
    .Depth(8)
  ) u_scales (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (scale_valid_i),
    .in_ready_o (scale_ready_o),
    .in_data_i  (scale_i),
    .out_valid_o(scales_valid),
    .out_ready_i(scales_done),
    .out_data_o (scales),
    .used_o     (unused_scales)
  );
  wire [$clog2(BurstScales)-1:0] place = score_token_i[$clog2(BurstScales)-1:0];
  wire [31:0] scale = score_scaled_i ? scales[{place, 5'b0}+:32] : One;
  wire finite = scale[30:23] != '1;

  // ---- Scores ----
  logic [QueueBits:0] credits_q;             // Places of the queue that no token under way will take.
  logic busy_q;                              // A token takes its second cycle.
  wire here = score_valid_i && weighed && (!score_scaled_i || scales_valid);
  wire ranks = here && score_counts_i && finite && !busy_q && credits_q != '0;
  assign score_ready_o = here && (!score_counts_i || !finite || ranks);
  assign scales_done = score_ready_o && score_scaled_i && place == '1;

  logic   ranked;
  token_t ranked_token;
  score_t ranked_score;

  nkv_indexer_rank #(
    .TagBits($bits(token_t))
  ) u_rank (
    .clk_i,
    .rst_ni,
    .weight_i(weight),
    .valid_i (ranks),
    .tag_i   (token_t'({score_page_i, score_token_i})),
    .score_i,
    .scale_i (scale),
    .valid_o (ranked),
    .tag_o   (ranked_token),
    .rank_o  (ranked_score)
  );

  typedef struct packed {
    token_t token;
    score_t rank;
  } candidate_t;
  candidate_t candidate;
  logic has_room;
  logic [QueueBits:0] unused_used;

  nkv_fifo #(
    .T(candidate_t),
    .Depth(Queue)
  ) u_candidates (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (ranked),
    .in_ready_o (has_room),
    .in_data_i  ('{token: ranked_token, rank: ranked_score}),
    .out_valid_o(candidate_valid_o),
    .out_ready_i(candidate_ready_i),
    .out_data_o (candidate),
    .used_o     (unused_used)
  );
  assign candidate_o = candidate.token;
  assign rank_o = candidate.rank;
  assign idle_o = credits_q == (QueueBits + 1)'(Queue);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      credits_q <= (QueueBits + 1)'(Queue);
      busy_q <= 1'b0;
      nonfinite_o <= 1'b0;
    end else if (clear_i) begin
      credits_q <= (QueueBits + 1)'(Queue);
      busy_q <= 1'b0;
      nonfinite_o <= 1'b0;
    end else begin
      busy_q <= ranks;
      credits_q <= credits_q - (QueueBits + 1)'(ranks) +
          (QueueBits + 1)'(candidate_valid_o && candidate_ready_i);
      if (here && score_counts_i && !finite) nonfinite_o <= 1'b1;
    end
  end

  `NKV_ASSERT_STAYS(CandidateStays_A, candidate_valid_o, candidate_ready_i, candidate_o, clear_i || start_i)
  `NKV_ASSERT_ROOM(CandidatesHaveRoom_A, ranked, has_room)

endmodule
