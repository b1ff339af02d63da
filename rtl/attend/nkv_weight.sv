// Logits to softmax weights: ARITHMETIC.md section 3.4. One per cycle, 5 cycles later at the output.
//
// A weight is w * 2^(-17 - n). One that is zero (n > 42) comes out as w = 0, n = 0, units = 0.

module nkv_weight
  import nkv_attend_pkg::*;
  import nkv_tables_pkg::*;
#(
  parameter int unsigned TagBits = 8
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  logic               valid_i,
  input  logic [TagBits-1:0] tag_i,
  input  logit_t             logit_i,      // L
  input  reference_t         reference_i,  // M, at least the integer part of L.

  output logic               valid_o,
  output logic [TagBits-1:0] tag_o,
  output weight_t            weight_o,     // w
  output shift_t             shift_o,      // n
  output units_t             units_o       // (w << 24) >> n
);

  localparam int unsigned Latency = 5;
  localparam int unsigned FractionBits = nkv_abi_pkg::LogitFractionBits;
  localparam int unsigned IndexBits = nkv_abi_pkg::Exp2TableBits;
  localparam int unsigned RestBits = FractionBits - IndexBits;
  localparam int unsigned BaseBits = 17;
  localparam int unsigned SlopeBits = 12;
  localparam int unsigned UnitShift = 24;

  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after valid_i.

  logic [ReferenceBits:0] distance_q;
  logic [BaseBits-1:0] base_q, base_late_q;
  logic [SlopeBits-1:0] slope_q;
  logic [RestBits-1:0] rest_q;
  logic [SlopeBits+RestBits-1:0] rise_q;
  logic zero_q;
  shift_t shift_q, weight_shift_q, coarse_shift_q;
  weight_t weight_q, coarse_weight_q;
  units_t coarse_q;

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      distance_q <= (ReferenceBits + 1)'(reference_i) -
                    (ReferenceBits + 1)'(logit_i >>> FractionBits);
      base_q <= Exp2Base[logit_i[RestBits+:IndexBits]];
      slope_q <= Exp2Slope[logit_i[RestBits+:IndexBits]];
      rest_q <= logit_i[RestBits-1:0];
    end
    if (valid_q[0]) begin
      zero_q <= distance_q > (ReferenceBits + 1)'(LargestShift);
      shift_q <= shift_t'(distance_q);
      rise_q <= slope_q * rest_q;
      base_late_q <= base_q;
    end
    if (valid_q[1]) begin
      weight_q <= zero_q ? '0 : {1'b1, base_late_q} + weight_t'(rise_q >> RestBits);
      weight_shift_q <= zero_q ? '0 : shift_q;
    end
    if (valid_q[2]) begin
      coarse_q <= {weight_q, UnitShift'(0)} >> {weight_shift_q[5:3], 3'd0};
      coarse_weight_q <= weight_q;
      coarse_shift_q <= weight_shift_q;
    end
    if (valid_q[3]) begin
      units_o <= coarse_q >> coarse_shift_q[2:0];
      weight_o <= coarse_weight_q;
      shift_o <= coarse_shift_q;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], valid_i};
  end

  assign valid_o = valid_q[Latency-1];

  nkv_delay #(
    .Width (TagBits),
    .Cycles(Latency)
  ) u_tag (
    .clk_i,
    .data_i(tag_i),
    .data_o(tag_o)
  );

endmodule
