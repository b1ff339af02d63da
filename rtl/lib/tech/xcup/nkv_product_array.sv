// nkv_product_array of UltraScale+: pairs of lanes, and what all rows share.

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

  localparam int unsigned LanePairs = ExactLanes / 2;

  logic [3:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  logic [2:0] is_key_q;
  key_t late_left_q[LanePairs];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int unsigned i = 0; i < LanePairs; i++) late_left_q[i] <= left_i[2*i+1];
      is_key_q[0] <= is_key_i;
    end
    if (valid_q[0]) is_key_q[1] <= is_key_q[0];
    if (valid_q[1]) is_key_q[2] <= is_key_q[1];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[2:0], valid_i};
  end

  for (genvar row = 0; row < int'(Rows); row++) begin : gen_row
    for (genvar pair = 0; pair < int'(LanePairs); pair++) begin : gen_pair
      localparam int unsigned First = row * ExactLanes + 2 * pair;

      nkv_product_pair u_pair (
        .clk_i,
        .valid_i       ({valid_q, valid_i}),
        .is_key_i      ({is_key_q, is_key_i}),
        .first_left_i  (left_i[2*pair]),
        .second_left_i (left_i[2*pair+1]),
        .late_left_i   (late_left_q[pair]),
        .first_query_i (query_i[First]),
        .second_query_i(query_i[First+1]),
        .factor_i      (factor_i[row]),
        .first_o       (product_o[First]),
        .second_o      (product_o[First+1])
      );
    end
  end

endmodule
