// nkv_top with one slice and ports that C++ can name one by one.

module nkv_top_flat
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
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
  output logic [18:0]  irq_o,

  // The host. A write's address and data are taken together.
  input  logic         host_ar_valid_i,
  output logic         host_ar_ready_o,
  input  logic [11:0]  host_ar_id_i,
  input  logic [63:0]  host_ar_addr_i,
  output logic         host_r_valid_o,
  input  logic         host_r_ready_i,
  output logic [11:0]  host_r_id_o,
  output logic         host_r_error_o,
  output logic         host_r_poison_o,
  output logic [511:0] host_r_data_o,
  input  logic         host_w_valid_i,
  output logic         host_w_ready_o,
  input  logic [11:0]  host_w_id_i,
  input  logic [63:0]  host_w_addr_i,
  input  logic [63:0]  host_w_strb_i,
  input  logic         host_w_poison_i,
  input  logic [511:0] host_w_data_i,
  output logic         host_b_valid_o,
  input  logic         host_b_ready_i,
  output logic [11:0]  host_b_id_o,
  output logic         host_b_error_o,
  output logic [1:0]   load_o,

  // Memory. An id's highest bit says that it is not the host's.
  output logic         ar_valid_o,
  input  logic         ar_ready_i,
  output logic [12:0]  ar_id_o,
  output logic [63:0]  ar_addr_o,
  input  logic         r_valid_i,
  output logic         r_ready_o,
  input  logic [12:0]  r_id_i,
  input  logic         r_error_i,
  input  logic         r_poison_i,
  input  logic [511:0] r_data_i,
  output logic         w_valid_o,
  input  logic         w_ready_i,
  output logic [12:0]  w_id_o,
  output logic [63:0]  w_addr_o,
  output logic [63:0]  w_strb_o,
  output logic         w_poison_o,
  output logic [511:0] w_data_o,
  input  logic         b_valid_i,
  output logic         b_ready_o,
  input  logic [12:0]  b_id_i,
  input  logic         b_error_i
);

  access_t host_ar, host_aw;
  access_r_t host_r;
  access_w_t host_w, memory_w;
  axi_b_t host_b;
  dev_load_e load;
  memory_access_t memory_ar, memory_aw;
  memory_r_t memory_r;
  memory_b_t memory_b;
  logic host_aw_ready, host_w_ready, memory_aw_valid, memory_w_valid;

  assign host_ar = '{id: host_ar_id_i, addr: address_t'(host_ar_addr_i)};
  assign {host_r_id_o, host_r_error_o, host_r_poison_o, host_r_data_o} = host_r;
  assign host_aw = '{id: host_w_id_i, addr: address_t'(host_w_addr_i)};
  assign host_w = '{strb: host_w_strb_i, poison: host_w_poison_i, data: host_w_data_i};
  assign host_w_ready_o = host_aw_ready && host_w_ready;
  assign {host_b_id_o, host_b_error_o} = host_b;
  assign load_o = load;

  assign ar_id_o = {memory_ar.is_near, memory_ar.access.id};
  assign ar_addr_o = 64'(memory_ar.access.addr);
  assign memory_r = {r_id_i, r_error_i, r_poison_i, r_data_i};
  assign w_valid_o = memory_aw_valid && memory_w_valid;
  assign w_id_o = {memory_aw.is_near, memory_aw.access.id};
  assign w_addr_o = 64'(memory_aw.access.addr);
  assign {w_strb_o, w_poison_o, w_data_o} = memory_w;
  assign memory_b = {b_id_i, b_error_i};

  nkv_top #(
    .WatchdogCycles(WatchdogCycles)
  ) u_top (
    .clk_i,
    .rst_ni,
    .csr_req_i,
    .csr_we_i,
    .csr_addr_i,
    .csr_wdata_i,
    .csr_rdata_o,
    .csr_error_o,
    .memory_bytes_i,
    .irq_o,
    .host_ar_valid_i,
    .host_ar_ready_o,
    .host_ar_i        (host_ar),
    .host_r_valid_o,
    .host_r_ready_i,
    .host_r_o         (host_r),
    .host_aw_valid_i  (host_w_valid_i && host_w_ready),
    .host_aw_ready_o  (host_aw_ready),
    .host_aw_i        (host_aw),
    .host_w_valid_i   (host_w_valid_i && host_aw_ready),
    .host_w_ready_o   (host_w_ready),
    .host_w_i         (host_w),
    .host_b_valid_o,
    .host_b_ready_i,
    .host_b_o         (host_b),
    .load_o           (load),
    .memory_ar_valid_o(ar_valid_o),
    .memory_ar_ready_i(ar_ready_i),
    .memory_ar_o      (memory_ar),
    .memory_r_valid_i (r_valid_i),
    .memory_r_ready_o (r_ready_o),
    .memory_r_i       (memory_r),
    .memory_aw_valid_o(memory_aw_valid),
    .memory_aw_ready_i(w_ready_i && memory_w_valid),
    .memory_aw_o      (memory_aw),
    .memory_w_valid_o (memory_w_valid),
    .memory_w_ready_i (w_ready_i && memory_aw_valid),
    .memory_w_o       (memory_w),
    .memory_b_valid_i (b_valid_i),
    .memory_b_ready_o (b_ready_o),
    .memory_b_i       (memory_b)
  );

  // Addresses have 52 bits.
  wire unused_bits = ^{host_ar_addr_i[63:AddressBits], host_w_addr_i[63:AddressBits]};

endmodule
