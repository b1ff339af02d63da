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
  host_request_t   [Slices-1:0] host;
  host_answer_t    [Slices-1:0] host_answer;
  memory_request_t [Slices-1:0] memory;
  memory_answer_t  [Slices-1:0] memory_answer;
  dev_load_e       [Slices-1:0] load;
  // The host polls: a Type 3 device of the example has no interrupt for its AFU.
  nkv_queue_pkg::interrupts_t unused_irq;

  nkv_top #(
    .Slices (Slices),
    .ClockHz(ClockHz)
  ) u_nearkv (
    .clk_i         (afu_clk),
    .rst_ni        (rst_n),
    .csr_req_i     (csr_req),
    .csr_we_i      (csr_we),
    .csr_addr_i    (csr_addr),
    .csr_wdata_i   (csr_wdata),
    .csr_rdata_o   (csr_rdata),
    .csr_error_o   (csr_error),
    .memory_bytes_i(MemoryBytes),
    .irq_o         (unused_irq),
    .host_i        (host),
    .host_o        (host_answer),
    .load_o        (load),
    .memory_o      (memory),
    .memory_i      (memory_answer)
  );

  for (genvar s = 0; s < int'(Slices); s++) begin : gen_slice
    mc_axi_if_pkg::t_to_mc_axi4 asked;
    mc_axi_if_pkg::t_from_mc_axi4 answered;

    assign asked = cxlip2iafu_to_mc_axi4[s];
    assign iafu2cxlip_from_mc_axi4[s] = answered;
    assign iafu2cxlip_dev_load[s] = load[s];

    // ---- The host's side ----
    assign host[s] = '{
        ar_valid: asked.arvalid,
        ar: '{id: axi_id_t'(asked.arid), addr: asked.araddr},
        r_ready: asked.rready,
        aw_valid: asked.awvalid,
        aw: '{id: axi_id_t'(asked.awid), addr: asked.awaddr},
        w_valid: asked.wvalid,
        w: '{strb: asked.wstrb, poison: asked.wuser, data: asked.wdata},
        b_ready: asked.bready
    };

    always_comb begin
      answered = '0;
      answered.arready = host_answer[s].ar_ready;
      answered.awready = host_answer[s].aw_ready;
      answered.wready = host_answer[s].w_ready;
      answered.rvalid = host_answer[s].r_valid;
      answered.rid = mc_axi_if_pkg::MC_AXI_RAC_ID_BW'(host_answer[s].r.id);
      answered.rdata = host_answer[s].r.data;
      answered.rresp = host_answer[s].r.error ? afu_axi_if_pkg::eresp_SLVERR : afu_axi_if_pkg::eresp_OKAY;
      answered.rlast = 1'b1;
      answered.ruser.poison = host_answer[s].r.poison;
      answered.bvalid = host_answer[s].b_valid;
      answered.bid = mc_axi_if_pkg::MC_AXI_WAC_ID_BW'(host_answer[s].b.id);
      answered.bresp = host_answer[s].b.error ? afu_axi_if_pkg::eresp_SLVERR : afu_axi_if_pkg::eresp_OKAY;
    end

    // ---- Memory's side ----
    nkv_agilex_memory u_memory (
      .clk_i        (afu_clk),
      .rst_ni       (rst_n),
      .ar_valid_i   (memory[s].ar_valid),
      .ar_ready_o   (memory_answer[s].ar_ready),
      .ar_i         (memory[s].ar),
      .r_valid_o    (memory_answer[s].r_valid),
      .r_ready_i    (memory[s].r_ready),
      .r_o          (memory_answer[s].r),
      .aw_valid_i   (memory[s].aw_valid),
      .aw_ready_o   (memory_answer[s].aw_ready),
      .aw_i         (memory[s].aw),
      .w_valid_i    (memory[s].w_valid),
      .w_ready_o    (memory_answer[s].w_ready),
      .w_i          (memory[s].w),
      .b_valid_o    (memory_answer[s].b_valid),
      .b_ready_i    (memory[s].b_ready),
      .b_o          (memory_answer[s].b),
      .to_memory_o  (iafu2mc_to_mc_axi4[s]),
      .from_memory_i(mc2iafu_from_mc_axi4[s])
    );

`ifndef SYNTHESIS
    nkv_agilex_rules u_host_rules (
      .clk_i     (afu_clk),
      .rst_ni    (rst_n),
      .asked_i   (asked),
      .answered_i(answered)
    );
    nkv_agilex_rules #(
      .OneAtATime(1'b1)
    ) u_memory_rules (
      .clk_i     (afu_clk),
      .rst_ni    (rst_n),
      .asked_i   (iafu2mc_to_mc_axi4[s]),
      .answered_i(mc2iafu_from_mc_axi4[s])
    );
`endif

    // Of no meaning for single bursts in device order.
    wire unused = ^{asked.awlen, asked.awsize, asked.awburst, asked.awprot, asked.awqos,
                    asked.awcache, asked.awlock, asked.awregion, asked.awuser, asked.wlast,
                    asked.arlen, asked.arsize, asked.arburst, asked.arprot, asked.arqos,
                    asked.arcache, asked.arlock, asked.arregion, asked.aruser};
  end

endmodule
