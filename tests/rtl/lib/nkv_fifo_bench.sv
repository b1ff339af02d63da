// nkv_fifo with a payload that a test can drive.
module nkv_fifo_bench (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,
  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  logic [31:0] in_data_i,
  output logic        out_valid_o,
  input  logic        out_ready_i,
  output logic [31:0] out_data_o,
  output logic [3:0]  used_o
);

  nkv_fifo #(
    .T(logic [31:0]),
    .Depth(8)
  ) u_fifo (.*);

endmodule
