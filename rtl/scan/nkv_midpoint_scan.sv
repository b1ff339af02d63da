// One pass over stored midpoints: of each page that comes, the tokens whose midpoint is at least
// its row's threshold in some row (ARITHMETIC.md, section 6), among those that came with it.
//
// BEST compares with the lower edge of bin T; for a tail (section 7) saturated midpoints pass too, and
// all tokens of a page of which not all came. ALIVE compares with tau16 - radius: a midpoint of +32767
// passes by itself, as tau16 is at most 32767. 4 cycles a page, 1 for a page without tokens; a page's
// answer comes 9 cycles after it, in order.

module nkv_midpoint_scan
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,

  input  logic      alive_i,            // ALIVE, else BEST
  input  logic      tail_i,
  input  logic      no_best_i,          // A tail of saturated midpoints alone.
  input  logic [RowBits:0] rows_i,      // Rows that count
  input  bin_t      threshold_i[Rows],
  input  midpoint_t tau_i[Rows],

  input  logic         in_valid_i,
  output logic         in_ready_o,
  input  page_tokens_t in_i,
  output logic         out_valid_o,
  input  logic         out_ready_i,
  output page_tokens_t out_o,

  output logic       fetch_o,
  output page_t      fetch_page_o,
  output logic [1:0] fetch_word_o,
  input  midpoint_t  midpoint_i[Rows][ScanTokens],
  output logic       radius_fetch_o,
  output page_t      radius_page_o,
  input  radius_t    radius_i[Rows]
);

  localparam int unsigned Depth = 8;
  typedef struct packed {
    page_t      page;
    tokens_t    tokens;
    logic [1:0] word;
    logic       last;
  } stage_t;

  // Of the word whose address was given 1..4 cycles ago; its midpoints are there after 2.
  logic [4:1] valid_q;
  stage_t stage_1, stage_2, stage_3, stage_4;

  // ---- Words to fetch ---------------------------------------------------------------------
  logic running_q;
  page_tokens_t current_q;
  logic [1:0] word_q;
  logic [$clog2(Depth):0] held_q;  // Answers that are on their way or wait
  wire word_last = word_q == 2'd3 || current_q.tokens == '0;
  assign in_ready_o = (!running_q || word_last) && held_q != ($clog2(Depth) + 1)'(Depth);
  wire accept = in_valid_i && in_ready_o;
  assign fetch_o = running_q && current_q.tokens != '0;
  assign fetch_page_o = current_q.page;
  assign fetch_word_o = word_q;
  assign radius_fetch_o = accept && alive_i;
  assign radius_page_o = in_i.page;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      running_q <= 1'b0;
      word_q <= '0;
      held_q <= '0;
    end else begin
      running_q <= accept || (running_q && !word_last);
      word_q <= running_q && !word_last ? word_q + 1'b1 : '0;
      held_q <= held_q + ($clog2(Depth) + 1)'(accept) -
                ($clog2(Depth) + 1)'(out_valid_o && out_ready_i);
    end
  end
  always_ff @(posedge clk_i) if (accept) current_q <= in_i;

  // ---- The row's least midpoints, for the page whose first word is fetched ----------------
  midpoint_t least_q[Rows];
  always_ff @(posedge clk_i) begin
    if (valid_q[1] && stage_1.word == '0) begin
      for (int r = 0; r < int'(Rows); r++) begin
        logic signed [17:0] bound;
        bound = 18'(tau_i[r]) - signed'({2'b0, radius_i[r]});
        if (no_best_i) least_q[r] <= 16'sh7fff;
        else if (!alive_i) least_q[r] <= {~threshold_i[r][11], threshold_i[r][10:0], 4'b0};
        else least_q[r] <= bound < -18'sd32768 ? 16'sh8000 : bound[15:0];
      end
    end
  end

  // ---- Comparison, 16 tokens per cycle ----------------------------------------------------
  logic [Rows-1:0] reaches_3[ScanTokens];
  logic [ScanTokens-1:0] reaches_4;
  logic [PageTokens-ScanTokens-1:0] before_q;
  page_tokens_t answer;
  wire whole = tail_i && stage_4.tokens != '1;
  wire tokens_t answered = stage_4.tokens & ({PageTokens{whole}} | {reaches_4, before_q});
  assign answer = '{page: stage_4.page, tokens: answered, rest: answered != stage_4.tokens};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[3:1], running_q};
  end

  always_ff @(posedge clk_i) begin
    if (running_q) begin
      stage_1 <= '{page: current_q.page, tokens: current_q.tokens, word: word_q, last: word_last};
    end
    if (valid_q[1]) begin
      stage_2 <= stage_1;
    end
    if (valid_q[2]) begin
      stage_3 <= stage_2;
      if (stage_2.tokens != '0) begin
        for (int t = 0; t < int'(ScanTokens); t++) begin
          for (int r = 0; r < int'(Rows); r++) begin
            reaches_3[t][r] <= (RowBits + 1)'(r) < rows_i && (midpoint_i[r][t] >= least_q[r] ||
                                (tail_i && midpoint_i[r][t] == -16'sh7fff));
          end
        end
      end
    end
    if (valid_q[3]) begin
      stage_4 <= stage_3;
      for (int t = 0; t < int'(ScanTokens); t++) reaches_4[t] <= |reaches_3[t];
    end
    if (valid_q[4]) before_q <= {reaches_4, before_q[PageTokens-ScanTokens-1:ScanTokens]};
  end

  logic answers_ready;
  logic [$clog2(Depth):0] answers_held;
  nkv_fifo #(
    .T(page_tokens_t),
    .Depth(Depth)
  ) u_answers (
    .clk_i,
    .rst_ni,
    .clear_i(1'b0),
    .in_valid_i(valid_q[4] && stage_4.last),
    .in_ready_o(answers_ready),
    .in_data_i(answer),
    .out_valid_o,
    .out_ready_i,
    .out_data_o(out_o),
    .used_o(answers_held)
  );

  // verilator lint_off UNUSEDSIGNAL
  wire unused = &{1'b0, answers_ready, answers_held, stage_4.word, current_q.rest};
  // verilator lint_on UNUSEDSIGNAL

endmodule
