// Sums pairs of products into exact scores: S = sum of q k, ARITHMETIC.md section 1.5. A word of pairs
// per cycle; the scores of a key are at the output 4 cycles after its last word.

module nkv_score_tree
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_ni,

  input  logic     valid_i,
  input  logic     first_i,  // Word of its key.
  input  logic     last_i,
  input  product_t product_i[Products],  // Each second one: that of its pair, in its upper part.

  output logic     valid_o,
  output score_t   score_o[Rows]
);

  localparam int unsigned Latency = 4;
  // |q| < 2^23 and |k| < 2^26, so a pair of q k has 51 bits.
  localparam int unsigned PairBits = nkv_abi_pkg::QueryBits + nkv_abi_pkg::KeyBits;
  localparam int unsigned EightBits = PairBits + 2;
  localparam int unsigned WordSumBits = PairBits + 4;

  typedef logic signed [EightBits-1:0] eight_t;
  typedef logic signed [WordSumBits-1:0] word_sum_t;

  function automatic eight_t pair_of(product_t product);
    return eight_t'(product >>> QueryPlace);
  endfunction

  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  logic [1:0] first_q;
  logic [2:0] last_q;

  eight_t eight_q[Products/8];
  word_sum_t word_sum_q[Rows];
  score_t sum_q[Rows];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int unsigned i = 0; i < Products / 8; i++) begin
        eight_q[i] <= pair_of(product_i[8*i+1]) + pair_of(product_i[8*i+3]) +
                      pair_of(product_i[8*i+5]) + pair_of(product_i[8*i+7]);
      end
    end
    if (valid_q[0]) begin
      for (int unsigned i = 0; i < Rows; i++) begin
        word_sum_q[i] <= word_sum_t'(eight_q[4*i]) + word_sum_t'(eight_q[4*i+1]) +
                         word_sum_t'(eight_q[4*i+2]) + word_sum_t'(eight_q[4*i+3]);
      end
    end
    if (valid_q[1]) begin
      for (int unsigned i = 0; i < Rows; i++) begin
        sum_q[i] <= (first_q[1] ? '0 : sum_q[i]) + score_t'(word_sum_q[i]);
      end
    end
    if (valid_q[2] && last_q[2]) score_o <= sum_q;
    first_q <= {first_q[0], first_i};
    last_q <= {last_q[1:0], last_i};
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2] && last_q[2], valid_q[Latency-3:0], valid_i};
  end

  assign valid_o = valid_q[Latency-1];

endmodule
