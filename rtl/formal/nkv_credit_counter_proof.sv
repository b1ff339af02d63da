// What nkv_credit_counter promises: what is free and what is taken always add up to Limit as long
// as nobody gives back more than was taken, nothing is taken that is not there, and the count stays
// within 0 .. Limit whatever is given.

module nkv_credit_counter_proof #(
  parameter int unsigned Limit = 6,
  parameter int unsigned AmountBits = 2,
  localparam int unsigned CountBits = $clog2(Limit + 1)
) (
  input logic                  clk_i,
  input logic                  take_valid_i,
  input logic [AmountBits-1:0] take_amount_i,
  input logic [AmountBits-1:0] give_amount_i
);

  localparam int unsigned WideBits = CountBits + AmountBits + 1;
  typedef logic [WideBits-1:0] wide_t;

  logic rst_n = 1'b0;
  logic take_ready, excess;
  logic [CountBits-1:0] free;

  nkv_credit_counter #(
    .Limit(Limit),
    .AmountBits(AmountBits)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .take_valid_i,
    .take_ready_o(take_ready),
    .take_amount_i,
    .give_amount_i,
    .free_o(free),
    .excess_o(excess)
  );

  wide_t taken = '0;         // By a user that has never given too much back.
  logic is_honest = 1'b1;
  wire take = take_valid_i && take_ready;
  wire wide_t holds = taken + (take ? wide_t'(take_amount_i) : '0);

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n) begin
      if (wide_t'(give_amount_i) > holds) is_honest <= 1'b0;
      taken <= holds - wide_t'(give_amount_i);
    end
  end

  always_comb begin
    if (rst_n) begin
      a_never_above_limit : assert (wide_t'(free) <= wide_t'(Limit));
      a_never_below_zero : assert (!take || take_amount_i <= free);
      a_gives_what_is_there : assert (take_ready == (wide_t'(take_amount_i) <= wide_t'(free)));
      if (is_honest) a_adds_up : assert (wide_t'(free) + taken == wide_t'(Limit));
      a_tells_excess : assert (excess == !is_honest);
    end
  end

endmodule
