// What all logits of a command share: ARITHMETIC.md sections 3.1 and 3.3. Takes the scale and the
// soft cap as binary32 patterns, and Ek; done_o is high for one cycle, up to 58 cycles after
// start_i, 7 without a soft cap, and scale_o stands from then until the next start.

module nkv_logit_setup
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,

  input  logic         start_i,         // What was begun before is forgotten. The rest is held until done_o.
  input  logic [31:0]  scale_i,         // Finite, not zero.
  input  logic [31:0]  soft_cap_i,      // Finite, not negative.
  input  exponent_t    key_exponent_i,  // Ek

  output logic         done_o,
  output logit_scale_t scale_o
);

  localparam significand_t Log2E = 24'd12102203;  // log2 e * 2^23, truncated.
  localparam cap_t LargestCap = cap_t'(1) << 40;
  localparam int unsigned CapPower = 157;
  localparam power_t PowerOffset = -11'sd411;

  typedef logic [2*SignificandBits-1:0] product_t;

  typedef enum logic [2:0] {
    Idle,
    MultiplyScale,
    TakeScale,
    MultiplyCap,
    ShiftCap,   // A bit per cycle: P >> (157 - e_c).
    TakeCap
  } state_e;

  state_e state_q;
  product_t product_q;
  logic [5:0] shifts_q;  // Still to do.
  logit_scale_t scale_q;
  significand_t scale_significand, cap_significand, multiplicand;
  exponent_t scale_exponent, cap_exponent, cap_distance;
  logic carries, has_cap, cap_overflows;

  assign scale_exponent = scale_i[30:23];
  assign cap_exponent = soft_cap_i[30:23];
  assign scale_significand = {1'b1, scale_i[22:0]};
  assign cap_significand = {1'b1, soft_cap_i[22:0]};
  assign has_cap = cap_exponent != '0;  // Subnormals count as zero.
  assign multiplicand = state_q == MultiplyScale ? scale_significand : cap_significand;
  // b of section 3.1.
  assign carries = product_q[2*SignificandBits-1];
  // P is above 2^46 always.
  assign cap_overflows = cap_exponent >= exponent_t'(CapPower) ||
                         product_q > product_t'(LargestCap);
  assign cap_distance = exponent_t'(CapPower) - cap_exponent;

  always_ff @(posedge clk_i) begin
    unique case (state_q)
      MultiplyScale, MultiplyCap: product_q <= multiplicand * Log2E;
      ShiftCap: if (shifts_q != '0) product_q <= product_q >> 1;
      default: ;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (state_q == TakeScale) begin
      automatic logit_factor_t magnitude = logit_factor_t'(product_q >> (carries ? 24 : 23));
      // A subnormal scale counts as zero.
      if (scale_exponent == '0) magnitude = '0;
      scale_q.factor <= scale_i[31] ? -magnitude : magnitude;
      scale_q.power <= power_t'(scale_exponent) + power_t'(key_exponent_i) + PowerOffset +
                       power_t'(carries && scale_exponent != '0);
      scale_q.capped <= has_cap;
    end
    if (state_q == TakeCap) begin
      if (cap_overflows) scale_q.cap <= LargestCap;
      else scale_q.cap <= product_q == '0 ? cap_t'(1) : cap_t'(product_q);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      shifts_q <= '0;
      done_o <= 1'b0;
    end else begin
      done_o <= state_q == TakeCap && !start_i;
      unique case (state_q)
        Idle: ;
        MultiplyScale: state_q <= TakeScale;
        TakeScale: state_q <= MultiplyCap;
        MultiplyCap: begin
          state_q <= ShiftCap;
          // From 48 on nothing is left; a cap that overflows needs no shift.
          if (!has_cap || cap_exponent >= exponent_t'(CapPower)) shifts_q <= '0;
          else shifts_q <= cap_distance > 8'd48 ? 6'd48 : 6'(cap_distance);
        end
        ShiftCap: begin
          if (shifts_q == '0) state_q <= TakeCap;
          else shifts_q <= shifts_q - 1'b1;
        end
        TakeCap: state_q <= Idle;
        default: state_q <= Idle;
      endcase
      if (start_i) state_q <= MultiplyScale;
    end
  end

  assign scale_o = scale_q;

  // Not negative.
  logic unused_sign;
  assign unused_sign = soft_cap_i[31];

endmodule
