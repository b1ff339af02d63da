// Ids to visits of pages, in order: ids that ascend within a page become one visit, so that rows beside
// each other share their bursts and pages are not gone to again for each row.

module nkv_id_visits
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,      // Before the first id.

  input  logic        id_valid_i,
  output logic        id_ready_o,
  input  logic [31:0] id_i,         // Below ListPages * PageTokens.
  input  logic        id_last_i,

  output logic        visit_valid_o,
  input  logic        visit_ready_i,
  output visit_t      visit_o,
  output logic        ended_o       // The visit of the last id has been taken.
);

  localparam int unsigned TokenBits = $clog2(PageTokens);

  logic                 any_q, last_q;
  page_index_t          page_q;
  token_mask_t          tokens_q;
  logic [TokenBits-1:0] highest_q;

  wire page_index_t page = id_i[TokenBits+:PageIndexBits];
  wire [TokenBits-1:0] token = id_i[TokenBits-1:0];
  wire joins = page == page_q && token > highest_q;
  wire take = id_valid_i && id_ready_o;
  wire gives = visit_valid_o && visit_ready_i;

  assign id_ready_o = !last_q && (!any_q || joins);
  assign visit_valid_o = any_q && (last_q || (id_valid_i && !joins));
  assign visit_o = '{page: page_q, tokens: tokens_q};
  assign ended_o = last_q && !any_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {any_q, last_q, page_q, tokens_q, highest_q} <= '0;
    end else if (clear_i) begin
      any_q <= 1'b0;
      last_q <= 1'b0;
    end else if (take) begin
      any_q <= 1'b1;
      last_q <= id_last_i;
      page_q <= page;
      highest_q <= token;
      tokens_q <= (any_q ? tokens_q : '0) | (token_mask_t'(1) << token);
    end else if (gives) begin
      any_q <= 1'b0;
    end
  end

  wire unused = ^id_i;

endmodule
