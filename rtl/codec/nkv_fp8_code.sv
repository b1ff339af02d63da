// A finite element's FP8 code, E4M3FN, rounded to nearest even, with the scale of its group, which
// keeps the code finite. Subnormal elements count as zero. A code per cycle, two cycles later.

module nkv_fp8_code (
  input  logic        clk_i,
  input  logic [15:0] element_i,
  input  logic [7:0]  scale_i,  // x + 135
  output logic [7:0]  code_o
);

  // The code's exponent field; below 1 the code is subnormal.
  logic signed [9:0] field_q;
  logic [6:0] fraction_q;
  logic negative_q, is_zero_q;

  always_ff @(posedge clk_i) begin
    field_q <= $signed({2'b0, element_i[14:7]}) - $signed({2'b0, scale_i}) + 10'sd15;
    fraction_q <= element_i[6:0];
    negative_q <= element_i[15];
    is_zero_q <= element_i[14:7] == '0;
  end

  wire [10:0] wide = {field_q[3:0], fraction_q};
  wire [10:0] normal = (wide + 11'd7 + 11'(wide[4])) >> 4;
  wire unused_high = ^normal[10:7];

  // Units of 2^-9 of 1.fraction * 2^(field - 7), and 8 bits below them.
  wire [1:0] below = 2'(-field_q);
  wire [10:0] units = {1'b1, fraction_q, 3'd0} >> below;
  wire [3:0] subnormal = {1'b0, units[10:8]} + 4'(units[7] && (units[8] || units[6:0] != '0));
  wire vanishes = is_zero_q || field_q < -10'sd3;

  always_ff @(posedge clk_i) begin
    code_o <= {negative_q, vanishes ? 7'd0 : field_q > 0 ? normal[6:0] : {3'd0, subnormal}};
  end

endmodule
