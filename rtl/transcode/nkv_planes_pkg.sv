// What the modules share that open pages of PLANES_LZ4 and PLANES_ZSTD. A block of these is a list of
// sections, which make up a tensor's references, its planes of bits, and, with PLANES_ZSTD, the pairs of
// tokens that stand for four of the planes.

package nkv_planes_pkg;

  import nkv_abi_pkg::*;
  import nkv_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  localparam int unsigned ElementBits = 16;
  // The lowest bits of the exponent are stored apart from the others.
  localparam int unsigned LowBits = 4;
  // References, higher exponent bits, and a plane for every other bit of an fp16.
  localparam int unsigned MaxSections = 17;

  typedef logic [$clog2(ElementBits)-1:0] plane_t;

  // Fields of an element from the top bit down: sign, exponent, mantissa. An int8's upper half
  // counts as its exponent.
  typedef struct packed {
    logic       has_sign;
    logic [3:0] exponent_bits;
    logic [3:0] mantissa_bits;
  } element_format_t;

  typedef enum logic [1:0] {
    PartReferences,  // A byte per channel.
    PartPlanes,      // A bit of all elements: 64 tokens of 8 channels in a burst.
    PartPairs        // The low exponent bits of two tokens in a byte per channel.
  } part_e;

  typedef logic [5:0] part_index_t;

  // A burst of a tensor's parts.
  typedef struct packed {
    logic        valid;
    part_e       part;
    plane_t      plane;  // With PartPlanes.
    part_index_t index;  // Of the burst in its part or plane.
    burst_t      data;
  } part_write_t;

  // The largest block: a directory, and every section as it is.
  localparam int unsigned BlockBits = 15;
  typedef logic [BlockBits-1:0] block_bytes_t;

  // verilator lint_on UNUSEDPARAM

  function automatic element_format_t element_format(dtype_e dtype);
    unique case (dtype)
      DtypeFp16: return '{has_sign: 1'b1, exponent_bits: 4'd5, mantissa_bits: 4'd10};
      DtypeFp8E4m3: return '{has_sign: 1'b1, exponent_bits: 4'd4, mantissa_bits: 4'd3};
      DtypeFp8E5m2: return '{has_sign: 1'b1, exponent_bits: 4'd5, mantissa_bits: 4'd2};
      DtypeInt8: return '{has_sign: 1'b0, exponent_bits: 4'd4, mantissa_bits: 4'd4};
      default: return '{has_sign: 1'b1, exponent_bits: 4'd8, mantissa_bits: 4'd7};
    endcase
  endfunction

endpackage
