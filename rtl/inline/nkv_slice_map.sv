// Which slice holds an address, and where: granules of SliceGranuleBytes go round the slices, as the CXL
// IP deals them. Combinational.

module nkv_slice_map
  import nkv_abi_pkg::SliceGranuleBytes;
  import nkv_pkg::*;
#(
  parameter int unsigned Slices = 1,  // 1, 2 or 4.
  localparam int unsigned SliceBits = Slices > 1 ? $clog2(Slices) : 1
) (
  input  address_t             address_i,
  output logic [SliceBits-1:0] slice_o,
  output address_t             local_o    // Address in the slice's memory.
);

  if (Slices == 1) begin : gen_one
    assign slice_o = '0;
    assign local_o = address_i;
  end else begin : gen_many
    localparam int unsigned GranuleBits = $clog2(SliceGranuleBytes);
    assign slice_o = address_i[GranuleBits+:SliceBits];
    assign local_o = {
      SliceBits'(0), address_i[AddressBits-1:GranuleBits+SliceBits], address_i[GranuleBits-1:0]
    };
  end

endmodule
