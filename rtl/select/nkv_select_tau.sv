// The k-th best candidate of the last exact cut: what ranks below it is none of the best k.
// - A candidate comes out one cycle later, with beats_o; another cycle later it stands at held_*.
// - It becomes the new one, tau, as the worst of those that keep_i shows, from restart_i on (which
//   comes before the first); commit_i says that it is complete and holds, clear_i that none holds.

module nkv_select_tau
  import nkv_select_pkg::*;
(
  input  logic   clk_i,
  input  logic   rst_ni,
  input  logic   clear_i,

  input  logic   valid_i,
  input  score_t score_i,
  input  token_t token_i,
  input  bin_t   bin_i,
  output logic   valid_o,
  output logic   beats_o,
  output bin_t   bin_o,
  output score_t held_score_o,
  output token_t held_token_o,

  input  logic   restart_i,
  input  logic   keep_i,         // The candidate at held_* is one of the best.
  input  logic   commit_i
);

  logic holds_q, some_q, valid_q;
  score_t score_q, tau_score_q;
  token_t token_q, tau_token_q;

  assign valid_o = valid_q;

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      beats_o <= !holds_q || ranks_before(score_i, token_i, tau_score_q, tau_token_q);
      bin_o <= bin_i;
      score_q <= score_i;
      token_q <= token_i;
    end
    if (valid_q) begin
      held_score_o <= score_q;
      held_token_o <= token_q;
    end
    if (keep_i && (!some_q ||
                   ranks_before(tau_score_q, tau_token_q, held_score_o, held_token_o))) begin
      tau_score_q <= held_score_o;
      tau_token_q <= held_token_o;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      holds_q <= 1'b0;
      some_q <= 1'b0;
    end else begin
      valid_q <= valid_i;
      if (clear_i) holds_q <= 1'b0;
      else if (commit_i) holds_q <= 1'b1;
      if (restart_i) some_q <= 1'b0;
      else if (keep_i) some_q <= 1'b1;
    end
  end

endmodule
