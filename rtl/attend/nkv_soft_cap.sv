// Soft cap of logits: ARITHMETIC.md section 3.3. One logit per cycle, 28 cycles later at the
// output; without a cap it comes out as it went in. The cap is held while logits are on their way.

module nkv_soft_cap
  import nkv_attend_pkg::*;
  import nkv_tables_pkg::*;
(
  input  logic   clk_i,
  input  logic   rst_ni,

  input  logic   capped_i,
  input  cap_t   cap_i,

  input  logic   valid_i,
  input  logit_t logit_i,

  output logic   valid_o,
  output logit_t logit_o
);

  localparam int unsigned RatioBits = 19;
  localparam int unsigned FractionBits = 9;
  localparam int unsigned IndexBits = RatioBits - FractionBits;
  localparam int unsigned TanhBits = 24;
  localparam int unsigned SlopeBits = 17;
  localparam int unsigned Latency = 28;

  typedef logic [LogitBits-2:0] magnitude_t;
  typedef logic [RatioBits-1:0] ratio_t;
  typedef logic signed [CapBits+1:0] remainder_t;
  typedef logic [TanhBits-1:0] tanh_t;
  typedef logic [63:0] product_t;  // K <= 2^40 and T < 2^24.

  logic [Latency-1:0] valid_q;   // [i]: i + 1 cycles after valid_i.
  logic [Latency-1:0] active;    // The same, for logits that are capped.

  assign active = capped_i ? valid_q : '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], valid_i};
  end

  // ---- Ratio: |L| * 2^16 / K by division without restoring, a bit per stage ---------------------
  // |L| >> 3 is the first remainder; the three bits below it come down in the first three steps,
  // and zeros after them. A remainder below zero is made good by adding in the next step. A first
  // remainder from K on means a ratio of 2^19 or more.
  magnitude_t magnitude_q;
  remainder_t remainder_q[RatioBits+1];
  logic [2:0] dividend_q[RatioBits+1];
  ratio_t ratio_q[RatioBits+1];
  logic [RatioBits:0] saturated_q;

  always_ff @(posedge clk_i) begin
    if (valid_i && capped_i) begin
      magnitude_q <= logit_i < 0 ? magnitude_t'(-logit_i) : magnitude_t'(logit_i);
    end
    if (active[0]) begin
      remainder_q[0] <= remainder_t'({1'b0, cap_t'(magnitude_q >> 3)});
      dividend_q[0] <= magnitude_q[2:0];
      ratio_q[0] <= '0;
      saturated_q[0] <= (magnitude_q >> 3) >= magnitude_t'(cap_i);
    end
    for (int unsigned i = 0; i < RatioBits; i++) begin
      if (active[i+1]) begin
        automatic remainder_t divisor = remainder_t'({1'b0, cap_i});
        automatic remainder_t next = {remainder_q[i][CapBits:0], dividend_q[i][2]} +
                                     (remainder_q[i] < 0 ? divisor : -divisor);
        remainder_q[i+1] <= next;
        dividend_q[i+1] <= dividend_q[i] << 1;
        ratio_q[i+1] <= {ratio_q[i][RatioBits-2:0], !next[CapBits+1]};
        saturated_q[i+1] <= saturated_q[i];
      end
    end
  end

  // ---- K * tanh of it ---------------------------------------------------------------------------
  ratio_t ratio;
  tanh_t base_q, base_late_q, tanh_q;
  logic [SlopeBits-1:0] slope_q;
  logic [FractionBits-1:0] fraction_q;
  logic [SlopeBits+FractionBits-1:0] rise_q;
  product_t multiplied_q, product_q, capped_q;
  logit_t linear;

  assign ratio = saturated_q[RatioBits] ? '1 : ratio_q[RatioBits];

  nkv_delay #(
    .Width (LogitBits),
    .Cycles(Latency - 1)
  ) u_linear (
    .clk_i,
    .data_i(logit_i),
    .data_o(linear)
  );

  always_ff @(posedge clk_i) begin
    if (active[RatioBits+1]) begin
      base_q <= TanhBase[ratio[FractionBits+:IndexBits]];
      slope_q <= TanhSlope[ratio[FractionBits+:IndexBits]];
      fraction_q <= ratio[FractionBits-1:0];
    end
    if (active[RatioBits+2]) begin
      rise_q <= slope_q * fraction_q;
      base_late_q <= base_q;
    end
    if (active[RatioBits+3]) tanh_q <= base_late_q + tanh_t'(rise_q >> FractionBits);
    if (active[RatioBits+4]) multiplied_q <= product_t'(cap_i) * product_t'(tanh_q);
    // The multipliers' own output registers.
    if (active[RatioBits+5]) product_q <= multiplied_q;
    if (active[RatioBits+6]) capped_q <= product_q;
    if (valid_q[RatioBits+7]) begin
      if (!capped_i) logit_o <= linear;
      else logit_o <= linear < 0 ? -logit_t'(capped_q >> TanhBits) : logit_t'(capped_q >> TanhBits);
    end
  end

  assign valid_o = valid_q[Latency-1];

endmodule
