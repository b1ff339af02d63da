// nkv_page_feed over an nkv_page_set, as in TOPK.
module nkv_page_feed_bench
  import nkv_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,

  input  logic               scanned_i,
  input  page_body_t         body_i,
  input  logic               set_i,
  input  visit_t             set_tokens_i,
  input  page_index_t        crc_page_i,
  output logic [31:0]        crc_hot_o,
  output logic signed [15:0] step_exponent_o,  // Of the page that is shown.
  output logic               any_set_o,

  input  logic               start_i,
  input  logic [31:0]        tokens_i,
  input  logic [31:0]        window_i,
  input  logic [7:0]         sinks_i,
  input  logic               take_visible_i,
  input  logic               take_set_i,
  output logic               valid_o,
  input  logic               ready_i,
  output visit_t             visit_o,
  output logic               done_o,
  output logic [PageIndexBits:0] pages_o
);

  logic        seen_valid, seen_ready;
  page_index_t seen, page;
  token_mask_t visible, set;

  nkv_page_set u_set (
    .page_i    (page),
    .visible_o (visible),
    .set_o     (set),
    .any_page_i(page),
    .*
  );

  nkv_page_feed u_feed (
    .seen_valid_o  (seen_valid),
    .seen_ready_i  (seen_ready),
    .seen_o        (seen),
    .page_valid_i  (seen_valid),
    .page_ready_o  (seen_ready),
    .page_i        (seen),
    .none_between_i(1'b1),
    .page_o        (page),
    .visible_i     (visible),
    .set_i         (set),
    .*
  );

endmodule
