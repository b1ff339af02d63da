// CONTROL.RESET, which lasts until memory has answered all that was asked of it before: until then a write
// may still reach memory over one that comes after the reset, and a read's answer be taken for another's.
// Memory that has not answered within `AnswerCycles` will not: what it owes is forfeit.

module nkv_reset #(
  parameter int unsigned AnswerCycles = nkv_pkg::PatienceCycles
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic start_i,    // Software asks for a reset.
  input  logic quiet_i,    // Memory owes nothing to anybody, from the cycle after start_i on.
  output logic reset_o,    // From start_i on.
  output logic forfeit_o   // For one cycle of reset_o, the last one.
);

  localparam int unsigned CountBits = $clog2(AnswerCycles);
  logic lasts_q;
  logic [CountBits-1:0] count_q;
  wire late = count_q == CountBits'(AnswerCycles - 1);

  assign reset_o = start_i || lasts_q;
  assign forfeit_o = lasts_q && !start_i && late && !quiet_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      lasts_q <= 1'b0;
      count_q <= '0;
    end else begin
      lasts_q <= start_i || (lasts_q && !quiet_i && !late);
      count_q <= start_i ? '0 : count_q + 1'b1;
    end
  end

endmodule
