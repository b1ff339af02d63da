// nkv_top with ports that C++ can name one by one.

module nkv_top_flat
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter int unsigned WatchdogCycles = 262144
) (
  input  logic         clk_i,
  input  logic         rst_ni,

  input  logic         csr_req_i,
  input  logic         csr_we_i,
  input  logic [31:0]  csr_addr_i,
  input  logic [63:0]  csr_wdata_i,
  output logic [63:0]  csr_rdata_o,
  output logic         csr_error_o,
  input  logic [63:0]  memory_bytes_i,
  output logic [15:0]  posted_o,

  output logic         ar_valid_o,
  input  logic         ar_ready_i,
  output logic [11:0]  ar_id_o,
  output logic [63:0]  ar_addr_o,
  output logic [9:0]   ar_len_o,
  input  logic         r_valid_i,
  output logic         r_ready_o,
  input  logic [11:0]  r_id_i,
  input  logic         r_error_i,
  input  logic         r_poison_i,
  input  logic         r_last_i,
  input  logic [511:0] r_data_i,
  output logic         w_valid_o,
  input  logic         w_ready_i,
  output logic [11:0]  w_id_o,
  output logic [63:0]  w_addr_o,
  output logic [63:0]  w_strb_o,
  output logic [511:0] w_data_o,
  input  logic         b_valid_i,
  output logic         b_ready_o,
  input  logic [11:0]  b_id_i,
  input  logic         b_error_i
);

  axi_ar_t ar_o;
  axi_r_t  r_i;
  axi_w_t  w_o;
  axi_b_t  b_i;

  assign ar_id_o = ar_o.id;
  assign ar_addr_o = 64'(ar_o.addr);
  assign ar_len_o = ar_o.len;
  assign r_i = '{
      id: r_id_i,
      error: r_error_i,
      poison: r_poison_i,
      last: r_last_i,
      data: r_data_i
  };
  assign w_id_o = w_o.id;
  assign w_addr_o = 64'(w_o.addr);
  assign w_strb_o = w_o.strb;
  assign w_data_o = w_o.data;
  assign b_i = '{id: b_id_i, error: b_error_i};

  nkv_top #(
    .WatchdogCycles(WatchdogCycles)
  ) u_top (.*);

  // The engine never writes poison.
  wire unused_poison = w_o.poison;

endmodule
