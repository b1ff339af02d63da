// Gives back what it took Cycles cycles ago, whatever that was. For what travels beside a pipeline;
// without enable and reset, so that it infers as shift registers.

module nkv_delay #(
  parameter int unsigned Width = 8,
  parameter int unsigned Cycles = 1  // At least 1.
) (
  input  logic             clk_i,
  input  logic [Width-1:0] data_i,
  output logic [Width-1:0] data_o
);

  logic [Width-1:0] data_q[Cycles];

  always_ff @(posedge clk_i) begin
    data_q[0] <= data_i;
    for (int unsigned i = 1; i < Cycles; i++) data_q[i] <= data_q[i-1];
  end

  assign data_o = data_q[Cycles-1];

endmodule
