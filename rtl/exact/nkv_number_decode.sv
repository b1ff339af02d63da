// Elements of any type as Numbers: ARITHMETIC.md section 1. Lanes elements per cycle, latency 3.
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

  // An element as sign, `high` and `low` bits of a significand that may have leading zeros, and the
  // exponent that it has if there are none.
  typedef struct packed {
    logic                negative;
    logic                finite;
    exponent_t           exponent;
    logic [HighBits-1:0] high;
    logic [LowBits-1:0]  low;
  } fields_t;

  // Exponent of a small type whose top significand bit is set, less its exponent field, 1 at
  // least.
  localparam exponent_t Fp16Offset = 8'd112;
  localparam exponent_t E5m2Offset = 8'd112;
  localparam exponent_t E4m3Offset = 8'd120;
  localparam exponent_t Int8Exponent = 8'd134;

  function automatic fields_t wide_fields(logic [31:0] bits);
    fields_t fields;
    fields.negative = bits[31];
    fields.finite = bits[30:23] != '1;
    fields.exponent = bits[30:23];
    {fields.high, fields.low} = {1'b1, bits[22:0]};
    if (bits[30:23] == '0 || !fields.finite) {fields.high, fields.low} = '0;
    return fields;
  endfunction

  function automatic fields_t fp16_fields(logic [15:0] bits);
    logic subnormal = bits[14:10] == '0;
    fields_t fields;
    fields.negative = bits[15];
    fields.finite = bits[14:10] != '1;
    fields.exponent = Fp16Offset + 8'({bits[14:11], bits[10] | subnormal});
    fields.high = fields.finite ? {!subnormal, bits[9:0]} : '0;
    fields.low = '0;
    return fields;
  endfunction

  function automatic fields_t e5m2_fields(logic [7:0] bits);
    logic subnormal = bits[6:2] == '0;
    fields_t fields;
    fields.negative = bits[7];
    fields.finite = bits[6:2] != '1;
    fields.exponent = E5m2Offset + 8'({bits[6:3], bits[2] | subnormal});
    fields.high = fields.finite ? {!subnormal, bits[1:0], 8'd0} : '0;
    fields.low = '0;
    return fields;
  endfunction

  function automatic fields_t e4m3_fields(logic [7:0] bits);
    logic subnormal = bits[6:3] == '0;
    fields_t fields;
    fields.negative = bits[7];
    fields.finite = bits[6:0] != '1;
    fields.exponent = E4m3Offset + 8'({bits[6:4], bits[3] | subnormal});
    fields.high = fields.finite ? {!subnormal, bits[2:0], 7'd0} : '0;
    fields.low = '0;
    return fields;
  endfunction

  function automatic fields_t int8_fields(logic [7:0] bits);
    fields_t fields;
    fields.negative = bits[7];
    fields.finite = 1'b1;
    fields.exponent = Int8Exponent;
    fields.high = {bits[7] ? -bits : bits, 3'd0};
    fields.low = '0;
    return fields;
  endfunction

  function automatic fields_t fields_of(dtype_e dtype, logic [31:0] bits);
    unique case (dtype)
      DtypeBf16: return wide_fields({bits[15:0], 16'd0});
      DtypeFp16: return fp16_fields(bits[15:0]);
      DtypeFp8E5m2: return e5m2_fields(bits[7:0]);
      DtypeFp8E4m3: return e4m3_fields(bits[7:0]);
      DtypeInt8: return int8_fields(bits[7:0]);
      default: return wide_fields(Binary32 ? bits : '0);
    endcase
  endfunction

  function automatic logic [3:0] leading_zeros(logic [HighBits-1:0] bits);
    for (int unsigned i = 0; i < HighBits; i++) if (bits[HighBits-1-i]) return 4'(i);
    return 4'(HighBits);
  endfunction

  logic split_valid_q, counted_valid_q;
  fields_t split_q[Lanes];
  fields_t counted_q[Lanes];
  logic [3:0] zeros_q[Lanes];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int unsigned i = 0; i < Lanes; i++) split_q[i] <= fields_of(dtype_i, element_i[i]);
    end
    if (split_valid_q) begin
      for (int unsigned i = 0; i < Lanes; i++) begin
        counted_q[i] <= split_q[i];
        zeros_q[i] <= leading_zeros(split_q[i].high);
      end
    end
    if (counted_valid_q) begin
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
    if (!rst_ni) begin
      split_valid_q <= 1'b0;
      counted_valid_q <= 1'b0;
      valid_o <= 1'b0;
    end else begin
      split_valid_q <= valid_i;
      counted_valid_q <= split_valid_q;
      valid_o <= counted_valid_q;
    end
  end

endmodule
