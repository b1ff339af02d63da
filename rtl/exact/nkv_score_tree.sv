// Sums products into exact scores: S = sum of q k, ARITHMETIC.md section 1.5. A word of products
// per cycle; the scores of a key are at the output 5 cycles after its last word.

module nkv_score_tree
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_ni,

  input  logic     valid_i,
  input  logic     first_i,  // Word of its key.
  input  logic     last_i,
  input  product_t product_i[Products],

  output logic     valid_o,
  output score_t   score_o[Rows]
);

  localparam int unsigned Latency = 5;
  // |q| < 2^23 and |k| < 2^26, so a product has 50 bits.
  localparam int unsigned UsedBits = nkv_abi_pkg::QueryBits + nkv_abi_pkg::KeyBits - 1;
  localparam int unsigned FourBits = UsedBits + 2;
  localparam int unsigned SixteenBits = UsedBits + 4;
  localparam int unsigned WordSumBits = UsedBits + 5;

  typedef logic signed [FourBits-1:0] four_t;
  typedef logic signed [SixteenBits-1:0] sixteen_t;
  typedef logic signed [WordSumBits-1:0] word_sum_t;

  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  logic [2:0] first_q;
  logic [3:0] last_q;

  four_t four_q[Products/4];
  sixteen_t sixteen_q[Products/16];
  word_sum_t word_sum_q[Rows];
  score_t sum_q[Rows];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int unsigned i = 0; i < Products / 4; i++) begin
        four_q[i] <= four_t'(product_i[4*i]) + four_t'(product_i[4*i+1]) +
                     four_t'(product_i[4*i+2]) + four_t'(product_i[4*i+3]);
      end
    end
    if (valid_q[0]) begin
      for (int unsigned i = 0; i < Products / 16; i++) begin
        sixteen_q[i] <= sixteen_t'(four_q[4*i]) + sixteen_t'(four_q[4*i+1]) +
                        sixteen_t'(four_q[4*i+2]) + sixteen_t'(four_q[4*i+3]);
      end
    end
    if (valid_q[1]) begin
      for (int unsigned i = 0; i < Rows; i++) begin
        word_sum_q[i] <= word_sum_t'(sixteen_q[2*i]) + word_sum_t'(sixteen_q[2*i+1]);
      end
    end
    if (valid_q[2]) begin
      for (int unsigned i = 0; i < Rows; i++) begin
        sum_q[i] <= (first_q[2] ? '0 : sum_q[i]) + score_t'(word_sum_q[i]);
      end
    end
    if (valid_q[3] && last_q[3]) score_o <= sum_q;
    first_q <= {first_q[1:0], first_i};
    last_q <= {last_q[2:0], last_i};
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2] && last_q[3], valid_q[Latency-3:0], valid_i};
  end

  assign valid_o = valid_q[Latency-1];

endmodule
