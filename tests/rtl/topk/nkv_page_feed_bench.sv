// nkv_page_feed over an nkv_page_set, as in TOPK, whose fields are ports.
module nkv_page_feed_bench
  import nkv_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,

  input  logic               scanned_i,
  input  page_index_t        scanned_page_i,
  input  token_mask_t        scanned_tokens_i,
  input  token_mask_t        scanned_nonfinite_i,
  input  logic [31:0]        scanned_crc_i,
  input  logic [15:0]        scanned_step_exponent_i,
  input  logic               set_i,
  input  page_index_t        set_page_i,
  input  token_mask_t        set_tokens_i,
  input  page_index_t        crc_page_i,
  output logic [31:0]        crc_o,
  output logic [15:0]        step_exponent_o,  // Of the page that is shown.
  output logic               any_set_o,

  input  logic               start_i,
  input  logic [31:0]        tokens_i,
  input  logic [31:0]        window_i,
  input  logic [7:0]         sinks_i,
  input  logic               take_visible_i,
  input  logic               take_set_i,
  output logic               valid_o,
  input  logic               ready_i,
  output page_index_t        visit_page_o,
  output token_mask_t        visit_tokens_o,
  output logic               done_o,
  output logic [PageIndexBits:0] pages_o
);

  logic        seen_valid, seen_ready;
  page_index_t seen, page;
  token_mask_t visible, set;
  visit_t      visit;
  page_body_t  body;

  always_comb begin
    body = '0;
    body.page = scanned_page_i;
    body.tokens = scanned_tokens_i;
    body.nonfinite = scanned_nonfinite_i;
    body.crc_hot = scanned_crc_i;
    body.k_step_exponent = scanned_step_exponent_i;
  end

  nkv_page_set u_set (
    .clk_i,
    .scanned_i,
    .body_i         (body),
    .set_i,
    .set_tokens_i   ('{page: set_page_i, tokens: set_tokens_i, sums: 1'b0}),
    .page_i         (page),
    .visible_o      (visible),
    .set_o          (set),
    .step_exponent_o(step_exponent_o),
    .any_page_i     (page),
    .any_set_o,
    .crc_page_i,
    .crc_hot_o      (crc_o)
  );

  nkv_page_feed u_feed (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .tokens_i,
    .window_i,
    .sinks_i,
    .take_visible_i,
    .take_set_i,
    .seen_valid_o  (seen_valid),
    .seen_ready_i  (seen_ready),
    .seen_o        (seen),
    .page_valid_i  (seen_valid),
    .page_ready_o  (seen_ready),
    .page_i        (seen),
    .none_between_i(1'b1),
    .page_o   (page),
    .visible_i(visible),
    .set_i    (set),
    .valid_o,
    .ready_i,
    .visit_o  (visit),
    .done_o,
    .pages_o
  );

  assign visit_page_o = visit.page;
  assign visit_tokens_o = visit.tokens;
  wire unused_sums = visit.sums;

endmodule
