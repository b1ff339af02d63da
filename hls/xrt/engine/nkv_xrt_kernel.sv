// The engine as an RTL kernel of XRT: what Vitis would package and link. One slice of memory.

module nkv_xrt_kernel
  import nkv_inline_pkg::*;
  import nkv_pkg::axi_b_t;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned AddressBits = 21,
  parameter int unsigned Window = 1 << (AddressBits - 1)
) (
  input  logic                   ap_clk,
  input  logic                   ap_rst_n,

  input  logic                   s_axi_control_awvalid,
  output logic                   s_axi_control_awready,
  input  logic [AddressBits-1:0] s_axi_control_awaddr,
  input  logic                   s_axi_control_wvalid,
  output logic                   s_axi_control_wready,
  input  logic [31:0]            s_axi_control_wdata,
  input  logic [3:0]             s_axi_control_wstrb,
  output logic                   s_axi_control_bvalid,
  input  logic                   s_axi_control_bready,
  output logic [1:0]             s_axi_control_bresp,
  input  logic                   s_axi_control_arvalid,
  output logic                   s_axi_control_arready,
  input  logic [AddressBits-1:0] s_axi_control_araddr,
  output logic                   s_axi_control_rvalid,
  input  logic                   s_axi_control_rready,
  output logic [31:0]            s_axi_control_rdata,
  output logic [1:0]             s_axi_control_rresp,

  output logic                   m_axi_memory_arvalid,
  input  logic                   m_axi_memory_arready,
  output logic [12:0]            m_axi_memory_arid,
  output logic [63:0]            m_axi_memory_araddr,
  output logic [7:0]             m_axi_memory_arlen,
  output logic [2:0]             m_axi_memory_arsize,
  output logic [1:0]             m_axi_memory_arburst,
  input  logic                   m_axi_memory_rvalid,
  output logic                   m_axi_memory_rready,
  input  logic [12:0]            m_axi_memory_rid,
  input  logic [511:0]           m_axi_memory_rdata,
  input  logic [1:0]             m_axi_memory_rresp,
  input  logic                   m_axi_memory_rlast,
  output logic                   m_axi_memory_awvalid,
  input  logic                   m_axi_memory_awready,
  output logic [12:0]            m_axi_memory_awid,
  output logic [63:0]            m_axi_memory_awaddr,
  output logic [7:0]             m_axi_memory_awlen,
  output logic [2:0]             m_axi_memory_awsize,
  output logic [1:0]             m_axi_memory_awburst,
  output logic                   m_axi_memory_wvalid,
  input  logic                   m_axi_memory_wready,
  output logic [511:0]           m_axi_memory_wdata,
  output logic [63:0]            m_axi_memory_wstrb,
  output logic                   m_axi_memory_wlast,
  input  logic                   m_axi_memory_bvalid,
  output logic                   m_axi_memory_bready,
  input  logic [12:0]            m_axi_memory_bid,
  input  logic [1:0]             m_axi_memory_bresp
);

  logic         engine_rst_n, csr_req, csr_we, csr_error;
  logic [63:0]  memory_bytes, csr_wdata, csr_rdata;
  logic [31:0]  csr_addr;
  logic         ar_valid, ar_ready, aw_valid, aw_ready, w_valid, w_ready, writes, write_ready;
  memory_access_t ar, aw;
  access_w_t    w;
  memory_r_t    r;
  memory_b_t    b;
  logic         r_valid, r_ready, b_valid, b_ready;
  logic [12:0]  r_id, b_id;
  logic         r_error, b_error;
  logic [511:0] r_data;
  interrupts_t  irq;

  // The host reaches memory by its own way.
  logic      host_ar_ready, host_r_valid, host_aw_ready, host_w_ready, host_b_valid;
  access_r_t host_r;
  axi_b_t    host_b;
  dev_load_e load;

  nkv_xrt_adapter #(
    .AddressBits(AddressBits),
    .Window(Window)
  ) u_adapter (
    .*,
    .engine_rst_no (engine_rst_n),
    .memory_bytes_o(memory_bytes),
    .csr_req_o     (csr_req),
    .csr_we_o      (csr_we),
    .csr_addr_o    (csr_addr),
    .csr_wdata_o   (csr_wdata),
    .csr_rdata_i   (csr_rdata),
    .ar_valid_i    (ar_valid),
    .ar_ready_o    (ar_ready),
    .ar_id_i       ({ar.is_near, ar.access.id}),
    .ar_addr_i     (64'(ar.access.addr)),
    .r_valid_o     (r_valid),
    .r_id_o        (r_id),
    .r_error_o     (r_error),
    .r_data_o      (r_data),
    .w_valid_i     (writes),
    .w_ready_o     (write_ready),
    .w_id_i        ({aw.is_near, aw.access.id}),
    .w_addr_i      (64'(aw.access.addr)),
    .w_strb_i      (w.strb),
    .w_data_i      (w.data),
    .b_valid_o     (b_valid),
    .b_id_o        (b_id),
    .b_error_o     (b_error)
  );

  // A write goes on with its address and data together.
  assign writes = aw_valid && w_valid;
  assign aw_ready = write_ready && w_valid;
  assign w_ready = write_ready && aw_valid;
  assign r = '{
      is_near: r_id[12],
      answer: '{id: r_id[11:0], error: r_error, poison: 1'b0, data: r_data}
  };
  assign b = '{is_near: b_id[12], answer: '{id: b_id[11:0], error: b_error}};

  nkv_top u_top (
    .clk_i            (ap_clk),
    .rst_ni           (engine_rst_n),
    .csr_req_i        (csr_req),
    .csr_we_i         (csr_we),
    .csr_addr_i       (csr_addr),
    .csr_wdata_i      (csr_wdata),
    .csr_rdata_o      (csr_rdata),
    .csr_error_o      (csr_error),
    .memory_bytes_i   (memory_bytes),
    .irq_o            (irq),
    .host_ar_valid_i  (1'b0),
    .host_ar_ready_o  (host_ar_ready),
    .host_ar_i        ('0),
    .host_r_valid_o   (host_r_valid),
    .host_r_ready_i   (1'b1),
    .host_r_o         (host_r),
    .host_aw_valid_i  (1'b0),
    .host_aw_ready_o  (host_aw_ready),
    .host_aw_i        ('0),
    .host_w_valid_i   (1'b0),
    .host_w_ready_o   (host_w_ready),
    .host_w_i         ('0),
    .host_b_valid_o   (host_b_valid),
    .host_b_ready_i   (1'b1),
    .host_b_o         (host_b),
    .load_o           (load),
    .memory_ar_valid_o(ar_valid),
    .memory_ar_ready_i(ar_ready),
    .memory_ar_o      (ar),
    .memory_r_valid_i (r_valid),
    .memory_r_ready_o (r_ready),
    .memory_r_i       (r),
    .memory_aw_valid_o(aw_valid),
    .memory_aw_ready_i(aw_ready),
    .memory_aw_o      (aw),
    .memory_w_valid_o (w_valid),
    .memory_w_ready_i (w_ready),
    .memory_w_o       (w),
    .memory_b_valid_i (b_valid),
    .memory_b_ready_o (b_ready),
    .memory_b_i       (b)
  );

  // Its answers are always taken; its interrupts are polled.
  logic unused;
  assign unused = ^{csr_error, irq, host_ar_ready, host_r_valid, host_r, host_aw_ready, host_w_ready,
                    host_b_valid, host_b, load, r_ready, b_ready, w.poison};

endmodule
