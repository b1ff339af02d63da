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
  memory_request_t memory;
  memory_answer_t  answer;
  logic         write_ready;
  logic [12:0]  r_id, b_id;
  logic         r_error, b_error;
  logic [511:0] r_data;
  interrupts_t  irq;

  // The host reaches memory by its own way.
  host_request_t host;
  host_answer_t  unused_host;
  dev_load_e load;
  always_comb begin
    host = '0;
    host.r_ready = 1'b1;
    host.b_ready = 1'b1;
  end

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
    .ar_valid_i    (memory.ar_valid),
    .ar_ready_o    (answer.ar_ready),
    .ar_id_i       ({memory.ar.is_near, memory.ar.access.id}),
    .ar_addr_i     (64'(memory.ar.access.addr)),
    .r_valid_o     (answer.r_valid),
    .r_id_o        (r_id),
    .r_error_o     (r_error),
    .r_data_o      (r_data),
    .w_valid_i     (memory.aw_valid && memory.w_valid),
    .w_ready_o     (write_ready),
    .w_id_i        ({memory.aw.is_near, memory.aw.access.id}),
    .w_addr_i      (64'(memory.aw.access.addr)),
    .w_strb_i      (memory.w.strb),
    .w_data_i      (memory.w.data),
    .b_valid_o     (answer.b_valid),
    .b_id_o        (b_id),
    .b_error_o     (b_error)
  );

  // A write goes on with its address and data together.
  assign answer.aw_ready = write_ready && memory.w_valid;
  assign answer.w_ready = write_ready && memory.aw_valid;
  assign answer.r = '{
      is_near: r_id[12],
      answer: '{id: r_id[11:0], error: r_error, poison: 1'b0, data: r_data}
  };
  assign answer.b = '{is_near: b_id[12], answer: '{id: b_id[11:0], error: b_error}};

  nkv_top u_top (
    .clk_i         (ap_clk),
    .rst_ni        (engine_rst_n),
    .csr_req_i     (csr_req),
    .csr_we_i      (csr_we),
    .csr_addr_i    (csr_addr),
    .csr_wdata_i   (csr_wdata),
    .csr_rdata_o   (csr_rdata),
    .csr_error_o   (csr_error),
    .memory_bytes_i(memory_bytes),
    .irq_o         (irq),
    .host_i        (host),
    .host_o        (unused_host),
    .load_o        (load),
    .memory_o      (memory),
    .memory_i      (answer)
  );

  // Its answers are always taken; its interrupts are polled.
  logic unused;
  assign unused = ^{csr_error, irq, load, memory.r_ready, memory.b_ready, memory.w.poison};

endmodule
