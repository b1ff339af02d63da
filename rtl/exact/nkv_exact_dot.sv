// Exact scores of a key against Rows query rows: S = sum of q k, ARITHMETIC.md section 1.5.
//
// Keeps q, which is written word by word. Takes a word of k per cycle; the scores of a key are at
// the output 9 cycles after its last word. A key's words come in order, from 0.

module nkv_exact_dot
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  parameter int unsigned TagBits = 8
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  logic               query_valid_i,  // Not while keys are on their way.
  input  row_index_t         query_row_i,
  input  word_index_t        query_word_i,
  input  query_t             query_i[ExactLanes],

  input  logic               word_valid_i,
  input  logic [TagBits-1:0] word_tag_i,     // Comes out with the last word's scores.
  input  word_index_t        word_index_i,
  input  logic               word_last_i,
  input  key_t               word_i[ExactLanes],

  output logic               score_valid_o,
  output logic [TagBits-1:0] score_tag_o,
  output score_t             score_o[Rows]
);

  import nkv_abi_pkg::QueryBits;
  import nkv_abi_pkg::KeyBits;

  localparam int unsigned Products = Rows * ExactLanes;
  localparam int unsigned Latency = 9;
  localparam int unsigned ProductBits = QueryBits + KeyBits;
  // Four products, sixteen, a word.
  localparam int unsigned FourBits = ProductBits + 2;
  localparam int unsigned SixteenBits = ProductBits + 4;
  localparam int unsigned WordSumBits = ProductBits + 5;

  typedef logic signed [ProductBits-1:0] product_t;
  typedef logic signed [FourBits-1:0] four_t;
  typedef logic signed [SixteenBits-1:0] sixteen_t;
  typedef logic signed [WordSumBits-1:0] word_sum_t;

  typedef struct packed {
    logic [TagBits-1:0] tag;
    logic               first;
    logic               last;
  } side_t;

  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after the word came.
  side_t side_q[Latency];

  // [row * ExactLanes + lane]
  query_t read_q[Products];
  key_t key_q[ExactLanes];
  query_t left_q[Products];
  key_t right_q[ExactLanes];
  product_t multiplied_q[Products];
  product_t product_q[Products];
  four_t four_q[Products/4];
  sixteen_t sixteen_q[Products/16];
  word_sum_t word_sum_q[Rows];
  score_t sum_q[Rows];

  for (genvar row = 0; row < Rows; row++) begin : gen_row
    for (genvar lane = 0; lane < ExactLanes; lane++) begin : gen_lane
      query_t cells[RowWords];
      always_ff @(posedge clk_i) begin
        if (query_valid_i && query_row_i == row_index_t'(row)) cells[query_word_i] <= query_i[lane];
        if (word_valid_i) read_q[row*ExactLanes+lane] <= cells[word_index_i];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (word_valid_i) key_q <= word_i;
    if (valid_q[0]) begin
      left_q <= read_q;
      right_q <= key_q;
    end
    if (valid_q[1]) begin
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          multiplied_q[row*ExactLanes+i] <= left_q[row*ExactLanes+i] * right_q[i];
        end
      end
    end
    // The multipliers' own output registers.
    if (valid_q[2]) product_q <= multiplied_q;
    if (valid_q[3]) begin
      for (int unsigned i = 0; i < Products / 4; i++) begin
        four_q[i] <= four_t'(product_q[4*i]) + four_t'(product_q[4*i+1]) +
                     four_t'(product_q[4*i+2]) + four_t'(product_q[4*i+3]);
      end
    end
    if (valid_q[4]) begin
      for (int unsigned i = 0; i < Products / 16; i++) begin
        sixteen_q[i] <= sixteen_t'(four_q[4*i]) + sixteen_t'(four_q[4*i+1]) +
                        sixteen_t'(four_q[4*i+2]) + sixteen_t'(four_q[4*i+3]);
      end
    end
    if (valid_q[5]) begin
      for (int unsigned i = 0; i < Rows; i++) begin
        word_sum_q[i] <= word_sum_t'(sixteen_q[2*i]) + word_sum_t'(sixteen_q[2*i+1]);
      end
    end
    if (valid_q[6]) begin
      for (int unsigned i = 0; i < Rows; i++) begin
        sum_q[i] <= (side_q[6].first ? '0 : sum_q[i]) + score_t'(word_sum_q[i]);
      end
    end
    if (valid_q[7] && side_q[7].last) score_o <= sum_q;
  end

  always_ff @(posedge clk_i) begin
    if (word_valid_i) begin
      side_q[0] <= '{tag: word_tag_i, first: word_index_i == '0, last: word_last_i};
    end
    for (int unsigned i = 1; i < Latency; i++) if (valid_q[i-1]) side_q[i] <= side_q[i-1];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], word_valid_i};
  end

  assign score_valid_o = valid_q[Latency-1] && side_q[Latency-1].last;
  assign score_tag_o = side_q[Latency-1].tag;

endmodule
