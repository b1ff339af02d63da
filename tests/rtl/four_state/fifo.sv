// nkv_fifo in random use, with clearings.
module harness #(
  parameter bit Block = 1'b0
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic [127:0]  random_i,
  output logic [63:0]   control_o,
  output logic          data_valid_o,
  output logic [1023:0] data_o
);
  logic       in_ready;
  logic [7:0] data;
  logic [3:0] used;

  nkv_fifo #(
    .T(logic [7:0]),
    .Depth(8),
    .Block(Block)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .clear_i    (random_i[15:10] == '0),
    .in_valid_i (random_i[0]),
    .in_ready_o (in_ready),
    .in_data_i  (random_i[23:16]),
    .out_valid_o(data_valid_o),
    .out_ready_i(random_i[1] && random_i[2]),
    .out_data_o (data),
    .used_o     (used)
  );
  assign control_o = 64'({in_ready, used});
  assign data_o = 1024'(data);
endmodule
