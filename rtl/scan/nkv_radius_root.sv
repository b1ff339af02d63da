// The least B with 3 B^2 >= 16 M (ARITHMETIC.md, section 5: B_1 in STATISTICAL, M = z^2 * sum of
// w^2), digit by digit. 26 cycles; takes the next M when it has answered.

module nkv_radius_root #(
  localparam int unsigned InBits = 45,
  localparam int unsigned RootBits = 25
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic              valid_i,
  input  logic [InBits-1:0] m_i,
  output logic              valid_o,
  output logic [RootBits-1:0] bound_o
);

  // The largest b with 3 b^2 <= 16 M - 1; B = b + 1. A step appends one bit to b: with the
  // remainder r = N - 3 b^2 so far, bit 1 takes 3 (2b + 1)^2 - 12 b^2 = 12 b + 3 from it.
  logic              running_q, zero_q;
  logic [4:0]        step_q;
  logic [2*RootBits-1:0] left_q;       // Bits of N that have not been taken in, on top
  logic [RootBits+2:0]   remainder_q;
  logic [RootBits-1:0]   root_q;
  logic [RootBits+1:0]   triple_q;     // 3 b
  wire [RootBits+4:0] remainder = {remainder_q, left_q[2*RootBits-1-:2]};
  wire [RootBits+4:0] taken = {1'b0, triple_q, 2'd3};
  wire fits = remainder >= taken;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      running_q <= 1'b0;
      valid_o <= 1'b0;
    end else begin
      valid_o <= running_q && step_q == 5'(RootBits - 1);
      if (valid_i) running_q <= 1'b1;
      else if (step_q == 5'(RootBits - 1)) running_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      step_q <= '0;
      zero_q <= m_i == '0;
      left_q <= (2 * RootBits)'({m_i - 1'b1, 4'hf});
      remainder_q <= '0;
      root_q <= '0;
      triple_q <= '0;
    end else if (running_q) begin
      step_q <= step_q + 1'b1;
      left_q <= left_q << 2;
      remainder_q <= fits ? (RootBits + 3)'(remainder - taken) : remainder[RootBits+2:0];
      root_q <= {root_q[RootBits-2:0], fits};
      triple_q <= {triple_q[RootBits:0], 1'b0} + (fits ? (RootBits + 2)'(3) : '0);
    end
  end

  assign bound_o = zero_q ? '0 : root_q + 1'b1;

endmodule
