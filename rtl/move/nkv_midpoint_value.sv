// The middle of a key's cell as bf16 (ARITHMETIC.md 2.1): (4 base + code + half a cell) m 2^exponent, rounded to
// nearest even; too small for a normal number is 0, too large the largest one. Three cycles, one a cycle.

module nkv_midpoint_value
  import nkv_abi_pkg::*;
(
  input  logic               clk_i,
  input  logic [15:0]        digest_i,      // Of the channel.
  input  logic signed [15:0] step_exponent_i,  // Of the page.
  input  logic [7:0]         code_i,        // Its leading bits, and the one behind them set.
  output logic [15:0]        value_o
);

  localparam int unsigned Bits = 14;        // Of the middle, without its sign: below 756 * 15.
  localparam int unsigned FractionBits = 7;
  localparam logic signed [16:0] Bias = 17'sd127;
  localparam logic signed [16:0] SmallestNormal = -17'sd126;
  localparam logic [15:0] Largest = 16'h7F7F;

  // ---- The middle, in steps ----
  logic signed [10:0] steps_q;
  logic [3:0]         m_q;
  logic signed [16:0] exponent_1;
  always_ff @(posedge clk_i) begin
    steps_q <= (11'(signed'(digest_i[7:0])) <<< $clog2(CodeBaseStep)) + 11'(code_i);
    m_q <= {1'b1, digest_i[10:8]};
    exponent_1 <= 17'(step_exponent_i) - 17'(digest_i[15:11]);
  end

  // ---- The middle ----
  logic               negative_q;
  logic [Bits-1:0]    magnitude_q;
  logic signed [16:0] exponent_2;
  wire [10:0] distance = steps_q < 0 ? -steps_q : steps_q;
  always_ff @(posedge clk_i) begin
    negative_q <= steps_q < 0;
    magnitude_q <= Bits'(distance) * Bits'(m_q);
    exponent_2 <= exponent_1;
  end

  // ---- Rounded ----
  logic [$clog2(Bits)-1:0] top;
  logic [Bits-2:0]         aligned;   // What follows its highest bit.
  always_comb begin
    top = '0;
    for (int unsigned i = 0; i < Bits; i++) if (magnitude_q[i]) top = ($clog2(Bits))'(i);
    aligned = (Bits - 1)'(magnitude_q << (($clog2(Bits))'(Bits - 1) - top));
  end
  localparam int unsigned RestBits = Bits - 1 - FractionBits;
  wire signed [16:0] exponent = exponent_2 + 17'(top);
  wire [FractionBits-1:0] fraction = aligned[Bits-2-:FractionBits];
  wire [RestBits-1:0] rest = aligned[RestBits-1:0];
  wire up = rest[RestBits-1] && (rest[RestBits-2:0] != '0 || fraction[0]);
  wire [8:0] biased = 9'(exponent + Bias);
  wire [15:0] rounded = {biased, fraction} + 16'(up);
  always_ff @(posedge clk_i) begin
    if (magnitude_q == '0 || exponent < SmallestNormal) value_o <= '0;
    else if (exponent > Bias || rounded > Largest) value_o <= {negative_q, Largest[14:0]};
    else value_o <= {negative_q, rounded[14:0]};
  end

endmodule
