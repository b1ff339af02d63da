// Everything of the XRT kernel but the engine: between Vitis' ports and those of nkv_top, one slice.

module nkv_xrt_adapter #(
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
  input  logic [1:0]             m_axi_memory_bresp,

  // The engine's side.
  output logic                   engine_rst_no,
  output logic [63:0]            memory_bytes_o,
  output logic                   csr_req_o,
  output logic                   csr_we_o,
  output logic [31:0]            csr_addr_o,
  output logic [63:0]            csr_wdata_o,
  input  logic [63:0]            csr_rdata_i,
  input  logic                   ar_valid_i,
  output logic                   ar_ready_o,
  input  logic [12:0]            ar_id_i,
  input  logic [63:0]            ar_addr_i,
  output logic                   r_valid_o,
  output logic [12:0]            r_id_o,
  output logic                   r_error_o,
  output logic [511:0]           r_data_o,
  input  logic                   w_valid_i,
  output logic                   w_ready_o,
  input  logic [12:0]            w_id_i,
  input  logic [63:0]            w_addr_i,
  input  logic [63:0]            w_strb_i,
  input  logic [511:0]           w_data_i,
  output logic                   b_valid_o,
  output logic [12:0]            b_id_o,
  output logic                   b_error_o
);

  logic [63:0] memory_base;
  logic is_quiet;

  nkv_xrt_control #(
    .AddressBits(AddressBits),
    .Window(Window)
  ) u_control (
    .clk_i         (ap_clk),
    .rst_ni        (ap_rst_n),
    .awvalid_i     (s_axi_control_awvalid),
    .awready_o     (s_axi_control_awready),
    .awaddr_i      (s_axi_control_awaddr),
    .wvalid_i      (s_axi_control_wvalid),
    .wready_o      (s_axi_control_wready),
    .wdata_i       (s_axi_control_wdata),
    .bvalid_o      (s_axi_control_bvalid),
    .bready_i      (s_axi_control_bready),
    .arvalid_i     (s_axi_control_arvalid),
    .arready_o     (s_axi_control_arready),
    .araddr_i      (s_axi_control_araddr),
    .rvalid_o      (s_axi_control_rvalid),
    .rready_i      (s_axi_control_rready),
    .rdata_o       (s_axi_control_rdata),
    .is_quiet_i    (is_quiet),
    .memory_base_o (memory_base),
    .memory_bytes_o,
    .engine_rst_no,
    .csr_req_o,
    .csr_we_o,
    .csr_addr_o,
    .csr_wdata_o,
    .csr_rdata_i
  );
  assign s_axi_control_bresp = '0;
  assign s_axi_control_rresp = '0;

  nkv_xrt_memory u_memory (
    .clk_i     (ap_clk),
    .rst_ni    (ap_rst_n),
    .base_i    (memory_base),
    .is_quiet_o(is_quiet),
    .ar_valid_i(ar_valid_i && engine_rst_no),
    .ar_ready_o,
    .ar_id_i,
    .ar_addr_i,
    .w_valid_i (w_valid_i && engine_rst_no),
    .w_ready_o,
    .w_id_i,
    .w_addr_i,
    .w_strb_i,
    .w_data_i,
    .arvalid_o (m_axi_memory_arvalid),
    .arready_i (m_axi_memory_arready),
    .arid_o    (m_axi_memory_arid),
    .araddr_o  (m_axi_memory_araddr),
    .awvalid_o (m_axi_memory_awvalid),
    .awready_i (m_axi_memory_awready),
    .awid_o    (m_axi_memory_awid),
    .awaddr_o  (m_axi_memory_awaddr),
    .wvalid_o  (m_axi_memory_wvalid),
    .wready_i  (m_axi_memory_wready),
    .wstrb_o   (m_axi_memory_wstrb),
    .wdata_o   (m_axi_memory_wdata),
    .r_taken_i (m_axi_memory_rvalid),
    .b_taken_i (m_axi_memory_bvalid)
  );

  // One beat of 64 bytes.
  assign m_axi_memory_arlen = '0;
  assign m_axi_memory_arsize = 3'd6;
  assign m_axi_memory_arburst = 2'b01;
  assign m_axi_memory_awlen = '0;
  assign m_axi_memory_awsize = 3'd6;
  assign m_axi_memory_awburst = 2'b01;
  assign m_axi_memory_wlast = 1'b1;
  assign m_axi_memory_rready = 1'b1;
  assign m_axi_memory_bready = 1'b1;

  // What comes for an engine that has been reset meanwhile is dropped.
  assign r_valid_o = m_axi_memory_rvalid && engine_rst_no;
  assign r_id_o = m_axi_memory_rid;
  assign r_error_o = m_axi_memory_rresp[1];
  assign r_data_o = m_axi_memory_rdata;
  assign b_valid_o = m_axi_memory_bvalid && engine_rst_no;
  assign b_id_o = m_axi_memory_bid;
  assign b_error_o = m_axi_memory_bresp[1];

  logic unused;
  assign unused = ^{s_axi_control_wstrb, m_axi_memory_rlast, m_axi_memory_rresp[0],
                    m_axi_memory_bresp[0]};

`ifndef SYNTHESIS
  nkv_axi_rules #(
    .IdBits(13),
    .RBits(514),
    .WBits(576),
    .BBits(2)
  ) u_memory_rules (
    .clk_i     (ap_clk),
    .rst_ni    (ap_rst_n),
    .ar_valid_i(m_axi_memory_arvalid),
    .ar_ready_i(m_axi_memory_arready),
    .ar_id_i   (m_axi_memory_arid),
    .ar_addr_i (m_axi_memory_araddr),
    .ar_len_i  (m_axi_memory_arlen),
    .r_valid_i (m_axi_memory_rvalid),
    .r_ready_i (m_axi_memory_rready),
    .r_id_i    (m_axi_memory_rid),
    .r_last_i  (m_axi_memory_rlast),
    .r_i       ({m_axi_memory_rresp, m_axi_memory_rdata}),
    .aw_valid_i(m_axi_memory_awvalid),
    .aw_ready_i(m_axi_memory_awready),
    .aw_id_i   (m_axi_memory_awid),
    .aw_addr_i (m_axi_memory_awaddr),
    .aw_len_i  (m_axi_memory_awlen),
    .w_valid_i (m_axi_memory_wvalid),
    .w_ready_i (m_axi_memory_wready),
    .w_last_i  (m_axi_memory_wlast),
    .w_i       ({m_axi_memory_wstrb, m_axi_memory_wdata}),
    .b_valid_i (m_axi_memory_bvalid),
    .b_ready_i (m_axi_memory_bready),
    .b_id_i    (m_axi_memory_bid),
    .b_i       (m_axi_memory_bresp)
  );
`endif

endmodule
