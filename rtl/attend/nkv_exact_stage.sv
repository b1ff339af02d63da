// The exact stage: scores of keys (ARITHMETIC.md section 1.5) and softmax sums of values (section
// 4), with one array of multipliers for both. Takes a word of a key or of a value per cycle, mixed
// as they come.
//
// Scores of a key are at the output 10 cycles after its last word. Values are taken only with
// value_ready_o; see nkv_value_sum, which has all ports whose names begin with value_.

module nkv_exact_stage
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  parameter int unsigned TagBits = 8,
  localparam int unsigned ChannelBits = $clog2(Channels)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  // q; not while keys are on their way.
  input  logic                   query_valid_i,
  input  row_index_t             query_row_i,
  input  word_index_t            query_word_i,
  input  query_t                 query_i[ExactLanes],

  // Words of keys and values, each token's from 0 on.
  input  logic                   word_valid_i,
  input  logic                   word_is_value_i,
  input  logic [TagBits-1:0]     word_tag_i,        // Comes out with a key's scores.
  input  word_index_t            word_index_i,
  input  logic                   word_last_i,
  input  key_t                   word_i[ExactLanes],

  output logic                   score_valid_o,
  output logic [TagBits-1:0]     score_tag_o,
  output score_t                 score_o[Rows],

  input  word_index_t            value_last_word_i,
  output logic                   value_ready_o,
  output logic                   value_idle_o,
  input  logic                   value_clear_i,
  input  logic                   value_swap_i,
  input  logic                   value_raise_valid_i,
  input  logic [5:0]             value_raise_i[Rows],
  input  weight_t                value_weight_i[Rows],
  input  shift_t                 value_shift_i[Rows],
  input  units_t                 value_units_i[Rows],
  input  logic                   value_read_valid_i,
  output logic                   value_read_ready_o,
  input  row_index_t             value_read_row_i,
  input  logic [ChannelBits-1:0] value_read_channel_i,
  output logic                   value_acc_valid_o,
  output sum_t                   value_acc_o,
  output sum_t                   value_z_o[Rows]
);

  localparam int unsigned ProductLatency = 6;
  localparam int unsigned ScoreLatency = 10;

  typedef struct packed {
    logic is_key;
    logic first;
    logic last;
  } side_t;

  logic [ProductLatency-1:0] valid_q;  // [i]: i + 1 cycles after a word came.
  side_t side_q[ProductLatency];
  key_t word_q[ExactLanes];
  query_t query[Products];
  factor_t value_factor[Rows];
  product_t product[Products];

  nkv_query_store u_query_store (
    .clk_i,
    .write_i    (query_valid_i),
    .row_i      (query_row_i),
    .word_i     (query_word_i),
    .query_i,
    .read_i     (word_valid_i && !word_is_value_i),
    .read_word_i(word_index_i),
    .query_o    (query)
  );

  always_ff @(posedge clk_i) begin
    if (word_valid_i) begin
      word_q <= word_i;
      side_q[0] <= '{is_key: !word_is_value_i, first: word_index_i == '0, last: word_last_i};
    end
    for (int unsigned i = 1; i < ProductLatency; i++) if (valid_q[i-1]) side_q[i] <= side_q[i-1];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[ProductLatency-2:0], word_valid_i};
  end

  nkv_product_array u_products (
    .clk_i,
    .rst_ni,
    .valid_i  (valid_q[0]),
    .is_key_i (side_q[0].is_key),
    .left_i   (word_q),
    .query_i  (query),
    .factor_i (value_factor),
    .product_o(product)
  );

  nkv_score_tree u_scores (
    .clk_i,
    .rst_ni,
    .valid_i  (valid_q[ProductLatency-1] && side_q[ProductLatency-1].is_key),
    .first_i  (side_q[ProductLatency-1].first),
    .last_i   (side_q[ProductLatency-1].last),
    .product_i(product),
    .valid_o  (score_valid_o),
    .score_o
  );

  nkv_delay #(
    .Width (TagBits),
    .Cycles(ScoreLatency)
  ) u_tag (
    .clk_i,
    .data_i(word_tag_i),
    .data_o(score_tag_o)
  );

  nkv_value_sum u_values (
    .clk_i,
    .rst_ni,
    .last_word_i   (value_last_word_i),
    .ready_o       (value_ready_o),
    .idle_o        (value_idle_o),
    .clear_i       (value_clear_i),
    .swap_i        (value_swap_i),
    .raise_valid_i (value_raise_valid_i),
    .raise_i       (value_raise_i),
    .key_valid_i   (word_valid_i && !word_is_value_i),
    .word_valid_i  (word_valid_i && word_is_value_i),
    .word_index_i,
    .weight_i      (value_weight_i),
    .shift_i       (value_shift_i),
    .units_i       (value_units_i),
    .factor_o      (value_factor),
    .product_i     (product),
    .read_valid_i  (value_read_valid_i),
    .read_ready_o  (value_read_ready_o),
    .read_row_i    (value_read_row_i),
    .read_channel_i(value_read_channel_i),
    .acc_valid_o   (value_acc_valid_o),
    .acc_o         (value_acc_o),
    .z_o           (value_z_o)
  );

endmodule
