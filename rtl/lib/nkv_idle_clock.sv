// The clock of a unit that works now and then: runs while busy_i is high, for HoldCycles after that, and
// after reset, so that what the unit does on its own account (clearing memories) comes to its end.

module nkv_idle_clock #(
  parameter int unsigned HoldCycles = 64
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic busy_i,
  output logic clk_o
);

  localparam int unsigned Bits = $clog2(HoldCycles + 1);
  logic [Bits-1:0] hold_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) hold_q <= Bits'(HoldCycles);
    else if (busy_i) hold_q <= Bits'(HoldCycles);
    else if (hold_q != '0) hold_q <= hold_q - 1'b1;
  end

  nkv_clock_gate u_gate (
    .clk_i,
    .enable_i(busy_i || hold_q != '0),
    .clk_o
  );

endmodule
