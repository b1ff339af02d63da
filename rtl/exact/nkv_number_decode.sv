// Elements of any type as Numbers: ARITHMETIC.md section 1. Lanes elements per cycle, latency 4.
//
// A Number is ±significand * 2^(exponent - 150), significand in [2^23, 2^24); zeros, binary32
// subnormals and what is not finite have significand and exponent 0. Small floats and integers are
// normalised: their subnormals are normal Numbers.

module nkv_number_decode
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
#(
  parameter int unsigned Lanes = 32,
  parameter bit Binary32 = 1'b1  // Takes fp32 too; otherwise significands have 11 leading bits.
) (
  input  logic         clk_i,
  input  logic         rst_ni,

  input  logic         valid_i,
  input  dtype_e       dtype_i,
  input  logic [31:0]  element_i[Lanes],      // In the low bits.

  output logic         valid_o,
  output logic [Lanes-1:0] negative_o,        // Of a zero: either.
  output logic [Lanes-1:0] finite_o,
  output exponent_t    exponent_o[Lanes],
  output significand_t significand_o[Lanes]
);

  localparam int unsigned HighBits = 11;  // The widest small type's, hidden bit included.
  localparam int unsigned LowBits = SignificandBits - HighBits;

  typedef logic [HighBits-2:0] fraction_t;  // Without the hidden bit, from the top.
  typedef logic [LowBits-1:0] low_t;

  // An element's fields, at the same places for all types; an integer as its low byte in `field`.
  typedef struct packed {
    logic      negative;
    exponent_t field;
    fraction_t fraction;
    low_t      low;
  } fields_t;

  // The same as a number whose significand may have leading zeros; the exponent is what it would
  // have without.
  typedef struct packed {
    logic                negative;
    logic                finite;
    exponent_t           exponent;
    logic [HighBits-1:0] high;
    low_t                low;
  } scaled_t;

  // What the types differ in: the exponent of a number with field 1, less 1, and the field of what
  // is not finite.
  localparam exponent_t FiveBitOffset = 8'd112;
  localparam exponent_t FourBitOffset = 8'd120;
  localparam exponent_t Int8Exponent = 8'd134;

  function automatic fields_t fields_of(dtype_e dtype, logic [31:0] bits);
    unique case (dtype)
      DtypeBf16: return {bits[15:0], 16'd0};
      DtypeFp16: return {bits[15], 3'd0, bits[14:0], low_t'(0)};
      DtypeFp8E5m2: return {bits[7], 3'd0, bits[6:0], 8'd0, low_t'(0)};
      DtypeFp8E4m3: return {bits[7], 4'd0, bits[6:0], 7'd0, low_t'(0)};
      DtypeInt8: return {bits[7], bits[7:0], fraction_t'(0), low_t'(0)};
      default: return Binary32 ? bits : '0;
    endcase
  endfunction

  function automatic scaled_t scaled_of(dtype_e dtype, fields_t fields);
    logic normal = fields.field != '0;
    scaled_t scaled;
    scaled.negative = fields.negative;
    scaled.high = {normal, fields.fraction};
    scaled.low = fields.low;
    unique case (dtype)
      DtypeFp16, DtypeFp8E5m2: begin
        scaled.finite = fields.field[4:0] != '1;
        scaled.exponent = FiveBitOffset + {fields.field[7:1], fields.field[0] | !normal};
      end
      DtypeFp8E4m3: begin
        scaled.finite = {fields.field[3:0], fields.fraction[HighBits-2-:3]} != '1;
        scaled.exponent = FourBitOffset + {fields.field[7:1], fields.field[0] | !normal};
      end
      DtypeInt8: begin
        scaled.finite = 1'b1;
        scaled.exponent = Int8Exponent;
        scaled.high = {fields.negative ? -fields.field : fields.field, 3'd0};
      end
      default: begin
        scaled.finite = fields.field != '1;
        scaled.exponent = fields.field;
        // Its subnormals count as zero.
        if (!normal) {scaled.high, scaled.low} = '0;
      end
    endcase
    if (!scaled.finite) {scaled.high, scaled.low} = '0;
    return scaled;
  endfunction

  function automatic logic [3:0] leading_zeros(logic [HighBits-1:0] bits);
    for (int unsigned n = 0; n < HighBits; n++) if (bits[HighBits-1-n]) return 4'(n);
    return 4'(HighBits);
  endfunction

  logic [3:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  dtype_e dtype_q;
  fields_t fields_q[Lanes];
  scaled_t scaled_q[Lanes];
  scaled_t counted_q[Lanes];
  logic [3:0] zeros_q[Lanes];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      dtype_q <= dtype_i;
      for (int unsigned i = 0; i < Lanes; i++) fields_q[i] <= fields_of(dtype_i, element_i[i]);
    end
    if (valid_q[0]) begin
      for (int unsigned i = 0; i < Lanes; i++) scaled_q[i] <= scaled_of(dtype_q, fields_q[i]);
    end
    if (valid_q[1]) begin
      for (int unsigned i = 0; i < Lanes; i++) begin
        counted_q[i] <= scaled_q[i];
        zeros_q[i] <= leading_zeros(scaled_q[i].high);
      end
    end
    if (valid_q[2]) begin
      for (int unsigned i = 0; i < Lanes; i++) begin
        negative_o[i] <= counted_q[i].negative;
        finite_o[i] <= counted_q[i].finite;
        exponent_o[i] <= counted_q[i].high == '0 ? '0 : counted_q[i].exponent - 8'(zeros_q[i]);
        // Where there are leading zeros, the low bits are zero.
        significand_o[i] <= {counted_q[i].high << zeros_q[i], counted_q[i].low};
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[2:0], valid_i};
  end

  assign valid_o = valid_q[3];

endmodule
