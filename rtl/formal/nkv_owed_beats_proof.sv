// What nkv_owed_beats promises a user that asks for nothing while stale_o holds, whatever is cleared in
// between and however often: stale_o exactly while a beat of before the last clearing is owed, and quiet_o
// exactly while none is. Beats are given only if they are owed, which are never more than Most.

module nkv_owed_beats_proof #(
  parameter int unsigned Most = 6,
  localparam int unsigned CountBits = $clog2(Most + 1)
) (
  input logic                 clk_i,
  input logic                 clear_i,
  input logic                 forfeit_i,
  input logic [CountBits-1:0] asked_i,
  input logic                 answered_i
);

  typedef logic [CountBits:0] count_t;

  logic rst_n = 1'b0;
  logic quiet, is_stale;
  count_t fresh = '0;  // Owed, of since the last clearing,
  count_t stale = '0;  // and of before it.

  nkv_owed_beats #(
    .Most(Most)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .clear_i,
    .forfeit_i,
    .asked_i,
    .answered_i,
    .quiet_o(quiet),
    .stale_o(is_stale)
  );

  wire count_t fresh_next = fresh + count_t'(asked_i) - count_t'(answered_i && stale == '0);
  wire count_t stale_next = stale - count_t'(answered_i && stale != '0);

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n) begin
      fresh <= clear_i || forfeit_i ? '0 : fresh_next;
      stale <= forfeit_i ? '0 : clear_i ? stale_next + fresh_next : stale_next;
    end
  end

  always_comb begin
    if (rst_n) begin
      assume (!is_stale || asked_i == '0);
      assume (!answered_i || fresh + stale != '0);
      assume (fresh + stale + count_t'(asked_i) <= count_t'(Most));
      a_tells_stale_beats : assert (is_stale == (stale != '0));
      a_no_fresh_ones_among_them : assert (stale == '0 || fresh == '0);
      a_quiet_tells_what_is_owed : assert (quiet == (fresh + stale == '0));
    end
  end

endmodule
