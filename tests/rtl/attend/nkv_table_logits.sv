// What builds line tables gets its logits from nkv_attend_logits; this stands in for that in benches of
// nkv_tail_rest.

module nkv_table_logits
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  localparam int unsigned Units = 2
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        set_i,              // What follows is used from set_o on.
  input  logic [31:0] scale_i,
  input  logic [31:0] soft_cap_i,
  input  exponent_t   key_exponent_i,
  output logic        set_o,
  input  exponent_t   query_exponent_i[Rows],

  input  logic        score_valid_i,
  input  logic [1:0]  score_phase_i,
  input  score_t      score_i[Units],
  output logic        logit_valid_o,
  output logic [1:0]  logit_phase_o,
  output logit_t      logit_o[Units]
);

  logit_scale_t scale;
  nkv_logit_setup u_setup (
    .start_i(set_i),
    .done_o (set_o),
    .scale_o(scale),
    .*
  );

  logic       valid[Units];
  logic [1:0] phase[Units];
  for (genvar u = 0; u < int'(Units); u++) begin : g_unit
    nkv_logit #(
      .TagBits(2)
    ) u_logit (
      .clk_i,
      .rst_ni,
      .scale_i         (scale),
      .valid_i         (score_valid_i),
      .tag_i           (score_phase_i),
      .score_i         (score_i[u]),
      .query_exponent_i(query_exponent_i[{score_phase_i, 1'(u)}]),
      .valid_o         (valid[u]),
      .tag_o           (phase[u]),
      .logit_o         (logit_o[u])
    );
  end
  assign logit_valid_o = valid[0];
  assign logit_phase_o = phase[0];

  wire unused = valid[1] ^ (^phase[1]);

endmodule
