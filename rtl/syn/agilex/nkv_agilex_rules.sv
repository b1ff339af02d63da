// AXI4's rules at a port of the example design, and that accesses are single bursts of 64 bytes, asserted. It drives
// nothing, and is there in simulation alone.

`ifndef SYNTHESIS

`include "nkv_assert.svh"

module nkv_agilex_rules #(
  parameter bit OneAtATime = 1'b0  // A read and a write are never offered in one cycle.
) (
  input logic                          clk_i,
  input logic                          rst_ni,
  input mc_axi_if_pkg::t_to_mc_axi4    asked_i,
  input mc_axi_if_pkg::t_from_mc_axi4  answered_i
);

  localparam int unsigned ReadIdBits = mc_axi_if_pkg::MC_AXI_RAC_ID_BW;
  localparam int unsigned WriteIdBits = mc_axi_if_pkg::MC_AXI_WAC_ID_BW;
  localparam int unsigned IdBits = ReadIdBits > WriteIdBits ? ReadIdBits : WriteIdBits;

  wire [512+2:0] r_rest = {answered_i.rdata, answered_i.rresp, answered_i.ruser};
  wire [2:0] b_rest = {answered_i.bresp, answered_i.buser};
  wire [512+64:0] w_rest = {asked_i.wdata, asked_i.wstrb, asked_i.wuser};

  nkv_axi_rules #(
    .IdBits(IdBits),
    .RBits($bits(r_rest)),
    .WBits($bits(w_rest)),
    .BBits($bits(b_rest))
  ) u_rules (
    .clk_i,
    .rst_ni,
    .ar_valid_i(asked_i.arvalid),
    .ar_ready_i(answered_i.arready),
    .ar_id_i   (IdBits'(asked_i.arid)),
    .ar_addr_i (64'(asked_i.araddr)),
    .ar_len_i  (asked_i.arlen[7:0]),
    .r_valid_i (answered_i.rvalid),
    .r_ready_i (asked_i.rready),
    .r_id_i    (IdBits'(answered_i.rid)),
    .r_last_i  (answered_i.rlast),
    .r_i       (r_rest),
    .aw_valid_i(asked_i.awvalid),
    .aw_ready_i(answered_i.awready),
    .aw_id_i   (IdBits'(asked_i.awid)),
    .aw_addr_i (64'(asked_i.awaddr)),
    .aw_len_i  (asked_i.awlen[7:0]),
    .w_valid_i (asked_i.wvalid),
    .w_ready_i (answered_i.wready),
    .w_last_i  (asked_i.wlast),
    .w_i       (w_rest),
    .b_valid_i (answered_i.bvalid),
    .b_ready_i (asked_i.bready),
    .b_id_i    (IdBits'(answered_i.bid)),
    .b_i       (b_rest)
  );

  wire [18:0] ar_rest = {asked_i.arsize, asked_i.arburst, asked_i.arprot, asked_i.arqos, asked_i.arcache, asked_i.arlock,
                         asked_i.aruser};
  wire [18:0] aw_rest = {asked_i.awsize, asked_i.awburst, asked_i.awprot, asked_i.awqos, asked_i.awcache, asked_i.awlock,
                         asked_i.awuser};
  `NKV_ASSERT_STAYS(ArRestStays_A, asked_i.arvalid, answered_i.arready, {ar_rest, asked_i.arregion})
  `NKV_ASSERT_STAYS(AwRestStays_A, asked_i.awvalid, answered_i.awready, {aw_rest, asked_i.awregion})
  `NKV_ASSERT(ReadIsOneBurst_A, !asked_i.arvalid || asked_i.arlen == '0)
  `NKV_ASSERT(WriteIsOneBurst_A, !asked_i.awvalid || asked_i.awlen == '0)
  `NKV_ASSERT(OneAtATime_A, !OneAtATime || !(asked_i.arvalid && (asked_i.awvalid || asked_i.wvalid)))

endmodule

`endif
