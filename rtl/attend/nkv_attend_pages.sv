// Announced pages on their way to the scorer, to the logits and to the values, each in order and at its
// own pace. In BOUNDED what is sampled of a page is looked up first, which takes a cycle more.

module nkv_attend_pages
  import nkv_pkg::*;
  import nkv_sample_pkg::attend_page_t;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  logic         chosen_i,          // A page without tokens has none to score.
  input  logic         bounded_i,

  input  logic         body_valid_i,
  output logic         body_ready_o,
  input  page_body_t   body_i,
  input  token_mask_t  page_sampled_i,    // A cycle after the body.
  input  logic         page_rest_i,

  output logic         to_scores_valid_o,
  input  logic         to_scores_ready_i,
  output page_body_t   to_scores_o,
  output logic         to_logits_valid_o,
  input  logic         to_logits_ready_i,
  output attend_page_t to_logits_o,
  output logic         to_values_valid_o,
  input  logic         to_values_ready_i,
  output attend_page_t to_values_o
);

  logic       looked_up_q;
  logic [2:0] ready;
  logic [$clog2(PagesAhead):0] unused_scores_used, unused_logits_used, unused_values_used;
  wire taken = body_valid_i && body_ready_o;
  wire attend_page_t page = '{
      body: body_i,
      sampled: bounded_i ? page_sampled_i : '0,
      rest: body_i.sums && (!bounded_i || page_rest_i)
  };
  assign body_ready_o = &ready && (!bounded_i || looked_up_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) looked_up_q <= 1'b0;
    else looked_up_q <= body_valid_i && !taken && !clear_i;
  end

  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_to_scores (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (taken && (!chosen_i || body_i.tokens != '0)),
    .in_ready_o (ready[0]),
    .in_data_i  (body_i),
    .out_valid_o(to_scores_valid_o),
    .out_ready_i(to_scores_ready_i),
    .out_data_o (to_scores_o),
    .used_o     (unused_scores_used)
  );
  nkv_fifo #(
    .T(attend_page_t),
    .Depth(PagesAhead)
  ) u_to_logits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (taken),
    .in_ready_o (ready[1]),
    .in_data_i  (page),
    .out_valid_o(to_logits_valid_o),
    .out_ready_i(to_logits_ready_i),
    .out_data_o (to_logits_o),
    .used_o     (unused_logits_used)
  );
  nkv_fifo #(
    .T(attend_page_t),
    .Depth(PagesAhead)
  ) u_to_values (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (taken),
    .in_ready_o (ready[2]),
    .in_data_i  (page),
    .out_valid_o(to_values_valid_o),
    .out_ready_i(to_values_ready_i),
    .out_data_o (to_values_o),
    .used_o     (unused_values_used)
  );

endmodule
