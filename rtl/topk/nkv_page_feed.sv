// Goes over the pages in sight with a set of their tokens: the visible ones, those that are not seeds, or
// those alive. Each page comes out once, in list order, without tokens too; a page takes two cycles. On its
// way it passes whoever brings its midpoints (nkv_midpoint_loader).

module nkv_page_feed
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  logic        start_i,
  input  logic [31:0] tokens_i,
  input  logic [31:0] window_i,
  input  logic [7:0]  sinks_i,
  input  logic        take_visible_i,   // The visible tokens,
  input  logic        take_set_i,       // or those of the set; both: visible and not in the set.

  output logic        seen_valid_o,     // Pages, before they are looked up: out,
  input  logic        seen_ready_i,
  output page_index_t seen_o,
  input  logic        page_valid_i,     // and in again,
  output logic        page_ready_o,
  input  page_index_t page_i,
  input  logic        none_between_i,   // none of them being between.

  output page_index_t page_o,           // To look up; the answer stands from the next cycle on.
  input  token_mask_t visible_i,
  input  token_mask_t set_i,

  output logic        valid_o,
  input  logic        ready_i,
  output visit_t      visit_o,
  output logic        done_o,
  output logic [PageIndexBits:0] pages_o  // That will come; follows the rule's inputs at once.
);

  logic   looked_up_q, pages_done;
  visit_t seen_visit;

  nkv_visible_pages u_pages (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .tokens_i,
    .window_i,
    .sinks_i,
    .pages_o,
    .done_o       (pages_done),
    .visit_valid_o(seen_valid_o),
    .visit_ready_i(seen_ready_i),
    .visit_o      (seen_visit)
  );
  assign seen_o = seen_visit.page;

  assign page_ready_o = valid_o && ready_i;
  assign page_o = page_i;
  assign valid_o = looked_up_q;
  assign visit_o.page = page_i;
  assign visit_o.sums = 1'b0;
  assign visit_o.tokens = take_set_i && take_visible_i ? visible_i & ~set_i :
      take_set_i ? set_i : visible_i;
  assign done_o = pages_done && none_between_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) looked_up_q <= 1'b0;
    else if (clear_i) looked_up_q <= 1'b0;
    else looked_up_q <= page_valid_i && !page_ready_o;
  end

  wire unused_visit = ^{seen_visit.tokens, seen_visit.sums};

endmodule
