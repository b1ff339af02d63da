// The parameters of a group from its least and greatest element: FORMATS.md, "INT8, INT4" and
// "FP8", with the range of INT8 and INT4 rounded to binary64, as the host library has it. The
// elements are below 2^126 with INT8 and INT4, else finite; none is subnormal or -0. One group per
// cycle, ScaleLatency later.

module nkv_quant_scale
  import nkv_abi_pkg::*;
  import nkv_quant_pkg::*;
(
  input  logic              clk_i,
  input  logic [15:0]       least_i,
  input  logic [15:0]       greatest_i,
  input  codec_e            codec_i,
  output quant_parameters_t parameters_o
);

  localparam int unsigned Kept = 19;             // Bits of the range that matter,
  localparam int unsigned Vanishes = 53;         // and below these binary64 has none.
  localparam logic [15:0] LeastNormal = 16'h0080;
  localparam logic [6:0] GreatestFraction = 7'h60;  // Of 448.

  // 2^24 / (1 + m / 128), rounded to nearest, without the leading bit; that of m = 0 is 1.
  typedef logic [22:0] fraction_t;
  typedef fraction_t [127:0] table_t;
  function automatic table_t reciprocals();
    table_t fractions;
    fractions[0] = '0;
    for (int unsigned m = 1; m < 128; m++) begin
      automatic longint unsigned divisor = 64'd128 + 64'(m);
      fractions[m] = 23'(((64'd1 << 32) / divisor + 64'd1) >> 1);
    end
    return fractions;
  endfunction
  localparam table_t Reciprocals = reciprocals();

  // ---- Magnitudes ----
  logic [14:0] large_q, small_q;
  logic subtracts_q;
  logic [4:0] is_nibble_q;
  logic [5:0] is_fp8_q, is_constant_q;
  logic [15:0] least_q[6];
  wire greatest_wins = greatest_i[14:0] >= least_i[14:0];

  always_ff @(posedge clk_i) begin
    large_q <= greatest_wins ? greatest_i[14:0] : least_i[14:0];
    small_q <= greatest_wins ? least_i[14:0] : greatest_i[14:0];
    subtracts_q <= greatest_i[15] == least_i[15];
    is_nibble_q <= {is_nibble_q[3:0], codec_i == CodecInt4};
    is_fp8_q <= {is_fp8_q[4:0], codec_i == CodecFp8};
    is_constant_q <= {is_constant_q[4:0], greatest_i == least_i};
    least_q[0] <= least_i;
    for (int unsigned i = 1; i < 6; i++) least_q[i] <= least_q[i-1];
  end

  // FP8: the least scale under which the larger stays within 448.
  logic [7:0] byte_q[5];
  always_ff @(posedge clk_i) begin
    byte_q[0] <= large_q == '0 ? '0 : large_q[14:7] + 8'(large_q[6:0] > GreatestFraction);
    for (int unsigned i = 1; i < 5; i++) byte_q[i] <= byte_q[i-1];
  end

  // ---- greatest - least, in units of its last bit, and whether there is more ----
  logic [7:0] large_sig_q, exponent_q;
  logic [Kept-1:0] aligned_q;
  logic more_q, takes_q;
  wire [7:0] apart = large_q[14:7] - small_q[14:7];
  wire [4:0] shift = apart[7:5] == '0 ? apart[4:0] : '1;
  wire [49:0] shifted = {small_q[14:7] != '0, small_q[6:0], 42'd0} >> shift;
  wire is_lost = apart > 8'(Vanishes) || (apart == 8'(Vanishes) && small_q[6:0] == '0);

  always_ff @(posedge clk_i) begin
    large_sig_q <= {large_q[14:7] != '0, large_q[6:0]};
    exponent_q <= large_q[14:7];
    aligned_q <= shifted[49:31];
    more_q <= shifted[30:0] != '0 && !is_lost;
    takes_q <= subtracts_q;
  end

  logic [Kept:0] sum_q;
  logic [7:0] sum_exponent_q;
  logic sum_more_q;
  wire [Kept:0] base = {1'b0, large_sig_q, 11'd0};

  always_ff @(posedge clk_i) begin
    // What is taken besides, less than a unit, leaves less than a unit more.
    sum_q <= takes_q ? base - {1'b0, aligned_q} - 20'(more_q) : base + {1'b0, aligned_q};
    sum_exponent_q <= exponent_q;
    sum_more_q <= more_q;
  end

  logic [Kept:0] range_q;
  logic signed [9:0] range_exponent_q;
  logic range_more_q;
  logic [3:0] zeros;
  always_comb begin
    zeros = 4'd11;
    for (int unsigned n = 11; n > 0; n--) if (sum_q[Kept+1-n]) zeros = 4'(n - 1);
  end

  always_ff @(posedge clk_i) begin
    range_q <= sum_q << zeros;
    range_exponent_q <= $signed({2'b0, sum_exponent_q}) - $signed({6'd0, zeros});
    range_more_q <= sum_more_q;
  end

  // ---- / 255 or 15, rounded up to 8 bits ----
  logic [16:0] dividend_q;  // In 16 * 255 or 256 * 15, with what rounds up.
  logic signed [9:0] dividend_exponent_q;
  wire [20:0] raised = {1'b0, range_q} + (is_nibble_q[3] ? 21'd3839 : 21'd4079) +
      21'(range_more_q);
  wire unused_low = ^raised[3:0];

  always_ff @(posedge clk_i) begin
    dividend_q <= is_nibble_q[3] ? {4'd0, raised[20:8]} : raised[20:4];
    dividend_exponent_q <= range_exponent_q;
  end

  logic [8:0] quotient_q;   // 129 to 274; 257 may stand for 258, for half of it is the same.
  logic signed [9:0] quotient_exponent_q;
  wire [24:0] by_255 = (25'(dividend_q) + 25'd1) * 25'd257;
  wire [25:0] by_15 = (26'(dividend_q[12:0]) + 26'd1) * 26'd4369;
  wire unused_parts = ^{by_255[15:0], by_15[25], by_15[15:0]};

  always_ff @(posedge clk_i) begin
    quotient_q <= is_nibble_q[4] ? by_15[24:16] : by_255[24:16];
    quotient_exponent_q <= dividend_exponent_q - (is_nibble_q[4] ? 10'sd3 : 10'sd7);
  end

  logic [15:0] scale_q, zero_q;
  wire [8:0] halved = (quotient_q + 9'd1) >> 1;
  wire [7:0] significand = quotient_q[8] ? halved[7:0] : quotient_q[7:0];
  wire signed [9:0] exponent = quotient_exponent_q + 10'(quotient_q[8]);
  wire unused_leading = halved[8] ^ significand[7];

  always_ff @(posedge clk_i) begin
    zero_q <= is_fp8_q[5] ? '0 : least_q[5];
    if (is_fp8_q[5]) scale_q <= {8'd0, byte_q[4]};
    else if (is_constant_q[5]) scale_q <= '0;
    else if (exponent < 10'sd1) scale_q <= LeastNormal;
    else scale_q <= {1'b0, exponent[7:0], significand[6:0]};
  end

  always_ff @(posedge clk_i) begin
    parameters_o.zero <= zero_q;
    parameters_o.scale <= scale_q;
    parameters_o.reciprocal <= Reciprocals[scale_q[6:0]];
  end

endmodule
