// nkv_product_array of UltraScale+: two DSP48E2 a product, 27 x 18 bits each: the right factor's low 17
// bits, and its high ones, to which the low product's upper part is added. Outside of them there are only
// registers.
//
// A pair of lanes is added on the way, the second lane a cycle behind the first:
//
//   first lane    low ──► (17 bits further up) high ──┐
//                  │ sums                             │ sums
//   second lane    └─► low ──► (17 bits) high ◄───────┘
//
// Low parts and the second lane's go through the cascade, the others through port C.

module nkv_product_array
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic     clk_i,
  input  logic     rst_ni,

  input  logic     valid_i,
  input  logic     is_key_i,
  input  key_t     left_i[ExactLanes],
  input  query_t   query_i[Products],
  input  factor_t  factor_i[Rows],

  output product_t product_o[Products]
);

  localparam int unsigned LowBits = 17;
  localparam int unsigned HighBits = FactorBits - LowBits;
  localparam int unsigned UpperBits = ProductBits - LowBits;

  typedef logic [LowBits-1:0] low_t;
  typedef logic signed [HighBits-1:0] high_t;
  typedef logic signed [UpperBits-1:0] upper_t;

  logic [3:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  logic [2:0] sums_q;
  key_t late_left_q[ExactLanes/2];  // Second lanes', for their high parts.

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int unsigned i = 0; i < ExactLanes / 2; i++) late_left_q[i] <= left_i[2*i+1];
      sums_q[0] <= is_key_i;
    end
    if (valid_q[0]) sums_q[1] <= sums_q[0];
    if (valid_q[1]) sums_q[2] <= sums_q[1];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[2:0], valid_i};
  end

  for (genvar pair = 0; pair < int'(Products / 2); pair++) begin : gen_pair
    localparam int unsigned Lanes = pair % (ExactLanes / 2);  // Which pair of lanes.
    localparam int unsigned Row = pair / (ExactLanes / 2);

    factor_t first, second;
    assign first = {is_key_i ? query_i[2*pair] : factor_i[Row][FactorBits-1:QueryPlace],
                    factor_i[Row][QueryPlace-1:0]};
    assign second = {is_key_i ? query_i[2*pair+1] : factor_i[Row][FactorBits-1:QueryPlace],
                     factor_i[Row][QueryPlace-1:0]};

    high_t late_high_q;
    logic signed [47:0] first_low, first_high, second_low, second_high;
    logic signed [47:0] cascade, second_cascade, unused_cascade, unused_second_cascade;
    low_t first_rest_q, second_rest_q;
    product_t first_q;

    always_ff @(posedge clk_i) begin
      if (valid_i) late_high_q <= high_t'(second >>> LowBits);
      if (valid_q[2]) first_rest_q <= first_low[LowBits-1:0];
      if (valid_q[3]) begin
        first_q <= {upper_t'(first_high), first_rest_q};
        second_rest_q <= second_low[LowBits-1:0];
      end
    end

    nkv_dsp48 #(
      .InputStages(1)
    ) u_first_low (
      .clk_i,
      .enable_i ({valid_q[1], valid_q[0], valid_i, 1'b0}),
      .left_i   (left_i[2*Lanes]),
      .right_i  ({1'b0, first[LowBits-1:0]}),
      .adds_i   (1'b0),
      .add_i    ('0),
      .cascade_i('0),
      .cascade_o(cascade),
      .sum_o    (first_low)
    );

    nkv_dsp48 u_first_high (
      .clk_i,
      .enable_i ({valid_q[2], valid_q[1], valid_q[0], valid_i}),
      .left_i   (left_i[2*Lanes]),
      .right_i  (first[FactorBits-1:LowBits]),
      .adds_i   (!sums_q[1]),
      .add_i    (first_low >>> LowBits),
      .cascade_i('0),
      .cascade_o(unused_cascade),
      .sum_o    (first_high)
    );

    nkv_dsp48 #(
      .Cascade(1)
    ) u_second_low (
      .clk_i,
      .enable_i ({valid_q[2], valid_q[1], valid_q[0], valid_i}),
      .left_i   (left_i[2*Lanes+1]),
      .right_i  ({1'b0, second[LowBits-1:0]}),
      .adds_i   (sums_q[1]),
      .add_i    ('0),
      .cascade_i(cascade),
      .cascade_o(second_cascade),
      .sum_o    (second_low)
    );

    nkv_dsp48 #(
      .Cascade(2)
    ) u_second_high (
      .clk_i,
      .enable_i ({valid_q[3], valid_q[2], valid_q[1], valid_q[0]}),
      .left_i   (late_left_q[Lanes]),
      .right_i  (late_high_q),
      .adds_i   (sums_q[2]),
      .add_i    (first_high),
      .cascade_i(second_cascade),
      .cascade_o(unused_second_cascade),
      .sum_o    (second_high)
    );

    wire unused = ^{second_low[47:LowBits], second_high[47:UpperBits], unused_cascade, unused_second_cascade};

    assign product_o[2*pair] = first_q;
    assign product_o[2*pair+1] = {upper_t'(second_high), second_rest_q};
  end

endmodule
