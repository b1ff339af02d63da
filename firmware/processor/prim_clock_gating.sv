// Stands in for the primitive that lowRISC's tools would generate: a latch and a gate.
module prim_clock_gating #(
  parameter bit NoFpgaGate    = 1'b0,
  parameter bit FpgaBufGlobal = 1'b1
) (
  input        clk_i,
  input        en_i,
  input        test_en_i,
  output logic clk_o
);
  logic enable;
  always_latch if (!clk_i) enable = en_i | test_en_i;
  assign clk_o = clk_i & enable;
endmodule
