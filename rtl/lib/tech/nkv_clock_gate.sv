// A clock that stands still while nobody needs it: low in every cycle for which enable_i was low when
// the cycle began. Generic cell; a technology puts its own in this file's place (an FPGA's clock buffer
// with enable, an ASIC's integrated clock gate).

module nkv_clock_gate (
  input  logic clk_i,
  input  logic enable_i,
  output logic clk_o
);

  logic enable_q;

  always_latch begin
    if (!clk_i) enable_q = enable_i;
  end

  assign clk_o = clk_i && enable_q;

endmodule
