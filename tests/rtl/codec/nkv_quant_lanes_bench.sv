// The arithmetic of the lossy codecs, each unit by itself, with what comes out late beside what comes
// out early.

module nkv_quant_lanes_bench
  import nkv_abi_pkg::*;
  import nkv_quant_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  codec_e      codec_i,
  input  logic [15:0] least_i,
  input  logic [15:0] greatest_i,
  output logic [15:0] zero_o,
  output logic [15:0] scale_o,
  output logic [22:0] reciprocal_o,

  input  logic [15:0] element_i,
  input  logic [15:0] zero_i,
  input  logic [15:0] scale_i,
  input  logic [22:0] reciprocal_i,
  output logic [7:0]  code_o,
  output logic [7:0]  fp8_code_o,

  input  logic [7:0]  code_i,
  output logic [15:0] element_o,
  output logic [15:0] fp8_element_o,
  output logic        is_nan_o
);

  quant_parameters_t made;
  assign {reciprocal_o, scale_o, zero_o} = made;
  wire unused_reset = rst_ni;

  nkv_quant_scale u_scale (.clk_i, .least_i, .greatest_i, .codec_i, .parameters_o(made));
  nkv_quant_code u_code (
    .clk_i, .element_i, .parameters_i({reciprocal_i, scale_i, zero_i}),
    .is_nibble_i(codec_i == CodecInt4), .code_o
  );
  nkv_fp8_code u_fp8_code (.clk_i, .element_i, .scale_i(scale_i[7:0]), .code_o(fp8_code_o));
  nkv_quant_value u_value (.clk_i, .code_i, .zero_i, .scale_i, .element_o);
  nkv_fp8_value u_fp8_value (
    .clk_i, .code_i, .scale_i(scale_i[7:0]), .element_o(fp8_element_o), .is_nan_o
  );

endmodule
