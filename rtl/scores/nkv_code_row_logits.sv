// Logits of a page's tokens along one query row, and which of them may yet be among the best:
// ARITHMETIC.md 12.3, 12.4 and 14.3. What belongs to a page's 16 factors is made once a page, a factor
// per cycle, and looked up by each token. Two banks: one page's is made while another page's tokens are
// scored.

module nkv_code_row_logits
  import nkv_codes_pkg::*;
(
  input  logic          clk_i,

  input  code_row_t     row_i,           // All of these are held while a page's factors are under way.
  input  logic          used_i,          // The row is one of the command's.
  input  weight_power_t weight_power_i,  // a of the page's sign set.
  input  code_logit_t   mean_i,          // The page's mean.
  input  threshold_t    threshold_i,     // Of tau.
  input  logic          write_bank_i,
  input  logic          write_i,         // The factor's, MakeCycles - 1 cycles after it came.
  input  code_factor_t  write_factor_i,
  input  factor_step_t  step_i,

  input  logic          bank_i,          // Held while tokens are under way.
  input  code_factor_t  factor_i[SliceTokens],
  input  code_sum_t     sum_i[SliceTokens],  // In the cycle after the factor.
  output code_above_t   above_o[SliceTokens],  // R, Latency cycles after the factor.
  output logic          loud_o[SliceTokens],
  output logic          alive_o[SliceTokens]
);

  localparam int unsigned MultiplierBits = 15;
  localparam int unsigned RadiusLog2 = 40;        // The most that counts.
  localparam int unsigned RadiusFraction = 15;    // 11 of G, 4 of z.
  localparam int unsigned Near = 2;               // What both floors of 14.3 add.
  localparam int unsigned TokenProductBits = CodeSumBits + MultiplierBits;
  localparam int unsigned FractionBits = 12;      // Of m.
  typedef logic signed [TokenProductBits-FractionBits:0] rounded_t;
  localparam rounded_t MostResidual = rounded_t'(1 << 14);

  // ---- Of a factor: m, whether it is loud, and the R from which on a token is alive ----
  typedef struct packed {
    logic                      loud;
    logic [MultiplierBits-1:0] multiplier;
    code_above_t               bar;
  } rule_t;
  (* ram_style = "distributed" *) rule_t rules[2*Factors];
  logic [CodeFractionBits-1:0] fraction_q[2];

  typedef logic signed [18:0] shift_t;
  typedef logic [RadiusLog2:0] radius_t;
  localparam int unsigned UnscaledBits = 28;
  localparam int unsigned MostLeft = 22;          // What is further to the left is beyond 2^40.
  typedef logic [UnscaledBits+MostLeft-1:0] wide_t;
  shift_t         right_q, radius_left_q;
  code_variance_t variance_q;
  logic           none_q, loud_q;
  multiplied_t    product_q, multiplier, multiplier_q;
  logic [MultiplierBits-1:0] kept_q;
  logic [UnscaledBits-1:0] radius_q;
  wide_t          radius;
  radius_t        radius_late_q;
  logic signed [42:0] bar;

  wire code_variance_t variance = row_i.variance + step_i.variance;
  wire shift_t left = radius_left_q;
  wire [11:0] deviation = octave(variance_q[4:1]);
  always_comb begin
    multiplier = product_q >> (right_q > shift_t'(31) ? 5'd31 : right_q[4:0]);
    if (right_q <= 0) multiplier = '1;
    radius = wide_t'(radius_q) << left[4:0];
    if (left > shift_t'(MostLeft)) radius = '1;
    if (left < 0) radius = wide_t'(radius_q) >> 5'(-left);
    bar = 43'(threshold_i) - 43'({1'b0, radius_late_q}) - 43'(Near) -
        (43'(mean_i) & ~43'((1 << CodeFractionBits) - 1));
  end

  rule_t rule_q;
  always_ff @(posedge clk_i) begin
    right_q <= -(shift_t'(row_i.power) + shift_t'({1'b0, weight_power_i}) + shift_t'(step_i.power));
    product_q <= step_i.product;
    none_q <= step_i.none || row_i.is_zero;
    variance_q <= row_i.is_zero || step_i.least || variance < LeastVariance ? LeastVariance : variance;

    multiplier_q <= none_q ? '0 : multiplier;
    radius_q <= UnscaledBits'(step_i.deviations) * UnscaledBits'(deviation);
    radius_left_q <= shift_t'(variance_q >>> 5) - shift_t'(RadiusFraction);

    loud_q <= multiplier_q[$bits(multiplied_t)-1:MultiplierBits] != '0;
    kept_q <= multiplier_q[MultiplierBits-1:0];
    radius_late_q <= radius >= wide_t'(1) << RadiusLog2 ? radius_t'(1) << RadiusLog2
        : radius_t'(radius);

    rule_q.loud <= loud_q;
    rule_q.multiplier <= loud_q ? '1 : kept_q;
    rule_q.bar <= bar > 43'sd32767 || !used_i ? 16'sd32767
        : bar < -43'sd32768 ? -16'sd32768 : code_above_t'(bar);
    if (write_i) begin
      rules[{write_bank_i, write_factor_i}] <= rule_q;
      fraction_q[write_bank_i] <= mean_i[CodeFractionBits-1:0];
    end
  end

  wire unused = ^row_i;

  // ---- Of a token ----
  for (genvar t = 0; t < SliceTokens; t++) begin : gen_tokens
    rule_t token_q;
    logic signed [TokenProductBits:0] token_product_q;
    code_above_t residual_q, bar_q, bar_late_q, bar_last_q;
    logic        token_loud_q, residual_loud_q, above_loud_q;
    wire rounded_t rounded = rounded_t'(
        (token_product_q + (TokenProductBits + 1)'(1 << (FractionBits - 1))) >>> FractionBits);
    always_ff @(posedge clk_i) begin
      token_q <= rules[{bank_i, factor_i[t]}];

      token_product_q <= sum_i[t] * signed'({1'b0, token_q.multiplier});
      token_loud_q <= token_q.loud;
      bar_q <= token_q.bar;

      residual_q <= code_above_t'(rounded);
      residual_loud_q <= token_loud_q;
      bar_late_q <= bar_q;
      if (rounded >= MostResidual || rounded <= -MostResidual) begin
        residual_q <= code_above_t'(rounded < 0 ? -MostResidual : MostResidual);
        residual_loud_q <= 1'b1;
      end

      above_o[t] <= residual_q + code_above_t'({1'b0, fraction_q[bank_i]});
      above_loud_q <= residual_loud_q;
      bar_last_q <= bar_late_q;
    end
    assign loud_o[t] = above_loud_q;
    assign alive_o[t] = above_o[t] >= bar_last_q;
  end

endmodule
