// NearKV in the place of the example design's AFU, between the CXL IP and the memory controllers. The
// module's name and its first six ports are the example's; ../agilex/README.md has the port map.
//
// Accesses are single bursts of 64 bytes: AxLEN is 0 both ways. A memory controller gets a read or a write
// at a time, with ids of its own length (nkv_agilex_memory), at most 256 reads and as many writes of a slice
// in flight.

module afu_top
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
#(
  parameter logic [63:0] MemoryBytes = 64'd16 << 30,  // Of all slices.
  parameter logic [63:0] ClockHz = 64'd400_000_000,   // Of afu_clk.
  localparam int unsigned Slices = cxlip_top_pkg::MC_CHANNEL
) (
  input  logic                                        afu_clk,
  input  logic                                        afu_rstn,
  input  mc_axi_if_pkg::t_to_mc_axi4   [Slices-1:0]   cxlip2iafu_to_mc_axi4,
  output mc_axi_if_pkg::t_to_mc_axi4   [Slices-1:0]   iafu2mc_to_mc_axi4,
  input  mc_axi_if_pkg::t_from_mc_axi4 [Slices-1:0]   mc2iafu_from_mc_axi4,
  output mc_axi_if_pkg::t_from_mc_axi4 [Slices-1:0]   iafu2cxlip_from_mc_axi4,

  // For the IP's DevLoad, where its release has an input for it.
  output logic                         [Slices-1:0][1:0] iafu2cxlip_dev_load,

  // In the place of the example's ex_default_csr_top.
  input  logic                                        csr_avmm_clk,
  input  logic                                        csr_avmm_rstn,
  output logic                                        csr_avmm_waitrequest,
  output logic [63:0]                                 csr_avmm_readdata,
  output logic                                        csr_avmm_readdatavalid,
  input  logic [63:0]                                 csr_avmm_writedata,
  input  logic                                        csr_avmm_poison,
  input  logic [21:0]                                 csr_avmm_address,
  input  logic                                        csr_avmm_write,
  input  logic                                        csr_avmm_read,
  input  logic [7:0]                                  csr_avmm_byteenable
);

  // Reset comes when it likes, and ends with the clock.
  logic [1:0] reset_q;
  always_ff @(posedge afu_clk or negedge afu_rstn) begin
    if (!afu_rstn) reset_q <= '0;
    else reset_q <= {reset_q[0], 1'b1};
  end
  wire rst_n = reset_q[1];

  // ---- Registers ----
  logic        csr_req, csr_we, csr_error;
  logic [31:0] csr_addr;
  logic [63:0] csr_wdata, csr_rdata;

  nkv_agilex_csr u_csr (
    .csr_clk_i           (csr_avmm_clk),
    .csr_rst_ni          (csr_avmm_rstn),
    .avmm_address_i      (csr_avmm_address),
    .avmm_read_i         (csr_avmm_read),
    .avmm_write_i        (csr_avmm_write),
    .avmm_writedata_i    (csr_avmm_writedata),
    .avmm_byteenable_i   (csr_avmm_byteenable),
    .avmm_poison_i       (csr_avmm_poison),
    .avmm_waitrequest_o  (csr_avmm_waitrequest),
    .avmm_readdata_o     (csr_avmm_readdata),
    .avmm_readdatavalid_o(csr_avmm_readdatavalid),
    .clk_i               (afu_clk),
    .rst_ni              (rst_n),
    .csr_req_o           (csr_req),
    .csr_we_o            (csr_we),
    .csr_addr_o          (csr_addr),
    .csr_wdata_o         (csr_wdata),
    .csr_rdata_i         (csr_rdata),
    .csr_error_i         (csr_error)
  );

  // ---- The engine ----
  logic      [Slices-1:0] host_ar_valid, host_ar_ready, host_r_valid, host_r_ready;
  logic      [Slices-1:0] host_aw_valid, host_aw_ready, host_w_valid, host_w_ready;
  logic      [Slices-1:0] host_b_valid, host_b_ready;
  access_t   [Slices-1:0] host_ar, host_aw;
  access_r_t [Slices-1:0] host_r;
  access_w_t [Slices-1:0] host_w;
  axi_b_t    [Slices-1:0] host_b;
  dev_load_e [Slices-1:0] load;

  logic           [Slices-1:0] memory_ar_valid, memory_ar_ready, memory_r_valid, memory_r_ready;
  logic           [Slices-1:0] memory_aw_valid, memory_aw_ready, memory_w_valid, memory_w_ready;
  logic           [Slices-1:0] memory_b_valid, memory_b_ready;
  memory_access_t [Slices-1:0] memory_ar, memory_aw;
  memory_r_t      [Slices-1:0] memory_r;
  access_w_t      [Slices-1:0] memory_w;
  memory_b_t      [Slices-1:0] memory_b;
  // The host polls: a Type 3 device of the example has no interrupt for its AFU.
  nkv_queue_pkg::interrupts_t unused_irq;

  nkv_top #(
    .Slices (Slices),
    .ClockHz(ClockHz)
  ) u_nearkv (
    .clk_i            (afu_clk),
    .rst_ni           (rst_n),
    .csr_req_i        (csr_req),
    .csr_we_i         (csr_we),
    .csr_addr_i       (csr_addr),
    .csr_wdata_i      (csr_wdata),
    .csr_rdata_o      (csr_rdata),
    .csr_error_o      (csr_error),
    .memory_bytes_i   (MemoryBytes),
    .irq_o            (unused_irq),
    .host_ar_valid_i  (host_ar_valid),
    .host_ar_ready_o  (host_ar_ready),
    .host_ar_i        (host_ar),
    .host_r_valid_o   (host_r_valid),
    .host_r_ready_i   (host_r_ready),
    .host_r_o         (host_r),
    .host_aw_valid_i  (host_aw_valid),
    .host_aw_ready_o  (host_aw_ready),
    .host_aw_i        (host_aw),
    .host_w_valid_i   (host_w_valid),
    .host_w_ready_o   (host_w_ready),
    .host_w_i         (host_w),
    .host_b_valid_o   (host_b_valid),
    .host_b_ready_i   (host_b_ready),
    .host_b_o         (host_b),
    .load_o           (load),
    .memory_ar_valid_o(memory_ar_valid),
    .memory_ar_ready_i(memory_ar_ready),
    .memory_ar_o      (memory_ar),
    .memory_r_valid_i (memory_r_valid),
    .memory_r_ready_o (memory_r_ready),
    .memory_r_i       (memory_r),
    .memory_aw_valid_o(memory_aw_valid),
    .memory_aw_ready_i(memory_aw_ready),
    .memory_aw_o      (memory_aw),
    .memory_w_valid_o (memory_w_valid),
    .memory_w_ready_i (memory_w_ready),
    .memory_w_o       (memory_w),
    .memory_b_valid_i (memory_b_valid),
    .memory_b_ready_o (memory_b_ready),
    .memory_b_i       (memory_b)
  );

  for (genvar s = 0; s < int'(Slices); s++) begin : gen_slice
    mc_axi_if_pkg::t_to_mc_axi4 asked;
    mc_axi_if_pkg::t_from_mc_axi4 answered;

    assign asked = cxlip2iafu_to_mc_axi4[s];
    assign iafu2cxlip_from_mc_axi4[s] = answered;
    assign iafu2cxlip_dev_load[s] = load[s];

    // ---- The host's side ----
    assign host_ar_valid[s] = asked.arvalid;
    assign host_ar[s] = '{id: axi_id_t'(asked.arid), addr: asked.araddr};
    assign host_aw_valid[s] = asked.awvalid;
    assign host_aw[s] = '{id: axi_id_t'(asked.awid), addr: asked.awaddr};
    assign host_w_valid[s] = asked.wvalid;
    assign host_w[s] = '{strb: asked.wstrb, poison: asked.wuser, data: asked.wdata};
    assign host_r_ready[s] = asked.rready;
    assign host_b_ready[s] = asked.bready;

    always_comb begin
      answered = '0;
      answered.arready = host_ar_ready[s];
      answered.awready = host_aw_ready[s];
      answered.wready = host_w_ready[s];
      answered.rvalid = host_r_valid[s];
      answered.rid = mc_axi_if_pkg::MC_AXI_RAC_ID_BW'(host_r[s].id);
      answered.rdata = host_r[s].data;
      answered.rresp = host_r[s].error ? afu_axi_if_pkg::eresp_SLVERR : afu_axi_if_pkg::eresp_OKAY;
      answered.rlast = 1'b1;
      answered.ruser.poison = host_r[s].poison;
      answered.bvalid = host_b_valid[s];
      answered.bid = mc_axi_if_pkg::MC_AXI_WAC_ID_BW'(host_b[s].id);
      answered.bresp = host_b[s].error ? afu_axi_if_pkg::eresp_SLVERR : afu_axi_if_pkg::eresp_OKAY;
    end

    // ---- Memory's side ----
    nkv_agilex_memory u_memory (
      .clk_i        (afu_clk),
      .rst_ni       (rst_n),
      .ar_valid_i   (memory_ar_valid[s]),
      .ar_ready_o   (memory_ar_ready[s]),
      .ar_i         (memory_ar[s]),
      .r_valid_o    (memory_r_valid[s]),
      .r_ready_i    (memory_r_ready[s]),
      .r_o          (memory_r[s]),
      .aw_valid_i   (memory_aw_valid[s]),
      .aw_ready_o   (memory_aw_ready[s]),
      .aw_i         (memory_aw[s]),
      .w_valid_i    (memory_w_valid[s]),
      .w_ready_o    (memory_w_ready[s]),
      .w_i          (memory_w[s]),
      .b_valid_o    (memory_b_valid[s]),
      .b_ready_i    (memory_b_ready[s]),
      .b_o          (memory_b[s]),
      .to_memory_o  (iafu2mc_to_mc_axi4[s]),
      .from_memory_i(mc2iafu_from_mc_axi4[s])
    );

    // Of no meaning for single bursts in device order.
    wire unused = ^{asked.awlen, asked.awsize, asked.awburst, asked.awprot, asked.awqos,
                    asked.awcache, asked.awlock, asked.awregion, asked.awuser, asked.wlast,
                    asked.arlen, asked.arsize, asked.arburst, asked.arprot, asked.arqos,
                    asked.arcache, asked.arlock, asked.arregion, asked.aruser};
  end

endmodule
