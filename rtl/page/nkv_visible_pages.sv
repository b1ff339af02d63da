// The pages of a list that have a token in sight, in list order, by the rule of ATTEND and TOPK:
// token t is in sight if t < tokens and (window = 0 or t >= tokens - window or t < sinks). Looks at
// one page per cycle, a cycle before its visit is given; valid/ready.

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
  output logic [PageIndexBits:0] pages_o,  // In sight by these inputs; combinational.

  output logic        visit_valid_o,
  input  logic        visit_ready_i,
  output visit_t      visit_o
);

  localparam int unsigned TokenBits = $clog2(PageTokens);
  typedef logic [ListTokensLog2:0] count_t;
  // From the first token of a page to a limit; negative behind it.
  typedef logic signed [ListTokensLog2+1:0] distance_t;

  // Tokens of a page that lie before the limit.
  function automatic token_mask_t below(distance_t limit);
    if (limit[ListTokensLog2+1]) return '0;
    if (limit[ListTokensLog2:TokenBits] != '0) return '1;
    return ~({PageTokens{1'b1}} << limit[TokenBits-1:0]);
  endfunction

  // How many pages that are: those with a token of the window, and those of the sinks before them.
  wire [31:0] all_pages = (tokens_i + 32'(PageTokens) - 32'd1) >> $clog2(PageTokens);
  wire [32:0] before_window = 33'(tokens_i) - 33'(window_i);
  wire [31:0] first_page = before_window[31:0] >> $clog2(PageTokens);
  wire [31:0] sink_pages = (32'(sinks_i) + 32'(PageTokens) - 32'd1) >> $clog2(PageTokens);
  wire        all_in_window = window_i == '0 || before_window[32];
  assign pages_o = (PageIndexBits + 1)'(all_in_window ? all_pages :
      all_pages - first_page + (sink_pages < first_page ? sink_pages : first_page));

  logic        busy_q, valid_q;
  page_index_t page_q;  // That is looked at.
  visit_t      visit_q;
  distance_t   to_end_q, to_window_q, to_sinks_q;
  wire at_end = to_end_q[ListTokensLog2+1] || to_end_q == '0;
  // The window ends with the tokens, so that a page that it reaches has one in sight.
  wire reaches_window =
      to_window_q[ListTokensLog2+1] || to_window_q[ListTokensLog2:TokenBits] == '0;
  wire in_sight = reaches_window || (!to_sinks_q[ListTokensLog2+1] && to_sinks_q != '0);
  wire moves = !valid_q || visit_ready_i;
  wire step = busy_q && !at_end && (moves || !in_sight);

  assign visit_valid_o = valid_q;
  assign visit_o = visit_q;
  assign done_o = !busy_q && !valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      valid_q <= 1'b0;
      page_q <= '0;
      to_end_q <= '0;
      to_window_q <= '0;
      to_sinks_q <= '0;
    end else if (clear_i) begin
      busy_q <= 1'b0;
      valid_q <= 1'b0;
    end else if (start_i) begin
      busy_q <= 1'b1;
      valid_q <= 1'b0;
      page_q <= '0;
      to_end_q <= distance_t'(count_t'(tokens_i));
      to_window_q <= all_in_window ? '0 : distance_t'(count_t'(before_window[31:0]));
      to_sinks_q <= distance_t'(sinks_i);
    end else begin
      if (moves) valid_q <= busy_q && !at_end && in_sight;
      if (at_end) busy_q <= 1'b0;
      if (step) begin
        page_q <= page_q + 1'b1;
        to_end_q <= to_end_q - distance_t'(PageTokens);
        if (!to_window_q[ListTokensLog2+1]) to_window_q <= to_window_q - distance_t'(PageTokens);
        if (!to_sinks_q[ListTokensLog2+1]) to_sinks_q <= to_sinks_q - distance_t'(PageTokens);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (step && moves) begin
      visit_q <= '{
          page: page_q,
          tokens: below(to_end_q) & (~below(to_window_q) | below(to_sinks_q)),
          sums: 1'b0
      };
    end
  end

endmodule
