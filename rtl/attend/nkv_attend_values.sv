// The value side of ATTEND (ARITHMETIC.md sections 4 and 7): raises the sums to a page's references,
// turns its logits into weights, and has nkv_exact_stage add its value rows under them, then the mean of
// those that are not read.
//
// Bursts of a page's values come while its keys are still being scored, so they wait in a queue of
// `Depth` bursts, which holds all key rows of a page whose values are its keys. A row of a token that
// is not visible has weights of zero.

module nkv_attend_values
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
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
  input  logic                   chosen_i,           // Rows come of a page's tokens only, not of all.

  input  logic                   page_valid_i,       // Its logits are complete.
  output logic                   page_ready_o,       // All of its values have been added.
  input  page_body_t             page_i,
  input  logic [5:0]             page_raise_i[Rows],
  input  reference_t             page_reference_i[Rows],
  output logic                   take_o,             // Logits, and weights of rests (nkv_attend_logits).
  input  logit_t                 logit_i[Rows],
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
  output logic                   raise_valid_o,
  output logic [5:0]             raise_o[Rows],
  input  logic                   sums_ready_i,
  input  logic                   sums_idle_i,

  output logic                   idle_o
);

  typedef enum logic [2:0] {
    StPage,
    StRaise,
    StRaised,
    StRows,
    StMean
  } state_e;

  state_e state_q;

  // ---- Bursts that wait ----
  typedef struct packed {
    logic   is_exponents;
    logic   is_sums;
    logic   first;
    logic   last;
    burst_t data;
  } waiting_t;

  logic     waiting_valid, waiting_pop, burst_ready;
  waiting_t waiting;
  logic [$clog2(Depth):0] unused_used;

  nkv_fifo #(
    .T(waiting_t),
    .Depth(Depth),
    .Block(1'b1)
  ) u_waiting (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (beat_valid_i),
    .in_ready_o (beat_ready_o),
    .in_data_i  ('{
        is_exponents: beat_i.tag.array inside {4'(PageArrayKExponents), 4'(PageArrayVExponents)},
        is_sums: beat_i.tag.array == 4'(PageArrayVSum),
        first: beat_i.first,
        last: beat_i.last,
        data: beat_i.data
    }),
    .out_valid_o(waiting_valid),
    .out_ready_i(waiting_pop),
    .out_data_o (waiting),
    .used_o     (unused_used)
  );

  wire is_row = waiting_valid && !waiting.is_exponents && !waiting.is_sums;
  logic exponents_ready;
  wire takes_exponents = waiting_valid && waiting.is_exponents && exponents_ready;
  logic sums_wanted;
  wire takes_sums = waiting_valid && waiting.is_sums && state_q == StMean && sums_wanted;
  assign waiting_pop = takes_exponents || takes_sums || (is_row && burst_ready);

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
  logic issued_last, unused_row_stored, row_valid, row_word_last;
  word_index_t row_index;
  key_t        row_word[ExactLanes];
  logic [TokenBits:0] word_tag;
  logic [4:0] weighted_q;  // Rows whose weights wait, less those that have begun.
  wire any_rows = !chosen_i || page_i.tokens != '0;

  nkv_page_rows u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .page_valid_i     (state_q == StRows && !described_q),
    .page_ready_o     (described),
    .page_format_i    (format),
    .page_rows_i      (chosen_i ? page_i.tokens : '1),
    .exponents_valid_i(waiting_valid && waiting.is_exponents),
    .exponents_ready_o(exponents_ready),
    .rows_valid_i     (is_row),
    .rows_ready_o     (burst_ready),
    .first_i          (waiting.first),
    .last_i           (waiting.last),
    .burst_i          (waiting.data),
    .issue_i          (state_q != StMean && weighted_q != '0 && grant_i),
    .wants_o          (unused_row_stored),
    .issued_last_o    (issued_last),
    .word_valid_o     (row_valid),
    .word_tag_o       (word_tag),
    .word_index_o     (row_index),
    .word_last_o      (row_word_last),
    .word_o           (row_word)
  );

  // ---- The mean of the rest, in words that take as long as those of rows ----
  localparam int unsigned WordLatency = 11;
  typedef struct packed {
    logic        valid;
    logic        bank;
    logic        last;
    word_index_t index;
  } mean_word_t;

  logic        mean_bank_q;
  logic [WordBits:0] mean_words, mean_issued_q;
  logic [3:0]  means_due_q;           // Words that were issued and are not out.
  mean_word_t  mean_read;
  logic        mean_valid_q, mean_last_q;
  word_index_t mean_index_q;
  key_t        mean_word[ExactLanes];
  wire mean_issue = state_q == StMean && mean_words > mean_issued_q &&
      weighted_q != '0 && grant_i;
  wire mean_word_t mean_word_now = '{
      valid: mean_issue,
      bank: mean_bank_q,
      last: word_index_t'(mean_issued_q) == last_word_o,
      index: word_index_t'(mean_issued_q)
  };
  wire mean_issued_last = mean_issue && mean_word_now.last;

  nkv_tail_mean u_mean (
    .clk_i,
    .rst_ni,
    .clear_i,
    .begin_i        (state_q == StPage && page_valid_i),
    .tokens_i       (7'($countones(~page_i.tokens))),
    .list_exponent_i(value_exponent_i),
    .page_exponent_i(page_i.v_exponent),
    .value_dim_i,
    .exact_valid_i  (row_valid && page_i.sums),
    .exact_index_i  (row_index),
    .exact_i        (row_word),
    .sum_valid_i    (waiting_valid && waiting.is_sums && state_q == StMean),
    .sum_ready_o    (sums_wanted),
    .sum_i          (waiting.data),
    .bank_i         (mean_bank_q),
    .words_o        (mean_words),
    .read_i         (mean_read.index),
    .read_bank_i    (mean_read.bank),
    .word_o         (mean_word)
  );

  nkv_delay #(
    .Width ($bits(mean_word_t)),
    .Cycles(WordLatency - 1)
  ) u_mean_delay (
    .clk_i,
    .data_i(mean_word_now),
    .data_o(mean_read)
  );

  always_ff @(posedge clk_i) begin
    mean_last_q <= mean_read.last;
    mean_index_q <= mean_read.index;
  end
  assign word_valid_o = row_valid || mean_valid_q;
  assign word_index_o = mean_valid_q ? mean_index_q : row_index;
  assign word_last_o = mean_valid_q ? mean_last_q : row_word_last;
  always_comb begin
    for (int unsigned i = 0; i < ExactLanes; i++) begin
      word_o[i] = mean_valid_q ? mean_word[i] : row_word[i];
    end
  end

  // ---- Weights ----
  logic   weights_start, weight_pop;
  logic   weights_pushed;

  nkv_page_weights u_weights (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i    (weights_start),
    .rows_i     (chosen_i ? page_i.tokens : '1),
    .visible_i  (page_i.tokens & ~page_i.nonfinite),
    .rest_i     (page_i.sums),
    .reference_i(page_reference_i),
    .take_o,
    .logit_i,
    .take_rest_o,
    .rest_weight_i,
    .pushed_o   (weights_pushed),
    .pop_i      (weight_pop),
    .weight_o,
    .shift_o,
    .units_o
  );

  // ---- Sums ----
  logic raise_any;
  always_comb begin
    raise_any = 1'b0;
    for (int unsigned r = 0; r < Rows; r++) raise_any |= page_raise_i[r] != '0;
  end
  // Not before the words of the page before have come to the sums.
  assign raise_valid_o = state_q == StRaise && means_due_q == '0;
  assign raise_o = page_raise_i;
  assign last_word_o = word_index_t'((value_dim_i - 1'b1) >> $clog2(ExactLanes));

  assign weight_pop = word_valid_o && word_last_o;
  assign weights_start = state_q == StPage && page_valid_i;
  wire rows_end = row_valid && row_word_last && word_tag[TokenBits];
  assign page_ready_o = state_q == StMean ? mean_issued_last : rows_end && !page_i.sums;
  assign idle_o = state_q == StPage && !page_valid_i && means_due_q == '0 && sums_idle_i;
  wire state_e after_raise = any_rows ? StRows : StMean;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StPage;
      described_q <= 1'b0;
      weighted_q <= '0;
      mean_bank_q <= 1'b0;
      mean_issued_q <= '0;
      means_due_q <= '0;
      mean_valid_q <= 1'b0;
    end else if (clear_i) begin
      state_q <= StPage;
      described_q <= 1'b0;
      weighted_q <= '0;
      mean_bank_q <= 1'b0;
      mean_issued_q <= '0;
      means_due_q <= '0;
      mean_valid_q <= 1'b0;
    end else begin
      weighted_q <= weighted_q + 5'(weights_pushed) - 5'(issued_last || mean_issued_last);
      if (described) described_q <= 1'b1;
      mean_valid_q <= mean_read.valid;
      means_due_q <= means_due_q + 4'(mean_issue) - 4'(mean_valid_q);
      mean_issued_q <= mean_issued_last ? '0 : mean_issued_q + (WordBits + 1)'(mean_issue);
      if (mean_issued_last) mean_bank_q <= !mean_bank_q;
      unique case (state_q)
        StPage: begin
          described_q <= 1'b0;
          if (page_valid_i) state_q <= raise_any ? StRaise : after_raise;
        end
        StRaise: if (raise_valid_o && sums_ready_i) state_q <= StRaised;
        StRaised: if (sums_ready_i) state_q <= after_raise;
        StRows: if (rows_end) state_q <= page_i.sums ? StMean : StPage;
        StMean: if (mean_issued_last) state_q <= StPage;
        default: state_q <= StPage;
      endcase
    end
  end

  wire unused = ^{page_i.page, page_i.crc_hot, page_i.k_step_exponent, beat_i.fault, beat_i.poison,
                  beat_i.tag, word_tag[TokenBits-1:0]};

endmodule
