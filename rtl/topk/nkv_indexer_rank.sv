// R of a token of TOPK INDEXER from its scores (ARITHMETIC.md section 6): the rows' weighted sum, which
// is made of four rows a cycle, times the key scale, as exponent and fraction. A token every two cycles,
// 15 cycles to its R, no back-pressure.

module nkv_indexer_rank
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_indexer_pkg::*;
#(
  parameter int unsigned TagBits = 1
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  indexer_weight_t    weight_i[Rows],  // Held while tokens are inside.

  input  logic               valid_i,         // Not in the cycle after one.
  input  logic [TagBits-1:0] tag_i,
  input  score_t             score_i[Rows],
  input  logic [31:0]        scale_i,         // κ as binary32, finite.

  output logic               valid_o,
  output logic [TagBits-1:0] tag_o,
  output score_t             rank_o           // R
);

  localparam int unsigned Lanes = Rows / 2;
  localparam int unsigned DroppedScoreBits = 23;
  localparam int unsigned DroppedProductBits = 7;
  localparam int unsigned TermBits = ScoreBits - 1 - DroppedScoreBits;
  localparam int unsigned WeightedBits = TermBits + WeightBits;
  localparam int unsigned KeptBits = WeightedBits - DroppedProductBits;
  localparam int unsigned SumBits = KeptBits + $clog2(Rows);
  localparam int unsigned SumLatency = 6;     // From a token to its |A|.
  localparam int unsigned TopLatency = 5;
  localparam int unsigned ScaleAt = SumLatency + TopLatency;
  localparam int unsigned ScaledBits = 32 + ScaleBits;
  localparam int unsigned Latency = ScaleAt + 4;
  typedef logic signed [WeightedBits-1:0] product_t;
  typedef logic signed [SumBits-1:0] sum_t;

  typedef struct packed {
    logic [TagBits-1:0] tag;
    logic [31:0]        scale;
  } side_t;

  // ---- The weighted sum: rows 0 to 3, then 4 to 7 ----
  logic [Latency:1] valid_q;                  // [i]: i cycles after a token.
  score_t           later_q[Lanes];
  logic [TermBits-1:0] term_q[Lanes];
  indexer_weight_t  weight_q[Lanes];
  product_t         multiplied_q[Lanes], product_q[Lanes];
  sum_t             pair_q[Lanes/2], first_q, sum_q;
  logic             second_half_q;

  function automatic logic [TermBits-1:0] term_of(score_t score);
    return score[ScoreBits-1] ? '0 : score[ScoreBits-2:DroppedScoreBits];
  endfunction

  always_ff @(posedge clk_i) begin
    second_half_q <= valid_i;
    for (int unsigned i = 0; i < Lanes; i++) begin
      if (valid_i) begin
        later_q[i] <= score_i[Lanes+i];
        term_q[i] <= term_of(score_i[i]);
        weight_q[i] <= weight_i[i];
      end else if (second_half_q) begin
        term_q[i] <= term_of(later_q[i]);
        weight_q[i] <= weight_i[Lanes+i];
      end
      if (valid_q[1] || valid_q[2]) begin
        multiplied_q[i] <= product_t'(signed'({1'b0, term_q[i]})) * product_t'(weight_q[i]);
      end
      if (valid_q[2] || valid_q[3]) product_q[i] <= multiplied_q[i];
    end
    if (valid_q[3] || valid_q[4]) begin
      for (int unsigned i = 0; i < Lanes / 2; i++) begin
        pair_q[i] <= sum_t'(product_q[2*i] >>> DroppedProductBits) +
                     sum_t'(product_q[2*i+1] >>> DroppedProductBits);
      end
    end
    if (valid_q[4]) first_q <= pair_q[0] + pair_q[1];
    if (valid_q[5]) sum_q <= first_q + pair_q[0] + pair_q[1];
  end

  // ---- Its leading bits ----
  logic [31:0] top;
  logic [6:0]  bits;
  wire  sum_negative = sum_q[SumBits-1];
  wire  [SumBits-1:0] magnitude = sum_negative ? SumBits'(-sum_q) : SumBits'(sum_q);

  nkv_top_bits u_top (
    .clk_i,
    .rst_ni,
    .valid_i (valid_q[SumLatency]),
    .number_i(64'(magnitude)),
    .top_o   (top),
    .bits_o  (bits)
  );

  // ---- Times the key scale ----
  side_t side_in, side;
  assign side_in = '{tag: tag_i, scale: scale_i};
  nkv_delay #(
    .Width ($bits(side_t)),
    .Cycles(ScaleAt)
  ) u_side (
    .clk_i,
    .data_i(side_in),
    .data_o(side)
  );
  logic negative_at_top;
  nkv_delay #(
    .Width (1),
    .Cycles(TopLatency)
  ) u_sign (
    .clk_i,
    .data_i(sum_negative),
    .data_o(negative_at_top)
  );

  typedef struct packed {
    logic [TagBits-1:0] tag;
    logic               negative;
    logic               zero;
    logic [9:0]         exponent;             // Of a product of 55 bits.
  } scaled_t;
  wire scaled_t scaled = '{
      tag: side.tag,
      negative: negative_at_top != side.scale[31],
      zero: bits == '0 || side.scale[30:23] == '0,
      exponent: 10'(bits) + 10'(side.scale[30:23])
  };
  scaled_t scaled_q[4];
  logic [ScaledBits-1:0] scaled_multiplied_q, scaled_product_q;
  logic [9:0]  exponent_q;
  logic [FractionBits-1:0] fraction_q;
  wire  long_product = scaled_product_q[ScaledBits-1];
  score_t positive;
  assign positive = scaled_q[2].zero ? '0 : score_t'({exponent_q, fraction_q});

  always_ff @(posedge clk_i) begin
    scaled_q[0] <= scaled;
    for (int unsigned i = 1; i < 4; i++) scaled_q[i] <= scaled_q[i-1];
    if (valid_q[ScaleAt]) begin
      scaled_multiplied_q <= top * {1'b1, side.scale[22:0]};
    end
    if (valid_q[ScaleAt+1]) scaled_product_q <= scaled_multiplied_q;
    if (valid_q[ScaleAt+2]) begin
      exponent_q <= scaled_q[1].exponent + 10'(long_product);
      fraction_q <= long_product ? scaled_product_q[ScaledBits-1-:FractionBits]
                                 : scaled_product_q[ScaledBits-2-:FractionBits];
    end
    if (valid_q[ScaleAt+3]) rank_o <= scaled_q[2].negative ? -positive : positive;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-1:1], valid_i};
  end
  assign valid_o = valid_q[Latency];
  assign tag_o = scaled_q[3].tag;

  wire unused = ^scaled_q[3];

endmodule
