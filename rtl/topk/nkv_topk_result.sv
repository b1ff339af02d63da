// Writes what TOPK returns: ids [rows][top_k], scores [rows][top_k] as binary32, counts [rows], each part
// from a burst boundary on. Rows give their tokens in order; places that are left hold no token and a
// score of minus infinity (ARITHMETIC.md section 6). INDEXER's scores are R.

`include "nkv_assert.svh"

module nkv_topk_result
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic           start_i,            // All that follows is held until done_o.
  input  logic [63:0]    address_i,
  input  group_t         rows_i,
  input  logic [15:0]    top_k_i,
  input  logic [31:0]    scale_i,
  input  logic           indexer_i,
  input  nkv_indexer_pkg::shared_t weight_exponent_i,  // X
  input  exponent_t      query_exponent_i[Rows],
  input  exponent_t      key_exponent_i,
  input  logic [15:0]    count_i[Rows],      // Tokens that a row gives.
  output logic           done_o,             // For one cycle: everything has been handed on.

  output row_index_t     row_o,              // Whose token is wanted.
  input  logic           token_valid_i,
  output logic           token_ready_o,
  input  logic [19:0]    token_i,
  input  score_t         token_score_i,

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  localparam logic [31:0] NoToken = 32'hffff_ffff;
  localparam logic [31:0] MinusInfinity = 32'hff80_0000;

  typedef enum logic [1:0] {
    StIdle,
    StTokens,
    StCounts,
    StDrain
  } state_e;

  state_e      state_q;
  row_index_t  row_q;
  logic [15:0] place_q;
  wire last_place = place_q + 16'd1 == top_k_i;
  wire last_row = group_t'(row_q) + 1'b1 == rows_i;
  wire found = place_q < count_i[row_q];

  assign row_o = row_q;

  // ---- Scores, queued so that no conversion ever waits, then counts ----
  typedef struct packed {
    logic        last;  // Of its part.
    logic [31:0] word;
  } word_t;
  localparam int unsigned Queue = 32;
  logic        converted_valid, queued_valid, scores_ready, queue_ready;
  logic [31:0] converted;
  word_t       queued;
  logic [$clog2(Queue):0] queued_used, under_way_q;
  logic        last_fed;

  // R stands for its fraction, with its sign, times 2^(its exponent + X + Ek - 599).
  localparam int unsigned FractionBits = nkv_indexer_pkg::FractionBits;
  typedef logic signed [10:0] exponent_sum_t;
  wire negative = token_score_i[ScoreBits-1];
  wire score_t rank = negative ? -token_score_i : token_score_i;
  wire score_t fraction = score_t'({1'b0, rank[FractionBits-1:0]});
  wire exponent_sum_t exponent = exponent_sum_t'(key_exponent_i) + (indexer_i
      ? exponent_sum_t'({1'b0, rank[ScoreBits-2:FractionBits]}) + exponent_sum_t'(weight_exponent_i) -
        exponent_sum_t'(599 - 301)
      : exponent_sum_t'(query_exponent_i[row_q]));
  // A conversion's exponent stands with its score, which is taken a cycle later.
  logic          step_q;
  score_t        score_q;
  exponent_sum_t exponent_q;

  nkv_score_float u_float (
    .clk_i,
    .rst_ni,
    .valid_i   (step_q),
    .score_i   (score_q),
    .exponent_i(exponent_q),
    .scale_i,
    .valid_o   (converted_valid),
    .float_o   (converted)
  );

  // A place without a token goes the same way, so that order stays: what it is travels beside.
  localparam int unsigned Latency = nkv_select_pkg::ScoreFloatLatency + 1;
  typedef struct packed {
    logic valid;
    logic found;
    logic last;
  } side_t;
  side_t side_q[Latency];

  logic ids_ready;
  wire  has_room = queued_used + under_way_q < ($clog2(Queue) + 1)'(Queue - 2);
  wire  step = state_q == StTokens && ids_ready && has_room && (!found || token_valid_i);
  assign token_ready_o = step && found;
  assign last_fed = last_place && last_row;

  always_ff @(posedge clk_i) begin
    score_q <= indexer_i ? (negative ? -fraction : fraction) : token_score_i;
    exponent_q <= exponent;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      step_q <= 1'b0;
      for (int unsigned i = 0; i < Latency; i++) side_q[i] <= '0;
    end else begin
      step_q <= step;
      side_q[0] <= '{valid: step, found: found, last: last_fed};
      for (int unsigned i = 1; i < Latency; i++) side_q[i] <= side_q[i-1];
    end
  end

  wire side_t side = side_q[Latency-1];
  wire counts_now = state_q == StCounts && under_way_q == '0 && has_room;
  nkv_fifo #(
    .T(word_t),
    .Depth(Queue)
  ) u_queue (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (side.valid || counts_now),
    .in_ready_o (queue_ready),
    .in_data_i  (counts_now ? '{last: last_row, word: 32'(count_i[row_q])} :
                 '{last: side.last, word: side.found ? converted : MinusInfinity}),
    .out_valid_o(queued_valid),
    .out_ready_i(scores_ready),
    .out_data_o (queued),
    .used_o     (queued_used)
  );

  // ---- Two streams of words: ids; scores, with counts behind them ----
  // rows * top_k words in bursts, whole ones, three cycles after start_i, long before the first score.
  logic [17:0] rows_low_q, rows_high_q;
  logic [19:0] words_q;
  logic [15:0] table_bursts_q;
  logic [3:1]  start_q;
  always_ff @(posedge clk_i) begin
    rows_low_q <= (rows_i[0] ? 18'(top_k_i) : '0) + (rows_i[1] ? 18'(top_k_i) << 1 : '0);
    rows_high_q <= (rows_i[2] ? 18'(top_k_i) : '0) + (rows_i[3] ? 18'(top_k_i) << 1 : '0);
    words_q <= 20'(rows_low_q) + {rows_high_q, 2'b0};
    table_bursts_q <= words_q[19:4] + 16'(words_q[3:0] != '0);
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) start_q <= '0;
    else start_q <= {start_q[2:1], start_i};
  end
  wire [63:0] table_bytes = 64'({table_bursts_q, 6'b0});
  logic       ids_idle, scores_idle, ids_valid, scores_valid;
  write_request_t ids_write, scores_write;

  nkv_word_packer u_ids (
    .clk_i,
    .rst_ni,
    .start_i      (start_i),
    .address_i    (address_i),
    .idle_o       (ids_idle),
    .word_valid_i (step),
    .word_ready_o (ids_ready),
    .word_i       (found ? 32'(token_i) : NoToken),
    .word_last_i  (last_fed),
    .write_valid_o(ids_valid),
    .write_ready_i(write_ready_i),
    .write_o      (ids_write)
  );

  nkv_word_packer u_scores (
    .clk_i,
    .rst_ni,
    .start_i      (start_q[3]),
    .address_i    (address_i + table_bytes),
    .idle_o       (scores_idle),
    .word_valid_i (queued_valid),
    .word_ready_o (scores_ready),
    .word_i       (queued.word),
    .word_last_i  (queued.last),
    .write_valid_o(scores_valid),
    .write_ready_i(write_ready_i && !ids_valid),
    .write_o      (scores_write)
  );

  assign write_valid_o = ids_valid || scores_valid;
  assign write_o = ids_valid ? ids_write : scores_write;

  wire written = queued_used == '0 && ids_idle && scores_idle;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      row_q <= '0;
      place_q <= '0;
      under_way_q <= '0;
      done_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      under_way_q <= '0;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      under_way_q <= under_way_q + ($clog2(Queue) + 1)'(step) -
          ($clog2(Queue) + 1)'(side.valid);
      unique case (state_q)
        StIdle: begin
          row_q <= '0;
          place_q <= '0;
          if (start_i) state_q <= StTokens;
        end
        StTokens: begin
          if (step) begin
            place_q <= last_place ? '0 : place_q + 16'd1;
            if (last_place) row_q <= last_row ? '0 : row_q + 1'b1;
            if (last_fed) state_q <= StCounts;
          end
        end
        StCounts: begin
          if (counts_now) begin
            row_q <= row_q + 1'b1;
            if (last_row) state_q <= StDrain;
          end
        end
        StDrain: begin
          if (written) begin
            state_q <= StIdle;
            done_o <= 1'b1;
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end

  wire unused = converted_valid ^ rank[ScoreBits-1];

  `NKV_ASSERT_STAYS(WriteStays_A, write_valid_o, write_ready_i, write_o, clear_i || start_i)
  `NKV_ASSERT_ROOM(QueueHasRoom_A, side.valid || counts_now, queue_ready)

endmodule
