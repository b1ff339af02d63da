// The pages of a list that have a token in sight, in list order, by the rule of ATTEND and TOPK:
// token t is in sight if t < tokens and (window = 0 or t >= tokens - window or t < sinks). Looks at
// one page per cycle; valid/ready.

`include "nkv_assert.svh"

module nkv_visible_pages
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  logic        start_i,
  input  logic [31:0] tokens_i,       // At most ListPages * PageTokens.
  input  logic [31:0] window_i,
  input  logic [7:0]  sinks_i,
  output logic        done_o,         // All visits have been taken.

  output logic        visit_valid_o,
  input  logic        visit_ready_i,
  output visit_t      visit_o
);

  typedef logic [ListTokensLog2:0] count_t;

  // Tokens of a page that begins at `first` which lie below `limit`.
  function automatic token_mask_t below(count_t limit, count_t first);
    automatic count_t distance = limit - first;
    if (limit <= first) return '0;
    if (distance >= count_t'(PageTokens)) return '1;
    return ~({PageTokens{1'b1}} << distance[$clog2(PageTokens)-1:0]);
  endfunction

  wire    all_in_window = window_i == '0 || window_i >= tokens_i;
  logic   busy_q;
  count_t tokens_q, first_in_window_q, sinks_q, first_q;
  wire token_mask_t in_sight =
      below(tokens_q, first_q) & (~below(first_in_window_q, first_q) | below(sinks_q, first_q));
  wire at_end = first_q >= tokens_q;
  wire step = busy_q && !at_end && (in_sight == '0 || visit_ready_i);

  assign visit_valid_o = busy_q && !at_end && in_sight != '0;
  assign visit_o = '{
      page: page_index_t'(first_q >> $clog2(PageTokens)),
      tokens: in_sight
  };
  assign done_o = !busy_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      tokens_q <= '0;
      first_in_window_q <= '0;
      sinks_q <= '0;
      first_q <= '0;
    end else if (clear_i) begin
      busy_q <= 1'b0;
    end else if (start_i) begin
      busy_q <= 1'b1;
      tokens_q <= count_t'(tokens_i);
      first_in_window_q <=
          all_in_window ? '0 : count_t'(tokens_i - window_i);
      sinks_q <= count_t'(sinks_i);
      first_q <= '0;
    end else begin
      if (step) first_q <= first_q + count_t'(PageTokens);
      if (at_end) busy_q <= 1'b0;
    end
  end

  `NKV_ASSERT_STAYS(VisitStays_A, visit_valid_o, visit_ready_i, visit_o, clear_i || start_i)

endmodule
