// floor(left / right) for each pair, one per cycle, QuotientBits cycles later; a bit of the quotient
// per stage. What does not fit the quotient, and every division by zero, is all ones.

module nkv_code_divide #(
  parameter int unsigned LeftBits = 25,
  parameter int unsigned RightBits = 22,
  parameter int unsigned QuotientBits = 15
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    clear_i,

  input  logic                    valid_i,
  input  logic [LeftBits-1:0]     left_i,
  input  logic [RightBits-1:0]    right_i,

  output logic                    valid_o,
  output logic [QuotientBits-1:0] quotient_o
);

  localparam int unsigned HeadBits = LeftBits - QuotientBits;
  localparam int unsigned RestBits = (HeadBits > RightBits ? HeadBits : RightBits) + 1;

  // Before stage s: the rest, the divisor, and what is left of the dividend above the quotient so
  // far. One more stage's worth of names, the last one the result.
  logic [RestBits-1:0]     rest[QuotientBits+1];
  logic [RightBits-1:0]    right[QuotientBits+1];
  logic [QuotientBits-1:0] bits[QuotientBits+1];
  logic [QuotientBits-1:0] valid_q;
  logic                    overflows[QuotientBits+1];

  assign rest[0] = RestBits'(left_i >> QuotientBits);
  assign right[0] = right_i;
  assign bits[0] = left_i[QuotientBits-1:0];
  assign overflows[0] = RestBits'(left_i >> QuotientBits) >= RestBits'(right_i);

  for (genvar s = 0; s < QuotientBits; s++) begin : gen_stages
    logic [RestBits-1:0]     rest_q;
    logic [RightBits-1:0]    right_q;
    logic [QuotientBits-1:0] bits_q;
    logic                    overflows_q;
    wire [RestBits:0] now = {rest[s], bits[s][QuotientBits-1]};
    wire [RestBits+1:0] less = {1'b0, now} - (RestBits + 2)'(right[s]);
    wire fits = !less[RestBits+1];
    always_ff @(posedge clk_i) begin
      rest_q <= fits ? less[RestBits-1:0] : now[RestBits-1:0];
      right_q <= right[s];
      bits_q <= {bits[s][QuotientBits-2:0], fits};
      overflows_q <= overflows[s];
    end
    assign rest[s+1] = rest_q;
    assign right[s+1] = right_q;
    assign bits[s+1] = bits_q;
    assign overflows[s+1] = overflows_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[QuotientBits-2:0], valid_i};
  end

  assign valid_o = valid_q[QuotientBits-1];
  assign quotient_o = bits[QuotientBits] | {QuotientBits{overflows[QuotientBits]}};

  wire unused = ^{rest[QuotientBits], right[QuotientBits]};

endmodule
