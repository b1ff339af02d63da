// The mean values of pages' tokens that are not read (ARITHMETIC.md 7.4): takes a page's exact values as
// they pass, then the bursts of its V_SUM, and gives words like those of a value.
//
// A burst per cycle and one cycle a page; a word from every two bursts, 6 cycles after the second. The
// exact values of a page may pass while the one before it still waits for its sums, and words of four
// pages may wait.
//
// BOUNDED's means are those of whole pages, and each may be issued again, and again, as it is or negated
// (8.1, 8.4).

module nkv_tail_mean
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  parameter int unsigned WordLatency = 11      // From a word's issue to the word; at least 3.
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  exponent_t   list_exponent_i,         // Ev; held during a command, as the next is.
  input  dim_t        value_dim_i,
  input  logic        whole_i,                 // Of all tokens, whatever passes; held, too.

  input  logic        page_valid_i,            // Pages in order,
  output logic        page_ready_o,
  input  token_mask_t page_rows_i,             // tokens whose exact values will pass,
  input  logic        page_rest_i,             // and whether the others have a mean.
  input  exponent_t   page_exponent_i,         // Not above Ev.

  input  logic        exact_valid_i,           // Words of exact values.
  input  word_index_t exact_index_i,
  input  logic        exact_last_i,            // Of its page.
  input  key_t        exact_i[ExactLanes],

  input  logic        sum_valid_i,             // Bursts of V_SUM of pages with a mean.
  output logic        sum_ready_o,
  input  burst_t      sum_i,

  output logic        ready_o,                 // A word can be issued.
  input  logic        issue_i,
  input  logic        negate_i,                // Minus the mean, for all of its words.
  input  logic        again_i,                 // With a mean's last word: the mean once more.
  output logic        issued_last_o,           // In this cycle a mean's last word starts.
  output logic        word_valid_o,
  output word_index_t word_index_o,
  output logic        word_last_o,             // Of its mean.
  output key_t        word_o[ExactLanes],
  output logic        idle_o
);

  localparam int unsigned Lanes = BurstBits / 32;
  localparam int unsigned Halves = ExactLanes / Lanes;
  localparam int unsigned RowBanks = 2;
  localparam int unsigned MeanBanks = 4;
  localparam int unsigned MeanBankBits = $clog2(MeanBanks);
  localparam int unsigned ExactBits = ValueBits + $clog2(PageTokens);
  localparam int unsigned RestBits = 33;
  localparam int unsigned ReciprocalBits = 17;
  localparam int unsigned Latency = 5;
  localparam logic signed [ValueBits-1:0] Limit = {1'b0, {(ValueBits - 1) {1'b1}}};
  typedef logic signed [ExactBits-1:0] exact_sum_t;
  typedef logic signed [RestBits-1:0] rest_t;
  typedef logic [ReciprocalBits-1:0] reciprocal_t;
  typedef logic [MeanBankBits-1:0] mean_bank_t;

  typedef struct packed {
    logic       rows;
    logic       rest;
    logic [6:0] unread;  // r
    exponent_t  exponent;
  } page_t;

  // round(2^16 / r)
  function automatic reciprocal_t reciprocal_of(logic [6:0] tokens);
    automatic reciprocal_t reciprocal = '0;
    for (int unsigned r = 1; r <= PageTokens; r++) begin
      if (tokens == 7'(r)) reciprocal = reciprocal_t'(((1 << 17) / r + 1) / 2);
    end
    return reciprocal;
  endfunction

  // ---- Pages that wait for their sums ----
  logic  pages_ready, page_valid, page_done;
  page_t page;
  logic [2:0] unused_pages;
  logic [1:0] rows_begun_q;                 // Pages with rows that are not done,
  logic [1:0] rows_passed_q;                // and those of them whose rows have passed.
  wire page_taken = page_valid_i && page_ready_o;
  wire token_mask_t rows = whole_i ? '0 : page_rows_i;
  assign page_ready_o = pages_ready && rows_begun_q != 2'(RowBanks);

  nkv_fifo #(
    .T(page_t),
    .Depth(4)
  ) u_pages (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (page_taken),
    .in_ready_o (pages_ready),
    .in_data_i  ('{
        rows: rows != '0,
        rest: page_rest_i,
        unread: 7'($countones(~rows)),
        exponent: page_exponent_i
    }),
    .out_valid_o(page_valid),
    .out_ready_i(page_done),
    .out_data_o (page),
    .used_o     (unused_pages)
  );

  logic set_q;                              // What holds for the page's bursts has been taken over.
  logic [MeanBankBits:0] mean_banks_q;      // In use.
  logic [WordBits:0] burst_q;               // Of the page's V_SUM, counted.
  wire rows_passed = !page.rows || rows_passed_q != '0;
  wire sets = page_valid && page.rest && rows_passed && !set_q &&
      mean_banks_q != (MeanBankBits + 1)'(MeanBanks);
  wire [WordBits:0] last_burst_index = (WordBits + 1)'((value_dim_i - 1'b1) >> $clog2(Lanes));
  wire last_burst = burst_q == last_burst_index;
  wire sum_taken = sum_valid_i && sum_ready_o;
  assign sum_ready_o = set_q;
  assign page_done = page_valid && (page.rest ? sum_taken && last_burst : rows_passed);

  // ---- Sums of the exact values ----
  logic [RowBanks-1:0][RowWords-1:0] any_q;  // Words that have a sum.
  logic exact_bank_q, read_bank_q;
  wire exact_any = any_q[exact_bank_q][exact_index_i];
  wire word_index_t sum_word = word_index_t'(burst_q >> $clog2(Halves));
  wire sum_half = burst_q[0];
  wire sum_any = page.rows && any_q[read_bank_q][sum_word];
  exact_sum_t exact_sum[ExactLanes];

  for (genvar i = 0; i < int'(ExactLanes); i++) begin : g_exact
    (* ram_style = "distributed" *) exact_sum_t sums[RowBanks*RowWords];
    always_ff @(posedge clk_i) begin
      if (exact_valid_i) begin
        sums[{exact_bank_q, exact_index_i}] <= exact_sum_t'(exact_i[i]) +
            (exact_any ? sums[{exact_bank_q, exact_index_i}] : '0);
      end
    end
    assign exact_sum[i] = sum_any ? sums[{read_bank_q, sum_word}] : '0;
  end

  // ---- Bursts ----
  typedef struct packed {
    logic        valid;
    logic        half;
    logic        last;                      // Of its page.
    mean_bank_t  bank;
    word_index_t index;
  } step_t;

  step_t       step_q[Latency];             // [i]: i + 1 cycles after a burst.
  mean_bank_t  mean_bank_q;
  reciprocal_t reciprocal_q;
  logic [4:0]  shift_q;
  logic signed [31:0] stored_q[Lanes];
  exact_sum_t         exact_q[Lanes];
  rest_t              rest_q[Lanes];
  reciprocal_t        factor_q[2];          // Of the page that a step belongs to.
  logic signed [RestBits+ReciprocalBits:0] multiplied_q[Lanes], product_q[Lanes];
  logic signed [ValueBits-1:0] mean_q[Lanes];

  wire [8:0] distance = 9'(list_exponent_i) - 9'(page.exponent);

  always_ff @(posedge clk_i) begin
    if (sets) begin
      reciprocal_q <= reciprocal_of(page.unread);
      shift_q <= distance[8] ? '0 : distance[7:5] != '0 ? '1 : distance[4:0];
    end
    if (sum_taken) begin
      factor_q[0] <= reciprocal_q;
      for (int unsigned i = 0; i < Lanes; i++) begin
        stored_q[i] <= signed'(sum_i[32*i+:32]) >>> shift_q;
        exact_q[i] <= exact_sum[{sum_half, 4'(i)}];
      end
    end
    if (step_q[0].valid) begin
      factor_q[1] <= factor_q[0];
      for (int unsigned i = 0; i < Lanes; i++) begin
        rest_q[i] <= rest_t'(stored_q[i]) - rest_t'(exact_q[i]);
      end
    end
    if (step_q[1].valid) begin
      for (int unsigned i = 0; i < Lanes; i++) begin
        multiplied_q[i] <= rest_q[i] * signed'({1'b0, factor_q[1]});
      end
    end
    if (step_q[2].valid) product_q <= multiplied_q;
    if (step_q[3].valid) begin
      for (int unsigned i = 0; i < Lanes; i++) begin
        automatic logic signed [RestBits+ReciprocalBits-16:0] mean =
            product_q[i][RestBits+ReciprocalBits:16];
        if (mean > 35'(Limit)) mean_q[i] <= Limit;
        else if (mean < -35'(Limit)) mean_q[i] <= -Limit;
        else mean_q[i] <= mean[ValueBits-1:0];
      end
    end
    step_q[0] <= '{
        valid: sum_taken && !clear_i,
        half: sum_half,
        last: last_burst,
        bank: mean_bank_q,
        index: sum_word
    };
    for (int unsigned i = 1; i < Latency; i++) begin
      step_q[i] <= step_q[i-1];
      if (clear_i) step_q[i].valid <= 1'b0;
    end
  end

  // ---- Words ----
  typedef struct packed {
    logic        last;
    logic        frees;                     // Its bank, whose mean is not issued again.
    logic        negate;
    mean_bank_t  bank;
    word_index_t index;
  } issue_t;

  // The last word of an odd number of bursts is complete with its first half.
  wire step_t made = step_q[Latency-1];
  wire completes = made.valid && (made.half || made.last);
  logic [MeanBankBits+WordBits:0] words_q;  // Complete and not issued.
  mean_bank_t  issue_bank_q;
  word_index_t issue_index_q;
  issue_t      read, read_q, word_q;
  logic [WordLatency-1:0] issued_q;         // [i]: i + 1 cycles after an issue.
  wire word_index_t last_word = word_index_t'(last_burst_index >> $clog2(Halves));
  wire issue_t issue_now = '{
      last: issue_index_q == last_word,
      frees: issue_index_q == last_word && !again_i,
      negate: negate_i,
      bank: issue_bank_q,
      index: issue_index_q
  };
  assign ready_o = words_q != '0;
  assign issued_last_o = issue_i && issue_now.last;

  nkv_delay #(
    .Width ($bits(issue_t)),
    .Cycles(WordLatency - 2)
  ) u_issue (
    .clk_i,
    .data_i(issue_now),
    .data_o(read)
  );

  for (genvar h = 0; h < int'(Halves); h++) begin : g_half
    for (genvar i = 0; i < int'(Lanes); i++) begin : g_lane
      (* ram_style = "distributed" *) logic signed [ValueBits-1:0] means[MeanBanks*RowWords];
      logic signed [ValueBits-1:0] mean_read_q, number_q;
      // What a last word does not have is zero.
      wire writes = made.valid && (made.half == 1'(h) || h == 1);
      always_ff @(posedge clk_i) begin
        if (writes) means[{made.bank, made.index}] <= made.half == 1'(h) ? mean_q[i] : '0;
        if (issued_q[WordLatency-3]) mean_read_q <= means[{read.bank, read.index}];
        if (issued_q[WordLatency-2]) number_q <= read_q.negate ? -mean_read_q : mean_read_q;
      end
      assign word_o[h*int'(Lanes)+i] = key_t'(number_q);
    end
  end

  always_ff @(posedge clk_i) begin
    read_q <= read;
    word_q <= read_q;
  end
  assign word_valid_o = issued_q[WordLatency-1];
  assign word_index_o = word_q.index;
  assign word_last_o = word_q.last;
  wire mean_out = word_valid_o && word_q.frees;
  wire unused_word = ^{word_q.negate, word_q.bank};
  assign idle_o = !page_valid && mean_banks_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      rows_begun_q <= '0;
      rows_passed_q <= '0;
      set_q <= 1'b0;
      mean_banks_q <= '0;
      burst_q <= '0;
      any_q <= '0;
      exact_bank_q <= 1'b0;
      read_bank_q <= 1'b0;
      mean_bank_q <= '0;
      words_q <= '0;
      issue_bank_q <= '0;
      issue_index_q <= '0;
      issued_q <= '0;
    end else if (clear_i) begin
      rows_begun_q <= '0;
      rows_passed_q <= '0;
      set_q <= 1'b0;
      mean_banks_q <= '0;
      burst_q <= '0;
      any_q <= '0;
      exact_bank_q <= 1'b0;
      read_bank_q <= 1'b0;
      mean_bank_q <= '0;
      words_q <= '0;
      issue_bank_q <= '0;
      issue_index_q <= '0;
      issued_q <= '0;
    end else begin
      rows_begun_q <= rows_begun_q + 2'(page_taken && rows != '0) -
          2'(page_done && page.rows);
      rows_passed_q <= rows_passed_q + 2'(exact_valid_i && exact_last_i && !whole_i) -
          2'(page_done && page.rows);
      if (exact_valid_i && !whole_i) begin
        any_q[exact_bank_q][exact_index_i] <= 1'b1;
        if (exact_last_i) exact_bank_q <= !exact_bank_q;
      end
      if (page_done && page.rows) begin
        any_q[read_bank_q] <= '0;
        read_bank_q <= !read_bank_q;
      end
      if (sets) set_q <= 1'b1;
      else if (page_done) set_q <= 1'b0;
      if (sum_taken) burst_q <= last_burst ? '0 : burst_q + 1'b1;
      if (sum_taken && last_burst) mean_bank_q <= mean_bank_q + 1'b1;
      mean_banks_q <= mean_banks_q + (MeanBankBits + 1)'(sets) - (MeanBankBits + 1)'(mean_out);
      words_q <= words_q + (MeanBankBits + WordBits + 1)'(completes) -
          (MeanBankBits + WordBits + 1)'(issue_i) +
          (issued_last_o && again_i ? (MeanBankBits + WordBits + 1)'(last_word) + 1'b1 : '0);
      if (issue_i) issue_index_q <= issue_now.last ? '0 : issue_index_q + 1'b1;
      if (issued_last_o && !again_i) issue_bank_q <= issue_bank_q + 1'b1;
      issued_q <= {issued_q[WordLatency-2:0], issue_i};
    end
  end

endmodule
