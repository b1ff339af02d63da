// nkv_visible_pages with the fields of its visits as ports.
module nkv_visible_pages_bench
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,
  input  logic        start_i,
  input  logic [31:0] tokens_i,
  input  logic [31:0] window_i,
  input  logic [7:0]  sinks_i,
  output logic        done_o,
  output logic [PageIndexBits:0] pages_o,
  output logic        visit_valid_o,
  input  logic        visit_ready_i,
  output page_index_t visit_page_o,
  output token_mask_t visit_tokens_o
);

  visit_t visit;

  nkv_visible_pages u_pages (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .tokens_i,
    .window_i,
    .sinks_i,
    .done_o,
    .pages_o,
    .visit_valid_o,
    .visit_ready_i,
    .visit_o(visit)
  );

  assign visit_page_o = visit.page;
  assign visit_tokens_o = visit.tokens;
  wire unused_sums = visit.sums;

endmodule
