// Stands in for the package of the same name in the vendor's example design: AXI4 of a slice, with
// the fields' names, order and widths. Ids have 8 or 12 bits, depending on the design's release;
// afu_top takes either. Not to be synthesised.

package mc_axi_if_pkg;

  import afu_axi_if_pkg::*;

  localparam int unsigned MC_AXI_RAC_ID_BW = 8;
  localparam int unsigned MC_AXI_WAC_ID_BW = 8;

  typedef struct packed {
    logic poison;
  } t_rd_rsp_user;

  // Towards memory.
  typedef struct packed {
    t_axi4_wr_resp_ready         bready;
    t_axi4_rd_resp_ready         rready;

    logic [MC_AXI_WAC_ID_BW-1:0] awid;
    logic [51:0]                 awaddr;
    logic [9:0]                  awlen;
    t_axi4_burst_size_encoding   awsize;
    t_axi4_burst_encoding        awburst;
    t_axi4_prot_encoding         awprot;
    t_axi4_qos_encoding          awqos;
    logic                        awvalid;
    t_axi4_awcache_encoding      awcache;
    t_axi4_lock_encoding         awlock;
    logic [3:0]                  awregion;
    logic                        awuser;

    logic [511:0]                wdata;
    logic [63:0]                 wstrb;
    logic                        wlast;
    logic                        wvalid;
    logic                        wuser;  // Poison

    logic [MC_AXI_RAC_ID_BW-1:0] arid;
    logic [51:0]                 araddr;
    logic [9:0]                  arlen;
    t_axi4_burst_size_encoding   arsize;
    t_axi4_burst_encoding        arburst;
    t_axi4_prot_encoding         arprot;
    t_axi4_qos_encoding          arqos;
    logic                        arvalid;
    t_axi4_arcache_encoding      arcache;
    t_axi4_lock_encoding         arlock;
    logic [3:0]                  arregion;
    logic                        aruser;
  } t_to_mc_axi4;

  // From memory.
  typedef struct packed {
    t_axi4_wr_addr_ready         awready;
    t_axi4_wr_data_ready         wready;
    t_axi4_rd_addr_ready         arready;

    logic [MC_AXI_WAC_ID_BW-1:0] bid;
    t_axi4_resp_encoding         bresp;
    logic                        bvalid;
    logic                        buser;

    logic [MC_AXI_RAC_ID_BW-1:0] rid;
    logic [511:0]                rdata;
    t_axi4_resp_encoding         rresp;
    logic                        rvalid;
    logic                        rlast;
    t_rd_rsp_user                ruser;
  } t_from_mc_axi4;

endpackage
