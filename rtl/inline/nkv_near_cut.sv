// Near-data reads of many beats, cut into accesses of one. The ids of a read's accesses count on from
// its own in their low PlaceBits, so that beats find their places in whatever order they come. An
// access per cycle, the first two cycles after the read was taken, and no cycle between reads. Reads
// that wait for their turn are queued, so that their asker can go on.

`include "nkv_assert.svh"

module nkv_near_cut
  import nkv_abi_pkg::BurstBytes;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
#(
  parameter int unsigned Queued = 16  // Reads; a power of two.
) (
  input  logic    clk_i,
  input  logic    rst_ni,

  input  logic    ar_valid_i,
  output logic    ar_ready_o,
  input  axi_ar_t ar_i,

  output logic    access_valid_o,
  input  logic    access_ready_i,
  output access_t access_o
);

  logic       ar_valid, ar_ready;
  axi_ar_t    ar;
  logic [$clog2(Queued):0] unused_used;
  nkv_fifo #(
    .T(axi_ar_t),
    .Depth(Queued)
  ) u_reads (
    .clk_i,
    .rst_ni,
    .clear_i    (1'b0),
    .in_valid_i (ar_valid_i),
    .in_ready_o (ar_ready_o),
    .in_data_i  (ar_i),
    .out_valid_o(ar_valid),
    .out_ready_i(ar_ready),
    .out_data_o (ar),
    .used_o     (unused_used)
  );

  logic       busy_q;
  logic [9:0] after_q;   // Accesses of the read that come after this one.
  access_t    access_q;

  assign access_valid_o = busy_q;
  assign access_o = access_q;
  assign ar_ready = !busy_q || (access_ready_i && after_q == '0);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) busy_q <= 1'b0;
    else if (ar_ready) busy_q <= ar_valid;
  end

  always_ff @(posedge clk_i) begin
    if (ar_ready) begin
      access_q <= '{id: ar.id, addr: ar.addr};
      after_q <= ar.len;
    end else if (access_ready_i) begin
      access_q.id[PlaceBits-1:0] <= access_q.id[PlaceBits-1:0] + 1'b1;
      access_q.addr <= access_q.addr + address_t'(BurstBytes);
      after_q <= after_q - 1'b1;
    end
  end

  `NKV_ASSERT_STAYS(AccessStays_A, access_valid_o, access_ready_i, access_o)

endmodule
