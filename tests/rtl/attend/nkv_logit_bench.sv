// nkv_logit with its set-up before it, as a command uses them; and the tables for inspection.
module nkv_logit_bench
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tables_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        start_i,
  input  logic [31:0] scale_i,
  input  logic [31:0] soft_cap_i,
  input  exponent_t   key_exponent_i,
  output logic        done_o,

  input  logic        valid_i,
  input  logic [7:0]  tag_i,
  input  score_t      score_i,
  input  exponent_t   query_exponent_i,
  output logic        valid_o,
  output logic [7:0]  tag_o,
  output logit_t      logit_o,

  input  logic [9:0]  entry_i,
  output logic [16:0] exp2_base_o,
  output logic [11:0] exp2_slope_o,
  output logic [23:0] log2_base_o,
  output logic [17:0] log2_slope_o,
  output logic [23:0] tanh_base_o,
  output logic [16:0] tanh_slope_o
);

  logit_scale_t scale;

  nkv_logit_setup u_setup (
    .scale_o(scale),
    .*
  );

  nkv_logit #(
    .TagBits(8)
  ) u_logit (
    .scale_i(scale),
    .*
  );

  assign exp2_base_o = Exp2Base[entry_i[5:0]];
  assign exp2_slope_o = Exp2Slope[entry_i[5:0]];
  assign log2_base_o = Log2Base[entry_i[6:0]];
  assign log2_slope_o = Log2Slope[entry_i[6:0]];
  assign tanh_base_o = TanhBase[entry_i];
  assign tanh_slope_o = TanhSlope[entry_i];

endmodule
