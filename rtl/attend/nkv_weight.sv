// Logits to softmax weights: ARITHMETIC.md section 3.4. One per cycle, 5 cycles later at the
// output, with bounded_i 6.
//
// A weight is w * 2^(-17 - n). One that is zero (n > 42) comes out as w = 0, n = 0, units = 0. Where w
// is given, only the integer part of L counts. Of a token that stands for 2^j others the weight of those
// is w - (w >> j), with the w and n of L + j * 2^16 (8.4).

module nkv_weight
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::halvings_t;
  import nkv_tables_pkg::*;
#(
  parameter int unsigned TagBits = 8,
  parameter bit Plain = 1'b0                // Without bounded_i, given weights and others; units alone come out.
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  logic               bounded_i,    // Held while anything is on its way.

  input  logic               valid_i,
  input  logic [TagBits-1:0] tag_i,
  input  logit_t             logit_i,      // L
  input  reference_t         reference_i,  // M, at least the integer part of L, or of min(L + j * 2^16, 2^47 - 1).
  input  logic               given_i,
  input  weight_t            given_weight_i,
  input  logic               others_i,     // Of the 2^j - 1 others; with bounded_i only.
  input  halvings_t          halvings_i,   // j

  output logic               valid_o,
  output logic [TagBits-1:0] tag_o,
  output weight_t            weight_o,     // w
  output shift_t             shift_o,      // n
  output units_t             units_o       // (w << 24) >> n
);

  localparam int unsigned Latency = 6;     // With bounded_i.
  localparam int unsigned FractionBits = nkv_abi_pkg::LogitFractionBits;
  localparam int unsigned IndexBits = nkv_abi_pkg::Exp2TableBits;
  localparam int unsigned RestBits = FractionBits - IndexBits;
  localparam int unsigned BaseBits = 17;
  localparam int unsigned SlopeBits = 12;
  localparam int unsigned UnitShift = 24;

  // Of the largest logit.
  localparam int unsigned TopIndex = (1 << IndexBits) - 1;
  localparam weight_t TopWeight = {1'b1, Exp2Base[TopIndex]} +
      weight_t'(((SlopeBits + RestBits)'(Exp2Slope[TopIndex]) * ((1 << RestBits) - 1)) >> RestBits);

  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after valid_i.

  logic [ReferenceBits:0] distance_q;
  logic [BaseBits-1:0] base_q, base_late_q;
  logic [SlopeBits-1:0] slope_q;
  logic [RestBits-1:0] rest_q;
  logic [SlopeBits+RestBits-1:0] rise_q;
  logic zero_q, top_q, given_q, given_late_q, others_q;
  weight_t given_weight_q, given_weight_late_q;
  halvings_t halvings_q[3];                // No others: more than w has bits.
  shift_t shift_q, weight_shift_q, others_shift_q, coarse_shift_q;
  weight_t weight_q, others_weight_q, coarse_weight_q;
  units_t coarse_q;

  wire bounded = bounded_i && !Plain;
  wire given = given_i && !Plain;
  wire others = others_i && !Plain;
  // Without others a stage less.
  wire coarsens = bounded ? valid_q[3] : valid_q[2];
  wire ends = bounded ? valid_q[4] : valid_q[3];
  wire weight_t weight_in = bounded ? others_weight_q : weight_q;
  wire shift_t shift_in = bounded ? others_shift_q : weight_shift_q;
  // L + j * 2^16 would be beyond all logits, which M never is.
  wire beyond = others_q && distance_q[ReferenceBits];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      distance_q <= (ReferenceBits + 1)'(reference_i) -
                    (ReferenceBits + 1)'(logit_i >>> FractionBits) -
                    (others ? (ReferenceBits + 1)'(halvings_i) : '0);
      others_q <= others;
      halvings_q[0] <= others ? halvings_i : '1;
      base_q <= Exp2Base[logit_i[RestBits+:IndexBits]];
      slope_q <= Exp2Slope[logit_i[RestBits+:IndexBits]];
      rest_q <= logit_i[RestBits-1:0];
      given_q <= given;
      given_weight_q <= given_weight_i;
    end
    if (valid_q[0]) begin
      zero_q <= distance_q > (ReferenceBits + 1)'(LargestShift) && !beyond;
      top_q <= beyond;
      shift_q <= beyond ? '0 : shift_t'(distance_q);
      halvings_q[1] <= halvings_q[0];
      rise_q <= slope_q * rest_q;
      base_late_q <= base_q;
      given_late_q <= given_q;
      given_weight_late_q <= given_weight_q;
    end
    if (valid_q[1]) begin
      if (zero_q) weight_q <= '0;
      else if (given_late_q) weight_q <= given_weight_late_q;
      else if (top_q) weight_q <= TopWeight;
      else weight_q <= {1'b1, base_late_q} + weight_t'(rise_q >> RestBits);
      weight_shift_q <= zero_q ? '0 : shift_q;
      halvings_q[2] <= halvings_q[1];
    end
    if (bounded && valid_q[2]) begin
      others_weight_q <= weight_q - (weight_q >> halvings_q[2]);
      others_shift_q <= weight_shift_q;
    end
    if (coarsens) begin
      coarse_q <= {weight_in, UnitShift'(0)} >> {shift_in[5:3], 3'd0};
      coarse_weight_q <= weight_in;
      coarse_shift_q <= shift_in;
    end
    if (ends) begin
      units_o <= coarse_q >> coarse_shift_q[2:0];
      weight_o <= Plain ? '0 : coarse_weight_q;
      shift_o <= Plain ? '0 : coarse_shift_q;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], valid_i};
  end

  assign valid_o = bounded ? valid_q[Latency-1] : valid_q[Latency-2];

  logic [TagBits-1:0] tag, tag_late_q;
  nkv_delay #(
    .Width (TagBits),
    .Cycles(Latency - 1)
  ) u_tag (
    .clk_i,
    .data_i(tag_i),
    .data_o(tag)
  );
  always_ff @(posedge clk_i) if (bounded) tag_late_q <= tag;
  assign tag_o = bounded ? tag_late_q : tag;

endmodule
