// The element of an FP8 code, E4M3FN: code * 2^x, exactly; below 2^-126 a zero of its sign, and at
// the most the greatest finite bf16 number. One per cycle, two cycles later.

module nkv_fp8_value (
  input  logic        clk_i,
  input  logic [7:0]  code_i,
  input  logic [7:0]  scale_i,    // x + 135
  output logic [15:0] element_o,
  output logic        is_nan_o    // The code is NaN; the element means nothing.
);

  localparam logic [14:0] GreatestFinite = 15'h7F7F;

  logic signed [9:0] exponent_q;
  logic [2:0] fraction_q;
  logic negative_q, is_zero_q, is_nan_q;

  logic [7:0] exponent;           // Of bf16, before scaling.
  logic [2:0] fraction;
  always_comb begin
    fraction = code_i[2:0];
    if (code_i[6:3] != '0) exponent = 8'd120 + 8'(code_i[6:3]);
    else if (code_i[2]) {exponent, fraction} = {8'd120, code_i[1:0], 1'd0};
    else if (code_i[1]) {exponent, fraction} = {8'd119, code_i[0], 2'd0};
    else {exponent, fraction} = {8'd118, 3'd0};
  end

  always_ff @(posedge clk_i) begin
    exponent_q <= $signed({2'b0, exponent}) + $signed({2'b0, scale_i}) - 10'sd135;
    fraction_q <= fraction;
    negative_q <= code_i[7];
    is_zero_q <= code_i[6:0] == '0;
    is_nan_q <= code_i[6:0] == '1;
  end

  always_ff @(posedge clk_i) begin
    element_o[15] <= negative_q;
    if (is_zero_q || exponent_q < 10'sd1) element_o[14:0] <= '0;
    else if (exponent_q > 10'sd254) element_o[14:0] <= GreatestFinite;
    else element_o[14:0] <= {exponent_q[7:0], fraction_q, 4'd0};
    is_nan_o <= is_nan_q;
  end

endmodule
