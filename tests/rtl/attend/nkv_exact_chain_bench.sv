// Queries and stored rows from bytes to scores and sums: the decoders and the exact stage as an
// engine wires them. Weights are those of the token whose tag stands at value_tag_o.
module nkv_exact_chain_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        start_i,             // A query.
  input  group_t      group_i,
  input  logic        query_burst_valid_i,
  output logic        query_burst_ready_o,
  input  burst_t      query_burst_i,
  output logic        done_o,
  output logic        bad_o,
  output row_index_t  bad_row_o,
  output exponent_t   exponent_o[Rows],

  input  row_format_t format_i,            // Of rows; its dims are the query's too.
  input  logic        exponents_valid_i,
  input  logic        exponents_burst_i,
  input  burst_t      exponents_i,
  input  logic        row_valid_i,
  output logic        row_ready_o,
  input  logic [7:0]  row_tag_i,
  input  logic [2:0]  row_start_i,
  input  logic        row_shared_i,
  input  logic        burst_valid_i,
  output logic        burst_ready_o,
  input  burst_t      burst_i,
  output logic        word_pass_last_o,
  output logic        idle_o,

  output logic        score_valid_o,
  output logic [7:0]  score_tag_o,
  output score_t      score_o[Rows],

  input  logic        value_clear_i,
  input  logic        value_swap_i,
  input  logic        value_raise_valid_i,
  input  logic [5:0]  value_raise_i[Rows],
  output logic        value_ready_o,
  output logic        value_idle_o,
  output logic        value_valid_o,
  output logic [7:0]  value_tag_o,
  input  weight_t     value_weight_i[Rows],
  input  shift_t      value_shift_i[Rows],
  input  units_t      value_units_i[Rows],
  input  logic        value_read_valid_i,
  output logic        value_read_ready_o,
  input  row_index_t  value_read_row_i,
  input  logic [6:0]  value_read_channel_i,
  output logic        value_acc_valid_o,
  output sum_t        value_acc_o,
  output sum_t        value_z_o[Rows]
);

  logic query_valid, word_valid, word_last, unused_wants, unused_issued_last;
  row_index_t query_row;
  word_index_t query_word, word_index;
  query_t query[ExactLanes];
  logic [7:0] word_tag;
  key_t word[ExactLanes];

  nkv_query_decode u_query (
    .clear_i      (1'b0),
    .dtype_i      (format_i.dtype),
    .head_dim_i   (format_i.used_dim),
    .burst_valid_i(query_burst_valid_i),
    .burst_ready_o(query_burst_ready_o),
    .burst_i      (query_burst_i),
    .query_valid_o(query_valid),
    .query_row_o  (query_row),
    .query_word_o (query_word),
    .query_o      (query),
    .*
  );

  nkv_row_decode u_rows (
    .clear_i         (1'b0),
    .exponents_bank_i(1'b0),
    .row_last_i      (1'b0),
    .row_bank_i      (1'b0),
    .issue_i         (1'b1),
    .wants_o         (unused_wants),
    .issued_last_o   (unused_issued_last),
    .word_valid_o    (word_valid),
    .word_tag_o      (word_tag),
    .word_index_o    (word_index),
    .word_last_o     (word_last),
    .word_o          (word),
    .*
  );

  nkv_exact_stage u_stage (
    .query_valid_i    (query_valid),
    .query_row_i      (query_row),
    .query_word_i     (query_word),
    .query_i          (query),
    .word_valid_i     (word_valid),
    .word_is_value_i  (format_i.values),
    .word_tag_i       (word_tag),
    .word_index_i     (word_index),
    .word_last_i      (word_last),
    .word_i           (word),
    .value_last_word_i(word_index_t'((format_i.used_dim - 1'b1) >> $clog2(ExactLanes))),
    .*
  );

  assign value_valid_o = word_valid && format_i.values;
  assign value_tag_o = word_tag;

endmodule
