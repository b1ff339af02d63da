// The value side of ATTEND (ARITHMETIC.md sections 4 and 7): raises the sums to a page's references,
// turns its logits into weights, and has nkv_exact_stage add its value rows under them, and the mean of
// those that are not read.
//
//   exponents, rows --> queue --> page_rows ---.
//                                     v        +--> words, with weights of page_weights
//   V_SUM -----------> queue --> tail_mean ----'
//
// Bursts of a page's values come while its keys are still being scored, so they wait in a queue of
// `Depth` bursts, which holds all key rows of a page whose values are its keys. A row of a token that
// is not visible has weights of zero. A page is done with once its weights are on their way: its words
// may still come while the next page's do, but for a raise, which waits for all words before it.
//
// With bounded_i (8.4) words say which of the sums they are for. The row of a sampled token comes out
// twice, and minus the mean of its page, of all tokens, twice as well: 16 cycles at most a sampled token,
// of four words or of four weights of four cycles.

module nkv_attend_values
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::*;
#(
  parameter int unsigned Depth = 512,
  localparam int unsigned TokenBits = $clog2(PageTokens)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   clear_i,            // Before each command, while idle_o.

  input  exponent_t              value_exponent_i,   // Ev; held during a command, as the dims are.
  input  dim_t                   head_dim_i,
  input  dim_t                   value_dim_i,
  input  logic                   chosen_i,           // Rows come of a page's tokens only, not of all,
  input  logic                   bounded_i,          // of which some may be sampled.

  input  logic                   page_valid_i,       // Its logits are complete.
  output logic                   page_ready_o,       // Its logits and references are done with.
  input  page_body_t             page_i,             // `sums`: V_SUM comes, as it does for
  input  logic                   page_rest_i,        // a rest, and for
  input  token_mask_t            page_sampled_i,     // sampled tokens, all of them visible.
  input  logic [5:0]             page_raise_i[Rows],
  input  reference_t             page_reference_i[Rows],
  output logic                   take_o,             // Logits, and weights of rests (nkv_attend_logits).
  input  logit_t                 logit_i[Rows],
  input  halvings_t              halvings_i,
  input  sample_group_t          group_i,
  output logic                   take_rest_o,
  input  weight_t                rest_weight_i[Rows],

  input  logic                   beat_valid_i,       // Exponents and rows of values; V_SUM after them.
  output logic                   beat_ready_o,
  input  read_beat_t             beat_i,

  // Words go to the exact stage in cycles that it grants, with their weights.
  input  logic                   grant_i,
  output logic                   word_valid_o,
  output word_index_t            word_index_o,
  output logic                   word_last_o,
  output key_t                   word_o[ExactLanes],
  output word_index_t            last_word_o,
  output weight_t                weight_o[Rows],
  output shift_t                 shift_o[Rows],
  output units_t                 units_o[Rows],
  output sample_group_t          word_sum_o,         // That the word is for; 0 without bounded_i.
  output logic                   word_subtract_o,    // Its units are subtracted.
  output logic                   raise_valid_o,
  output logic [5:0]             raise_o[Rows],
  input  logic                   sums_ready_i,
  input  logic                   sums_idle_i,

  output logic                   idle_o
);

  typedef enum logic [1:0] {
    StPage,
    StRaise,
    StRaised,
    StRows       // Until its rows are described, and its weights on their way.
  } state_e;

  state_e state_q;

  logic raise_any;
  always_comb begin
    raise_any = 1'b0;
    for (int unsigned r = 0; r < Rows; r++) raise_any |= page_raise_i[r] != '0;
  end

  // ---- Bursts that wait: rows and their exponents; V_SUM ----
  typedef struct packed {
    logic   is_exponents;
    logic   first;
    logic   last;
    burst_t data;
  } waiting_t;

  localparam int unsigned SumDepth = 64;
  logic     waiting_valid, waiting_pop, waiting_ready, sum_valid, sum_pop, sum_ready;
  waiting_t waiting;
  burst_t   sum;
  logic [$clog2(Depth):0] unused_waiting;
  logic [$clog2(SumDepth):0] unused_sums;
  wire is_sum = beat_i.tag.array == 4'(PageArrayVSum);
  assign beat_ready_o = is_sum ? sum_ready : waiting_ready;

  nkv_fifo #(
    .T(waiting_t),
    .Depth(Depth),
    .Block(1'b1)
  ) u_waiting (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (beat_valid_i && !is_sum),
    .in_ready_o (waiting_ready),
    .in_data_i  ('{
        is_exponents: beat_i.tag.array inside {4'(PageArrayKExponents), 4'(PageArrayVExponents)},
        first: beat_i.first,
        last: beat_i.last,
        data: beat_i.data
    }),
    .out_valid_o(waiting_valid),
    .out_ready_i(waiting_pop),
    .out_data_o (waiting),
    .used_o     (unused_waiting)
  );
  nkv_fifo #(
    .T(burst_t),
    .Depth(SumDepth),
    .Block(1'b1)
  ) u_sums (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (beat_valid_i && is_sum),
    .in_ready_o (sum_ready),
    .in_data_i  (beat_i.data),
    .out_valid_o(sum_valid),
    .out_ready_i(sum_pop),
    .out_data_o (sum),
    .used_o     (unused_sums)
  );

  logic burst_ready, exponents_ready;
  wire is_row = waiting_valid && !waiting.is_exponents;
  wire is_exponents = waiting_valid && waiting.is_exponents;
  assign waiting_pop = is_row ? burst_ready : is_exponents && exponents_ready;

  // ---- Rows to values ----
  wire values_are_keys = page_i.v_form == RowFormNone;
  wire row_format_t format = '{
      values: 1'b1,
      list_exponent: value_exponent_i,
      used_dim: value_dim_i,
      stored_dim: values_are_keys ? head_dim_i : value_dim_i,
      dtype: page_i.dtype,
      form: values_are_keys ? page_i.k_form : page_i.v_form
  };

  logic described, described_q;
  logic row_issued_last, unused_row_stored, row_valid, row_word_last;
  word_index_t row_index;
  key_t        row_word[ExactLanes];
  logic [TokenBits:0] word_tag;
  wire token_mask_t page_rows = chosen_i ? page_i.tokens : '1;
  wire any_rows = page_rows != '0;
  logic row_issue, row_due, row_again, mean_issue, mean_due, mean_negate, mean_again;

  nkv_page_rows u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .page_valid_i     (state_q == StRows && !described_q),
    .page_ready_o     (described),
    .page_format_i    (format),
    .page_rows_i      (page_rows),
    .exponents_valid_i(is_exponents),
    .exponents_ready_o(exponents_ready),
    .rows_valid_i     (is_row),
    .rows_ready_o     (burst_ready),
    .first_i          (waiting.first),
    .last_i           (waiting.last),
    .burst_i          (waiting.data),
    .issue_i          (row_issue),
    .again_i          (row_again),
    .wants_o          (unused_row_stored),
    .issued_last_o    (row_issued_last),
    .word_valid_o     (row_valid),
    .word_tag_o       (word_tag),
    .word_index_o     (row_index),
    .word_last_o      (row_word_last),
    .word_o           (row_word)
  );
  wire page_out = row_valid && word_tag[TokenBits];

  // ---- The mean of the rest ----
  logic        mean_page_ready, mean_ready, mean_issued_last, mean_valid, mean_last, mean_idle;
  word_index_t mean_index;
  key_t        mean_word[ExactLanes];
  wire page_taken = state_q == StPage && page_valid_i && (mean_page_ready || !chosen_i);
  wire rows_begin = (page_taken && !raise_any) || (state_q == StRaised && sums_ready_i);

  nkv_tail_mean u_mean (
    .clk_i,
    .rst_ni,
    .clear_i,
    .list_exponent_i(value_exponent_i),
    .value_dim_i,
    .whole_i        (bounded_i),
    .page_valid_i   (rows_begin && chosen_i),
    .page_ready_o   (mean_page_ready),
    .page_rows_i    (page_i.tokens),
    .page_rest_i    (page_i.sums),
    .page_exponent_i(page_i.v_exponent),
    .exact_valid_i  (row_valid && chosen_i),
    .exact_index_i  (row_index),
    .exact_last_i   (page_out),
    .exact_i        (row_word),
    .sum_valid_i    (sum_valid),
    .sum_ready_o    (sum_pop),
    .sum_i          (sum),
    .ready_o        (mean_ready),
    .issue_i        (mean_issue),
    .negate_i       (mean_negate),
    .again_i        (mean_again),
    .issued_last_o  (mean_issued_last),
    .word_valid_o   (mean_valid),
    .word_index_o   (mean_index),
    .word_last_o    (mean_last),
    .word_o         (mean_word),
    .idle_o         (mean_idle)
  );

  // ---- Words take as long from either, so that they never meet ----
  assign mean_issue = mean_ready && mean_due && grant_i;
  assign row_issue = !mean_issue && row_due && grant_i;
  assign word_valid_o = row_valid || mean_valid;
  assign word_index_o = mean_valid ? mean_index : row_index;
  assign word_last_o = mean_valid ? mean_last : row_word_last;
  always_comb begin
    for (int unsigned i = 0; i < ExactLanes; i++) begin
      word_o[i] = mean_valid ? mean_word[i] : row_word[i];
    end
  end

  // ---- Weights ----
  logic weights_idle;

  nkv_page_weights u_weights (
    .clk_i,
    .rst_ni,
    .clear_i,
    .bounded_i,
    .start_i      (page_taken),
    .rows_i       (page_rows),
    .visible_i    (page_i.tokens & ~page_i.nonfinite),
    .sampled_i    (page_sampled_i),
    .rest_i       (page_rest_i),
    .reference_i  (page_reference_i),
    .take_o,
    .logit_i,
    .halvings_i,
    .group_i,
    .take_rest_o,
    .rest_weight_i,
    .row_due_o    (row_due),
    .row_again_o  (row_again),
    .row_issued_i (row_issued_last),
    .mean_due_o   (mean_due),
    .mean_negate_o(mean_negate),
    .mean_again_o (mean_again),
    .mean_issued_i(mean_issued_last),
    .of_mean_i    (mean_valid),
    .pop_i        (word_valid_o && word_last_o),
    .sum_o        (word_sum_o),
    .subtract_o   (word_subtract_o),
    .weight_o,
    .shift_o,
    .units_o,
    .idle_o       (weights_idle)
  );

  // ---- Sums ----
  logic [4:0] pages_due_q;  // Whose rows have not all come out.
  wire words_due = pages_due_q != '0 || !mean_idle;
  assign raise_valid_o = state_q == StRaise && !words_due;
  assign raise_o = page_raise_i;
  assign last_word_o = word_index_t'((value_dim_i - 1'b1) >> $clog2(ExactLanes));
  assign page_ready_o = state_q == StRows && weights_idle && (described || described_q);
  assign idle_o = state_q == StPage && !page_valid_i && !words_due && sums_idle_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StPage;
      described_q <= 1'b0;
      pages_due_q <= '0;
    end else if (clear_i) begin
      state_q <= StPage;
      described_q <= 1'b0;
      pages_due_q <= '0;
    end else begin
      pages_due_q <= pages_due_q + 5'(rows_begin && any_rows) - 5'(page_out);
      unique case (state_q)
        StPage: begin
          described_q <= !any_rows;
          if (page_taken) state_q <= raise_any ? StRaise : StRows;
        end
        StRaise: if (raise_valid_o && sums_ready_i) state_q <= StRaised;
        StRaised: if (sums_ready_i) state_q <= StRows;
        StRows: begin
          if (described) described_q <= 1'b1;
          if (page_ready_o) state_q <= StPage;
        end
        default: state_q <= StPage;
      endcase
    end
  end

  wire unused = ^{page_i.page, page_i.crc_hot, page_i.k_step_exponent, page_i.key_scales, beat_i.fault,
                  beat_i.poison, beat_i.tag, word_tag[TokenBits-1:0]};

endmodule
