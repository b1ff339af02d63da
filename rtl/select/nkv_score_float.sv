// A score as TOPK returns it (ARITHMETIC.md section 6): the binary32 number nearest to
// S * 2^(exponent - 301) * scale as binary64 has it, the exponent being Eq + Ek. So S is rounded to
// 53 bits, the product of that and the scale to 53 bits again, and that to binary32, each to nearest
// even; beyond binary32's range the result is an infinity, below it a subnormal number or a zero.
// Neither of the binary64 numbers leaves the normal range. A score of zero has the scale's sign.
// Latency nkv_select_pkg::ScoreFloatLatency cycles, one score per cycle, no back-pressure.

module nkv_score_float
  import nkv_select_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        valid_i,
  input  score_t      score_i,           // S
  input  logic signed [10:0] exponent_i, // -300 to 800.
  input  logic [31:0] scale_i,           // A normal binary32 number; stands while a score is inside.

  output logic        valid_o,
  output logic [31:0] float_o
);

  localparam int unsigned Latency = ScoreFloatLatency;
  typedef logic [52:0] double_t;             // Significand of a binary64 number.
  typedef logic signed [10:0] exponent_t;    // Biased as in binary32; -600 .. 820.

  logic [Latency:1] valid_q;
  logic negative_q[Latency];
  logic zero_q[Latency];
  exponent_t exponent_q[Latency];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-1:1], valid_i};
  end

  // ---- 1..4: magnitude, normalised to bit 59 -----------------------------------------------
  // The exponent starts as if it were there.
  logic [59:0] magnitude_q[4];
  wire by_32 = magnitude_q[0][59:28] == '0;
  wire by_16 = by_32 ? magnitude_q[0][27:12] == '0 : magnitude_q[0][59:44] == '0;
  wire by_8 = magnitude_q[1][59:52] == '0;
  wire by_4 = by_8 ? magnitude_q[1][51:48] == '0 : magnitude_q[1][59:56] == '0;
  wire by_2 = magnitude_q[2][59:58] == '0;
  wire by_1 = !(by_2 ? magnitude_q[2][57] : magnitude_q[2][59]);

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      magnitude_q[0] <= score_i[ScoreBits-1] ? 60'(-score_i) : 60'(score_i);
      exponent_q[0] <= exponent_i + (exponent_t'(scale_i[30:23]) - exponent_t'(301 - 59));
    end
    if (valid_q[1]) begin
      magnitude_q[1] <= magnitude_q[0] << {by_32, by_16, 4'b0};
      exponent_q[1] <= exponent_q[0] - exponent_t'({by_32, by_16, 4'b0});
    end
    if (valid_q[2]) begin
      magnitude_q[2] <= magnitude_q[1] << {by_8, by_4, 2'b0};
      exponent_q[2] <= exponent_q[1] - exponent_t'({by_8, by_4, 2'b0});
    end
    if (valid_q[3]) begin
      magnitude_q[3] <= magnitude_q[2] << {by_2, by_1};
      exponent_q[3] <= exponent_q[2] - exponent_t'({by_2, by_1});
    end
  end

  // ---- 5: to 53 bits -------------------------------------------------------------------------
  double_t factor_q;
  wire up_5 = magnitude_q[3][6] && (magnitude_q[3][7] || magnitude_q[3][5:0] != '0);
  wire [53:0] rounded_5 = 54'(magnitude_q[3][59:7]) + 54'(up_5);

  always_ff @(posedge clk_i) begin
    if (valid_q[4]) begin
      factor_q <= {rounded_5[53] || rounded_5[52], rounded_5[51:0]};
      exponent_q[4] <= exponent_q[3] + exponent_t'(rounded_5[53]);
    end
  end

  // ---- 6..9: times the scale's significand, in pieces of 17 bits -------------------------------
  wire [23:0] scale_significand = {1'b1, scale_i[22:0]};
  logic [40:0] piece_q[4], product_q[4];
  logic [57:0] low_sum_q;
  logic [42:0] high_sum_q;
  logic [42:0] high_q;   // Bits 76..34 of the product,
  logic [33:0] low_q;    // and the rest.

  always_ff @(posedge clk_i) begin
    if (valid_q[5]) begin
      piece_q[0] <= factor_q[16:0] * scale_significand;
      piece_q[1] <= factor_q[33:17] * scale_significand;
      piece_q[2] <= factor_q[50:34] * scale_significand;
      // Of two bits: not worth a multiplier. The upper one is set, but for a score of zero.
      piece_q[3] <= 41'({factor_q[52] ? scale_significand : '0, 1'b0}) +
                    (factor_q[51] ? 41'(scale_significand) : '0);
    end
    if (valid_q[6]) product_q <= piece_q;
    if (valid_q[7]) begin
      low_sum_q <= 58'(product_q[0]) + (58'(product_q[1]) << 17);
      high_sum_q <= 43'(product_q[2]) + (43'(product_q[3]) << 17);
    end
    if (valid_q[8]) begin
      high_q <= high_sum_q + 43'(low_sum_q[57:34]);
      low_q <= low_sum_q[33:0];
    end
    for (int unsigned i = 5; i < 9; ++i) begin
      if (valid_q[i]) exponent_q[i] <= exponent_q[i-1];
    end
  end

  // ---- 10: to 53 bits --------------------------------------------------------------------------
  wire is_two = high_q[42];
  wire double_t kept_10 = is_two ? {high_q, low_q[33:24]} : {high_q[41:0], low_q[33:23]};
  wire half_10 = is_two ? low_q[23] : low_q[22];
  wire rest_10 = low_q[21:0] != '0 || (is_two && low_q[22]);
  wire [53:0] rounded_10 = 54'(kept_10) + 54'(half_10 && (kept_10[0] || rest_10));
  double_t double_q;

  always_ff @(posedge clk_i) begin
    if (valid_q[9]) begin
      double_q <= {rounded_10[53] || rounded_10[52], rounded_10[51:0]};
      exponent_q[9] <= exponent_q[8] + exponent_t'(is_two) + exponent_t'(rounded_10[53]);
    end
  end

  // ---- 11..13: to 24 bits, a half and a rest; below the normal numbers further down ------------
  logic [25:0] short_q[3];
  logic [4:0] down_q[2];
  wire exponent_t below = exponent_t'(1) - exponent_q[9];
  wire [4:0] down_11 = below[10] ? '0 : below > exponent_t'(31) ? '1 : below[4:0];

  function automatic logic [25:0] shift_down(logic [25:0] value, logic [4:0] count);
    logic [25:0] lost;
    lost = value & ~(26'h3ffffff << count);
    return (value >> count) | 26'(lost != '0);
  endfunction

  always_ff @(posedge clk_i) begin
    if (valid_q[10]) begin
      short_q[0] <= {double_q[52:28], double_q[27:0] != '0};
      down_q[0] <= down_11;
      exponent_q[10] <= exponent_q[9];
    end
    if (valid_q[11]) begin
      short_q[1] <= shift_down(short_q[0], {down_q[0][4:3], 3'b0});
      down_q[1] <= down_q[0];
      exponent_q[11] <= exponent_q[10];
    end
    if (valid_q[12]) begin
      short_q[2] <= shift_down(short_q[1], {2'b0, down_q[1][2:0]});
      exponent_q[12] <= exponent_q[11];
    end
  end

  // ---- 14: rounded and put together ------------------------------------------------------------
  // The significand's top bit adds one to the exponent field, as does a carry into it.
  wire up_14 = short_q[2][1] && (short_q[2][2] || short_q[2][0]);
  wire is_normal = exponent_q[12] > 0;
  wire overflows = exponent_q[12] >= exponent_t'(255);
  wire [7:0] field = is_normal ? exponent_q[12][7:0] - 8'd1 : 8'd0;
  wire [30:0] rounded_14 = {field, 23'b0} + 31'(short_q[2][25:2]) + 31'(up_14);

  always_ff @(posedge clk_i) begin
    if (valid_q[Latency-1]) begin
      if (zero_q[Latency-2]) float_o[30:0] <= '0;
      else if (overflows) float_o[30:0] <= {8'hff, 23'b0};
      else float_o[30:0] <= rounded_14;
      float_o[31] <= negative_q[Latency-2];
    end
  end
  assign valid_o = valid_q[Latency];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      negative_q[0] <= score_i[ScoreBits-1] ^ scale_i[31];
      zero_q[0] <= score_i == '0;
    end
    for (int unsigned i = 1; i < Latency - 1; ++i) begin
      if (valid_q[i]) begin
        negative_q[i] <= negative_q[i-1];
        zero_q[i] <= zero_q[i-1];
      end
    end
  end

endmodule
