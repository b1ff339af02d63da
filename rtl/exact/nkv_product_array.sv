// The multipliers of the exact stage: a word of a key by q, or of a value by each row's factor, Rows x
// ExactLanes products in all, 5 cycles later at the output. A key's products are added in pairs of lanes:
// the sum is in the second one's place, and in the upper part of that, as q is in its factor's; in the
// first one's is noise.
//
// Generic: registers follow the multiplication, for synthesis to move into it. A technology puts its own
// in this file's place, as rtl/lib/tech/xcup/ does: two DSP48 a product, which add pairs as well.

module nkv_product_array
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_ni,

  input  logic     valid_i,
  input  logic     is_key_i,
  input  key_t     left_i[ExactLanes],
  input  query_t   query_i[Products],  // For a key,
  input  factor_t  factor_i[Rows],     // and for a value; beside a key it ends in zeros.

  output product_t product_o[Products]
);

  localparam int unsigned Latency = 5;

  logic [Latency-2:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  logic [Latency-2:0] is_key_q;

  key_t left_q[ExactLanes];
  factor_t right_q[Products];
  product_t multiplied_q[Products];
  product_t low_q[Products];
  product_t high_q[Products];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      left_q <= left_i;
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          right_q[row*ExactLanes+i] <= {
              is_key_i ? query_i[row*ExactLanes+i] : factor_i[row][FactorBits-1:QueryPlace],
              factor_i[row][QueryPlace-1:0]};
        end
      end
      is_key_q[0] <= is_key_i;
    end
    for (int unsigned i = 1; i < Latency - 1; i++) if (valid_q[i-1]) is_key_q[i] <= is_key_q[i-1];
    if (valid_q[0]) begin
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          multiplied_q[row*ExactLanes+i] <= left_q[i] * right_q[row*ExactLanes+i];
        end
      end
    end
    if (valid_q[1]) low_q <= multiplied_q;
    if (valid_q[2]) high_q <= low_q;
    if (valid_q[3]) begin
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = row * ExactLanes; i < (row + 1) * ExactLanes; i += 2) begin
          product_o[i] <= high_q[i];
          product_o[i+1] <= high_q[i+1] + (is_key_q[3] ? high_q[i] : '0);
        end
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-3:0], valid_i};
  end

endmodule
