// An element's INT8 or INT4 code: min(⌊(element - zero) * (1 / scale) + 1/2⌋, 255 or 15), each
// operation in binary32, rounded to nearest even. Subnormal elements count as zero. `zero` is not
// above the element, both are below 2^126, and `scale` is 0 or at least 2^-126; none is subnormal.
// A code per cycle, CodeLatency later.

module nkv_quant_code
  import nkv_quant_pkg::*;
(
  input  logic              clk_i,
  input  logic [15:0]       element_i,
  input  quant_parameters_t parameters_i,
  input  logic              is_nibble_i,
  output logic [7:0]        code_o
);

  localparam int unsigned Guarded = 27;  // A significand of binary32, and three bits below it.
  typedef logic signed [9:0] exponent_t;

  // What the later steps need of the parameters; [i]: i + 1 cycles later.
  logic [22:0] reciprocal_q[5];
  logic [7:0]  scale_exponent_q[5];
  logic [4:0]  is_power_q, is_constant_q;
  logic [7:0]  is_nibble_q;

  always_ff @(posedge clk_i) begin
    reciprocal_q[0] <= parameters_i.reciprocal;
    scale_exponent_q[0] <= parameters_i.scale[14:7];
    for (int unsigned i = 1; i < 5; i++) begin
      reciprocal_q[i] <= reciprocal_q[i-1];
      scale_exponent_q[i] <= scale_exponent_q[i-1];
    end
    is_power_q <= {is_power_q[3:0], parameters_i.scale[6:0] == '0};
    is_constant_q <= {is_constant_q[3:0], parameters_i.scale == '0};
    is_nibble_q <= {is_nibble_q[6:0], is_nibble_i};
  end
  wire unused_sign = parameters_i.scale[15];

  // ---- element - zero: the larger magnitude, and what is added to it or taken from it ----
  logic [14:0] large_q, small_q;
  logic subtracts_q;
  wire [15:0] element = flushed(element_i);
  wire [15:0] zero = parameters_i.zero;
  wire is_larger = element[14:0] >= zero[14:0];

  always_ff @(posedge clk_i) begin
    large_q <= is_larger ? element[14:0] : zero[14:0];
    small_q <= is_larger ? zero[14:0] : element[14:0];
    subtracts_q <= element[15] == zero[15];
  end

  logic [7:0] large_sig_q, large_exponent_q;
  logic [Guarded-1:0] aligned_q;
  logic takes_q;
  wire [7:0] apart = large_q[14:7] - small_q[14:7];
  wire [4:0] shift = apart[7:5] == '0 ? apart[4:0] : '1;
  wire [57:0] shifted = {small_q[14:7] != '0, small_q[6:0], 50'd0} >> shift;

  always_ff @(posedge clk_i) begin
    large_sig_q <= {large_q[14:7] != '0, large_q[6:0]};
    large_exponent_q <= large_q[14:7];
    aligned_q <= {shifted[57:32], shifted[31:0] != '0};
    takes_q <= subtracts_q;
  end

  logic [Guarded:0] sum_q;
  logic [7:0] sum_exponent_q;
  wire [Guarded:0] base = {1'b0, large_sig_q, 19'd0};

  always_ff @(posedge clk_i) begin
    sum_q <= takes_q ? base - {1'b0, aligned_q} : base + {1'b0, aligned_q};
    sum_exponent_q <= large_exponent_q;
  end

  // More than two leading zeros are left only by numbers that are hardly apart, of few bits.
  logic [Guarded:0] normal_q;
  exponent_t normal_exponent_q;
  logic is_zero_q;
  logic [3:0] zeros;
  always_comb begin
    zeros = 4'd10;
    for (int unsigned n = 10; n > 0; n--) if (sum_q[Guarded+1-n]) zeros = 4'(n - 1);
  end

  always_ff @(posedge clk_i) begin
    normal_q <= sum_q << zeros;
    normal_exponent_q <= exponent_t'({2'b0, sum_exponent_q}) + 10'sd1 - exponent_t'({6'd0, zeros});
    is_zero_q <= zeros == 4'd10;
  end

  logic [23:0] difference_q;
  exponent_t difference_exponent_q;
  logic none_q;
  wire rounds_up = normal_q[3] && (normal_q[4] || normal_q[2:0] != '0);
  wire [24:0] rounded = {1'b0, normal_q[27:4]} + 25'(rounds_up);

  always_ff @(posedge clk_i) begin
    difference_q <= {rounded[24] | rounded[23], rounded[22:0]};
    difference_exponent_q <= normal_exponent_q + exponent_t'({9'd0, rounded[24]});
    none_q <= is_zero_q;
  end

  // ---- * (1 / scale) ----
  logic [47:0] product_q;
  exponent_t product_exponent_q;  // Of a product below 2.
  logic vanishes_q;
  wire [23:0] reciprocal = {1'b1, reciprocal_q[4]};

  always_ff @(posedge clk_i) begin
    product_q <= difference_q * reciprocal;
    product_exponent_q <= difference_exponent_q - exponent_t'({2'b0, scale_exponent_q[4]}) -
        exponent_t'({9'd0, !is_power_q[4]});
    vanishes_q <= none_q || is_constant_q[4];
  end

  logic [23:0] quotient_q;
  exponent_t quotient_exponent_q;
  logic nothing_q;
  wire [47:0] leading = product_q[47] ? product_q : product_q << 1;
  wire carries = leading[23] && (leading[24] || leading[22:0] != '0);
  wire [24:0] kept = {1'b0, leading[47:24]} + 25'(carries);

  always_ff @(posedge clk_i) begin
    quotient_q <= {kept[24] | kept[23], kept[22:0]};
    quotient_exponent_q <= product_exponent_q + exponent_t'({9'd0, product_q[47]}) +
        exponent_t'({9'd0, kept[24]});
    nothing_q <= vanishes_q;
  end

  // ---- + 1/2, which is exact but for the number just below 1/2, whose sum is rounded to 1 ----
  logic [8:0] halves_q;  // Twice the quotient.
  logic overflows_q;
  wire exponent_t right = 10'sd7 - quotient_exponent_q;
  wire is_just_below = quotient_exponent_q == -10'sd2 && quotient_q == '1;

  always_ff @(posedge clk_i) begin
    overflows_q <= !nothing_q && right < 0;
    if (nothing_q || right > 10'sd8) halves_q <= {8'd0, !nothing_q && is_just_below};
    else halves_q <= quotient_q[23:15] >> right[3:0];
  end

  wire [8:0] code = {1'b0, halves_q[8:1]} + 9'(halves_q[0]);
  wire [7:0] greatest = is_nibble_q[7] ? 8'd15 : 8'd255;

  always_ff @(posedge clk_i) begin
    code_o <= overflows_q || code > {1'b0, greatest} ? greatest : code[7:0];
  end

endmodule
