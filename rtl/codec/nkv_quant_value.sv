// The element of an INT8 or INT4 code: zero + code * scale, product and sum in binary32, each rounded
// to nearest even, then rounded to nearest even as bf16; a subnormal result is +0, and what is too
// large is infinite. Subnormal parameters count as zero; |zero| is below 2^126, scale in [0, 2^126].
// One per cycle, ValueLatency later.

module nkv_quant_value
  import nkv_quant_pkg::*;
(
  input  logic        clk_i,
  input  logic [7:0]  code_i,
  input  logic [15:0] zero_i,
  input  logic [15:0] scale_i,
  output logic [15:0] element_o
);

  localparam int unsigned Guarded = 27;  // A significand of binary32, and three bits below it.
  localparam logic [15:0] Infinity = 16'h7F80;

  // A significand in [2^15, 2^16), or zero, times 2^(exponent - 142).
  typedef struct packed {
    logic [8:0]  exponent;
    logic [15:0] significand;
  } number_t;

  // ---- code * scale, which 16 bits hold, and zero beside it ----
  logic [15:0] product_q, counted_q;
  logic [7:0] scale_exponent_q, counted_exponent_q;
  logic [3:0] zeros_q;
  logic [15:0] zero_q[3];
  number_t product;
  wire [7:0] scale_significand = scale_i[14:7] == '0 ? '0 : {1'b1, scale_i[6:0]};
  wire unused_sign = scale_i[15];
  logic [3:0] zeros;

  always_comb begin
    zeros = '0;
    for (int unsigned n = 0; n < 16; n++) if (product_q[n]) zeros = 4'(15 - n);
  end

  number_t added_q;
  always_comb begin
    product.significand = counted_q << zeros_q;
    product.exponent = 9'(counted_exponent_q) + 9'd8 - 9'(zeros_q);
    if (counted_q == '0) product.exponent = '0;
  end

  always_ff @(posedge clk_i) begin
    product_q <= code_i * scale_significand;
    scale_exponent_q <= scale_i[14:7];
    counted_q <= product_q;
    counted_exponent_q <= scale_exponent_q;
    zeros_q <= zeros;
    added_q <= product;
    zero_q[0] <= flushed(zero_i);
    for (int unsigned i = 1; i < 3; i++) zero_q[i] <= zero_q[i-1];
  end

  // ---- The larger, and what is added to it or taken from it ----
  number_t zero, large_q, small_q;
  logic [4:0] overflows_q;       // code * scale; [i]: i cycles after the comparison.
  logic [4:0] negative_q;        // The sum, unless it is zero.
  logic [1:0] subtracts_q;
  wire zero_wins = zero > added_q;
  always_comb begin
    zero.exponent = 9'(zero_q[2][14:7]);
    zero.significand = {zero_q[2][14:7] != '0, zero_q[2][6:0], 8'd0};
  end

  always_ff @(posedge clk_i) begin
    large_q <= zero_wins ? zero : added_q;
    small_q <= zero_wins ? added_q : zero;
    overflows_q <= {overflows_q[3:0], added_q.exponent >= 9'd255};
    negative_q <= {negative_q[3:0], zero_wins && zero_q[2][15]};
    subtracts_q <= {subtracts_q[0], zero_q[2][15]};
  end

  logic [Guarded-1:0] aligned_q;
  number_t base_q;
  wire [8:0] apart = large_q.exponent - small_q.exponent;
  wire [4:0] shift = apart[8:5] == '0 ? apart[4:0] : '1;
  wire [57:0] shifted = {small_q.significand, 42'd0} >> shift;

  always_ff @(posedge clk_i) begin
    base_q <= large_q;
    aligned_q <= {shifted[57:32], shifted[31:0] != '0};
  end

  logic [Guarded:0] sum_q, ranked_q, normal_q;
  logic [8:0] sum_exponent_q, ranked_exponent_q;
  logic [4:0] leading_q;
  logic signed [10:0] exponent_q;
  logic [4:0] leading;
  logic is_zero_q, none_q;
  wire [Guarded:0] base = {1'b0, base_q.significand, 11'd0};

  always_comb begin
    leading = '0;
    for (int unsigned n = 0; n <= Guarded; n++) if (sum_q[n]) leading = 5'(Guarded - n);
  end

  always_ff @(posedge clk_i) begin
    sum_q <= subtracts_q[1] ? base - {1'b0, aligned_q} : base + {1'b0, aligned_q};
    sum_exponent_q <= base_q.exponent;

    ranked_q <= sum_q;
    leading_q <= leading;
    ranked_exponent_q <= sum_exponent_q;
    is_zero_q <= sum_q == '0;

    normal_q <= ranked_q << leading_q;
    exponent_q <= $signed({2'b0, ranked_exponent_q}) + 11'sd1 - $signed({6'd0, leading_q});
    none_q <= is_zero_q;
  end

  // ---- Rounded to 24 bits, and that to 8 ----
  wire [7:0] kept = normal_q[27:20];
  wire carries = normal_q[3] && (normal_q[4] || normal_q[2:0] != '0);
  wire [16:0] rest = {1'b0, normal_q[19:4]} + 17'(carries);
  wire rounds_up = rest > 17'h8000 || (rest == 17'h8000 && kept[0]);
  wire [8:0] rounded = {1'b0, kept} + 9'(rounds_up);
  wire signed [10:0] exponent = exponent_q + 11'(rounded[8]);

  always_ff @(posedge clk_i) begin
    if (overflows_q[4] || (!none_q && exponent > 11'sd254)) element_o <= Infinity;
    else if (none_q || exponent < 11'sd1) element_o <= '0;
    else element_o <= {negative_q[4], exponent[7:0], rounded[6:0]};
  end
  wire unused_leading = rounded[7];

endmodule
