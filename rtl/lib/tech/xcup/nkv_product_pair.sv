// Two lanes' products for nkv_product_array on UltraScale+: two DSP48E2 a product, 27 x 18 bits each, for
// the right factor's low 17 bits and its high ones, to which the low product's upper part is added. Outside
// of them there are only registers, and the choice between q and a value's factor.
//
// A key's products are added on the way, the second lane a cycle behind the first:
//
//   first lane    low ──► (17 bits further up) high ──┐
//                  │ key                              │ key
//   second lane    └─► low ──► (17 bits) high ◄───────┘
//
// The second lane's parts come through the cascade, the others through port C.

module nkv_product_pair
  import nkv_exact_pkg::*;
(
  input  logic       clk_i,

  input  logic [4:0] valid_i,         // [i]: i cycles after a word came,
  input  logic [3:0] is_key_i,        // and what it is.
  input  key_t       first_left_i,
  input  key_t       second_left_i,
  input  key_t       late_left_i,     // The second, a cycle later.
  input  query_t     first_query_i,
  input  query_t     second_query_i,
  input  factor_t    factor_i,

  output product_t   first_o,
  output product_t   second_o
);

  localparam int unsigned LowBits = 17;
  localparam int unsigned HighBits = FactorBits - LowBits;
  localparam int unsigned UpperBits = ProductBits - LowBits;

  typedef logic [LowBits-1:0] low_t;
  typedef logic signed [HighBits-1:0] high_t;
  typedef logic signed [UpperBits-1:0] upper_t;

  factor_t first, second;
  always_comb begin
    first = factor_i;
    second = factor_i;
    if (is_key_i[0]) begin
      first[FactorBits-1:QueryPlace] = first_query_i;
      second[FactorBits-1:QueryPlace] = second_query_i;
    end
  end

  high_t late_high_q;
  logic signed [47:0] first_low, first_high, second_low, second_high;
  logic signed [47:0] cascade, second_cascade, unused_cascade, unused_second_cascade;
  low_t first_rest_q, second_rest_q;
  product_t first_q;

  always_ff @(posedge clk_i) begin
    if (valid_i[0]) late_high_q <= high_t'(second >>> LowBits);
    if (valid_i[3]) first_rest_q <= first_low[LowBits-1:0];
    if (valid_i[4]) begin
      first_q <= {upper_t'(first_high), first_rest_q};
      second_rest_q <= second_low[LowBits-1:0];
    end
  end

  nkv_dsp48 #(
    .InputStages(1)
  ) u_first_low (
    .clk_i,
    .enable_i ({valid_i[2], valid_i[1], valid_i[0], 1'b0}),
    .left_i   (first_left_i),
    .right_i  ({1'b0, first[LowBits-1:0]}),
    .adds_i   (1'b0),
    .add_i    ('0),
    .cascade_i('0),
    .cascade_o(cascade),
    .sum_o    (first_low)
  );

  nkv_dsp48 u_first_high (
    .clk_i,
    .enable_i ({valid_i[3], valid_i[2], valid_i[1], valid_i[0]}),
    .left_i   (first_left_i),
    .right_i  (first[FactorBits-1:LowBits]),
    .adds_i   (!is_key_i[2]),
    .add_i    (first_low >>> LowBits),
    .cascade_i('0),
    .cascade_o(unused_cascade),
    .sum_o    (first_high)
  );

  nkv_dsp48 #(
    .Cascade(1)
  ) u_second_low (
    .clk_i,
    .enable_i ({valid_i[3], valid_i[2], valid_i[1], valid_i[0]}),
    .left_i   (second_left_i),
    .right_i  ({1'b0, second[LowBits-1:0]}),
    .adds_i   (is_key_i[2]),
    .add_i    ('0),
    .cascade_i(cascade),
    .cascade_o(second_cascade),
    .sum_o    (second_low)
  );

  nkv_dsp48 #(
    .Cascade(2)
  ) u_second_high (
    .clk_i,
    .enable_i ({valid_i[4], valid_i[3], valid_i[2], valid_i[1]}),
    .left_i   (late_left_i),
    .right_i  (late_high_q),
    .adds_i   (is_key_i[3]),
    .add_i    (first_high),
    .cascade_i(second_cascade),
    .cascade_o(unused_second_cascade),
    .sum_o    (second_high)
  );

  wire unused = ^{is_key_i[1], second_low[47:LowBits], second_high[47:UpperBits], unused_cascade,
                  unused_second_cascade};

  assign first_o = first_q;
  assign second_o = {upper_t'(second_high), second_rest_q};

endmodule
