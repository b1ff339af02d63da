// Counts what is free of a resource of Limit units: reads that may be outstanding, places that are
// free downstream. Units are asked for with take_amount_i (granted where take_ready_o stands, with
// take_valid_i) and come back through give_amount_i at any time. What comes back can be asked for
// from the next cycle on: there is no path from give_* to take_ready_o. More than Limit units are
// never held: what comes back beyond them is dropped and told by excess_o until reset.

`include "nkv_assert.svh"

module nkv_credit_counter #(
  parameter int unsigned Limit = 128,
  parameter int unsigned AmountBits = 1,  // An amount is 0 .. 2^AmountBits - 1.
  localparam int unsigned CountBits = $clog2(Limit + 1)
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,

  input  logic                  take_valid_i,
  output logic                  take_ready_o,
  input  logic [AmountBits-1:0] take_amount_i,

  input  logic [AmountBits-1:0] give_amount_i,

  output logic [ CountBits-1:0] free_o,        // Units free, 0 .. Limit.
  output logic                  excess_o
);

  localparam int unsigned SumBits = (CountBits > AmountBits ? CountBits : AmountBits) + 1;
  typedef logic [SumBits-1:0] sum_t;

  logic [CountBits-1:0] free_q;
  logic excess_q;

  assign free_o = free_q;
  assign excess_o = excess_q;
  assign take_ready_o = sum_t'(free_q) >= sum_t'(take_amount_i);

  wire take = take_valid_i && take_ready_o;
  wire sum_t sum = sum_t'(free_q) + sum_t'(give_amount_i) - (take ? sum_t'(take_amount_i) : '0);
  wire overflows = sum > sum_t'(Limit);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      free_q <= CountBits'(Limit);
      excess_q <= 1'b0;
    end else if (take_valid_i || give_amount_i != '0) begin
      free_q <= overflows ? CountBits'(Limit) : CountBits'(sum);
      if (overflows) excess_q <= 1'b1;
    end
  end

  `NKV_ASSERT(Bounded_A, free_q <= CountBits'(Limit))

endmodule
