// A slice's way to its memory controller, which has ids of its own length and takes a read or a write at
// a time. No cycle is added; with both to be done, they take turns.

module nkv_agilex_memory
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
#(
  parameter int unsigned TagBits = 8  // So many reads, and so many writes, are in flight: 2^TagBits.
) (
  input  logic           clk_i,
  input  logic           rst_ni,

  input  logic           ar_valid_i,
  output logic           ar_ready_o,
  input  memory_access_t ar_i,
  output logic           r_valid_o,
  input  logic           r_ready_i,
  output memory_r_t      r_o,
  input  logic           aw_valid_i,
  output logic           aw_ready_o,
  input  memory_access_t aw_i,
  input  logic           w_valid_i,
  output logic           w_ready_o,
  input  access_w_t      w_i,
  output logic           b_valid_o,
  input  logic           b_ready_i,
  output memory_b_t      b_o,

  output mc_axi_if_pkg::t_to_mc_axi4   to_memory_o,
  input  mc_axi_if_pkg::t_from_mc_axi4 from_memory_i
);

  localparam int unsigned MemoryIdBits = AxiIdBits + 1;

  logic [TagBits-1:0] read_tag, write_tag;
  logic [MemoryIdBits-1:0] read_id, write_id;
  logic may_read, may_write, ar_valid, aw_valid, w_valid;

  assign r_valid_o = from_memory_i.rvalid;
  assign b_valid_o = from_memory_i.bvalid;

  nkv_agilex_turns u_turns (
    .clk_i,
    .rst_ni,
    .ar_valid_i(ar_valid_i && may_read),
    .ar_ready_o,
    .aw_valid_i(aw_valid_i && may_write),
    .aw_ready_o,
    .w_valid_i (w_valid_i && (may_write || !aw_valid_i)),
    .w_ready_o,
    .ar_valid_o(ar_valid),
    .ar_ready_i(from_memory_i.arready),
    .aw_valid_o(aw_valid),
    .aw_ready_i(from_memory_i.awready),
    .w_valid_o (w_valid),
    .w_ready_i (from_memory_i.wready)
  );

  nkv_agilex_tags #(
    .IdBits (MemoryIdBits),
    .TagBits(TagBits)
  ) u_reads (
    .clk_i,
    .rst_ni,
    .ready_o     (may_read),
    .take_i      (ar_valid_i && ar_ready_o),
    .id_i        ({ar_i.is_near, ar_i.access.id}),
    .tag_o       (read_tag),
    .answer_i    (r_valid_o && r_ready_i),
    .answer_tag_i(from_memory_i.rid[TagBits-1:0]),
    .answer_id_o (read_id)
  );

  nkv_agilex_tags #(
    .IdBits (MemoryIdBits),
    .TagBits(TagBits)
  ) u_writes (
    .clk_i,
    .rst_ni,
    .ready_o     (may_write),
    .take_i      (aw_valid_i && aw_ready_o),
    .id_i        ({aw_i.is_near, aw_i.access.id}),
    .tag_o       (write_tag),
    .answer_i    (b_valid_o && b_ready_i),
    .answer_tag_i(from_memory_i.bid[TagBits-1:0]),
    .answer_id_o (write_id)
  );

  always_comb begin
    to_memory_o = '0;
    to_memory_o.arvalid = ar_valid;
    to_memory_o.arid = mc_axi_if_pkg::MC_AXI_RAC_ID_BW'(read_tag);
    to_memory_o.araddr = ar_i.access.addr;
    to_memory_o.arsize = afu_axi_if_pkg::esize_512;
    to_memory_o.arburst = afu_axi_if_pkg::eburst_INCR;
    to_memory_o.rready = r_ready_i;
    to_memory_o.awvalid = aw_valid;
    to_memory_o.awid = mc_axi_if_pkg::MC_AXI_WAC_ID_BW'(write_tag);
    to_memory_o.awaddr = aw_i.access.addr;
    to_memory_o.awsize = afu_axi_if_pkg::esize_512;
    to_memory_o.awburst = afu_axi_if_pkg::eburst_INCR;
    to_memory_o.wvalid = w_valid;
    to_memory_o.wdata = w_i.data;
    to_memory_o.wstrb = w_i.strb;
    to_memory_o.wuser = w_i.poison;
    to_memory_o.wlast = 1'b1;
    to_memory_o.bready = b_ready_i;
  end

  assign r_o = '{
      is_near: read_id[MemoryIdBits-1],
      answer: '{
          id: read_id[AxiIdBits-1:0],
          error: from_memory_i.rresp inside {afu_axi_if_pkg::eresp_SLVERR,
                                             afu_axi_if_pkg::eresp_DECERR},
          poison: from_memory_i.ruser.poison,
          data: from_memory_i.rdata
      }
  };
  assign b_o = '{
      is_near: write_id[MemoryIdBits-1],
      answer: '{
          id: write_id[AxiIdBits-1:0],
          error: from_memory_i.bresp inside {afu_axi_if_pkg::eresp_SLVERR,
                                             afu_axi_if_pkg::eresp_DECERR}
      }
  };

  // Of no meaning for single bursts.
  wire unused = ^{from_memory_i.rid, from_memory_i.bid, from_memory_i.rlast, from_memory_i.buser};

endmodule
