// The multipliers of the exact stage: Rows x ExactLanes products per cycle, 3 cycles later at the
// output. All rows share their lane's left factor.
//
// A product takes two DSP48: the right factor's low 17 bits first, then its high bits, with the
// first product's upper part added on the way (the DSP's own cascade).

module nkv_product_array
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_ni,

  input  logic     valid_i,
  input  key_t     left_i[ExactLanes],
  input  factor_t  right_i[Products],

  output product_t product_o[Products]
);

  import nkv_abi_pkg::KeyBits;

  localparam int unsigned LowBits = 17;
  localparam int unsigned HighBits = FactorBits - LowBits;
  localparam int unsigned HalfBits = KeyBits + HighBits;

  typedef logic signed [LowBits:0] low_t;  // With a sign, 0.
  typedef logic signed [HighBits-1:0] high_t;
  typedef logic signed [HalfBits-1:0] half_t;

  logic [1:0] valid_q;  // [i]: i + 1 cycles after valid_i.

  key_t left_q[ExactLanes];
  high_t high_q[Products];
  half_t low_multiplied_q[Products];
  half_t low_product_q[Products];
  half_t high_multiplied_q[Products];
  half_t sum_q[Products];
  logic [LowBits-1:0] rest_q[Products];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      left_q <= left_i;
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          low_multiplied_q[row*ExactLanes+i] <=
              left_i[i] * low_t'({1'b0, right_i[row*ExactLanes+i][LowBits-1:0]});
          high_q[row*ExactLanes+i] <= high_t'(right_i[row*ExactLanes+i] >>> LowBits);
        end
      end
    end
    if (valid_q[0]) begin
      low_product_q <= low_multiplied_q;
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          high_multiplied_q[row*ExactLanes+i] <= left_q[i] * high_q[row*ExactLanes+i];
        end
      end
    end
    if (valid_q[1]) begin
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          sum_q[row*ExactLanes+i] <= high_multiplied_q[row*ExactLanes+i] +
                                     (low_product_q[row*ExactLanes+i] >>> LowBits);
          rest_q[row*ExactLanes+i] <= low_product_q[row*ExactLanes+i][LowBits-1:0];
        end
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[0], valid_i};
  end

  always_comb begin
    for (int unsigned row = 0; row < Rows; row++) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        product_o[row*ExactLanes+i] = {sum_q[row*ExactLanes+i], rest_q[row*ExactLanes+i]};
      end
    end
  end

endmodule
