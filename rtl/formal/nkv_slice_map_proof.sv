// What nkv_slice_map promises beside a CXL IP that deals lines of BurstBytes to slices in turn: a line
// is looked for in the slice that it was dealt to, no two lines share a place there, and places follow
// each other without gaps.

module nkv_slice_map_proof
  import nkv_abi_pkg::BurstBytes;
  import nkv_pkg::*;
#(
  parameter int unsigned Slices = 2,
  localparam int unsigned SliceBits = $clog2(Slices),
  localparam int unsigned LineBits = $clog2(BurstBytes)
) (
  input logic     clk_i,
  input address_t one_i,
  input address_t other_i
);

  address_t one = '0;
  address_t other = '0;
  address_t place, other_place;
  logic [SliceBits-1:0] slice, other_slice;

  nkv_slice_map #(
    .Slices(Slices)
  ) u_one (
    .address_i(one),
    .slice_o  (slice),
    .local_o  (place)
  );
  nkv_slice_map #(
    .Slices(Slices)
  ) u_other (
    .address_i(other),
    .slice_o  (other_slice),
    .local_o  (other_place)
  );

  always_ff @(posedge clk_i) begin
    one <= one_i;
    other <= other_i;
  end

  always_comb begin
    a_slice : assert (slice == one[LineBits+:SliceBits]);
    if (one != other) a_apart : assert ({slice, place} != {other_slice, other_place});
    a_no_gaps : assert (place[AddressBits-1-:SliceBits] == '0);
  end

endmodule
