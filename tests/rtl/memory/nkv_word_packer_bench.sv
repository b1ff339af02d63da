// nkv_word_packer with the fields of its writes as ports.
module nkv_word_packer_bench
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        start_i,
  input  logic [63:0] address_i,
  output logic        idle_o,
  input  logic        word_valid_i,
  output logic        word_ready_o,
  input  logic [31:0] word_i,
  input  logic        word_last_i,
  output logic        write_valid_o,
  input  logic        write_ready_i,
  output logic [63:0] write_address_o,
  output logic [63:0] write_strobes_o,
  output burst_t      write_data_o
);

  write_request_t write;

  nkv_word_packer u_packer (
    .clk_i,
    .rst_ni,
    .start_i,
    .address_i,
    .idle_o,
    .word_valid_i,
    .word_ready_o,
    .word_i,
    .word_last_i,
    .write_valid_o,
    .write_ready_i,
    .write_o(write)
  );

  assign {write_address_o, write_strobes_o, write_data_o} = write;

endmodule
