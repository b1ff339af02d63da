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

  input  logic        query_start_i,
  input  group_t      query_group_i,
  input  logic        query_burst_valid_i,
  output logic        query_burst_ready_o,
  input  burst_t      query_burst_i,
  output logic        query_done_o,
  output logic        query_bad_o,
  output row_index_t  query_bad_row_o,
  output exponent_t   query_exponent_o[Rows],

  input  logic        values_i,
  input  exponent_t   list_exponent_i,
  input  dim_t        dim_i,
  input  row_form_e   form_i,
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
  output logic        pass_last_o,
  output logic        rows_idle_o,

  output logic        score_valid_o,
  output logic [7:0]  score_tag_o,
  output score_t      score_o[Rows],

  input  logic        clear_i,
  input  logic        swap_i,
  input  logic        raise_valid_i,
  input  logic [5:0]  raise_i[Rows],
  output logic        values_ready_o,
  output logic        values_idle_o,
  output logic        value_valid_o,
  output logic [7:0]  value_tag_o,
  input  weight_t     weight_i[Rows],
  input  shift_t      shift_i[Rows],
  input  units_t      units_i[Rows],
  input  logic        read_valid_i,
  output logic        read_ready_o,
  input  row_index_t  read_row_i,
  input  logic [6:0]  read_channel_i,
  output logic        acc_valid_o,
  output sum_t        acc_o,
  output sum_t        z_o[Rows]
);

  logic query_valid, word_valid, word_last;
  row_index_t query_row;
  word_index_t query_word, word_index;
  query_t query[ExactLanes];
  logic [7:0] word_tag;
  key_t word[ExactLanes];

  nkv_query_decode u_query (
    .clk_i,
    .rst_ni,
    .clear_i      (1'b0),
    .start_i      (query_start_i),
    .dtype_i      (DtypeBf16),
    .group_i      (query_group_i),
    .head_dim_i   (dim_i),
    .burst_valid_i(query_burst_valid_i),
    .burst_ready_o(query_burst_ready_o),
    .burst_i      (query_burst_i),
    .done_o       (query_done_o),
    .bad_o        (query_bad_o),
    .bad_row_o    (query_bad_row_o),
    .exponent_o   (query_exponent_o),
    .query_valid_o(query_valid),
    .query_row_o  (query_row),
    .query_word_o (query_word),
    .query_o      (query)
  );

  nkv_row_decode u_rows (
    .clk_i,
    .rst_ni,
    .clear_i          (1'b0),
    .format_i         ('{values: values_i, list_exponent: list_exponent_i, used_dim: dim_i,
                         stored_dim: dim_i, dtype: DtypeBf16, form: form_i}),
    .exponents_valid_i,
    .exponents_bank_i (1'b0),
    .exponents_burst_i,
    .exponents_i,
    .row_valid_i,
    .row_ready_o,
    .row_tag_i,
    .row_last_i       (1'b0),
    .row_bank_i       (1'b0),
    .row_start_i,
    .row_shared_i,
    .burst_valid_i,
    .burst_ready_o,
    .burst_i,
    .issue_i          (1'b1),
    .again_i          (1'b0),
    .wants_o          (unused_wants),
    .issued_last_o    (unused_issued_last),
    .word_valid_o     (word_valid),
    .word_tag_o       (word_tag),
    .word_index_o     (word_index),
    .word_last_o      (word_last),
    .word_pass_last_o (pass_last_o),
    .word_o           (word),
    .idle_o           (rows_idle_o)
  );

  nkv_exact_stage u_stage (
    .clk_i,
    .rst_ni,
    .query_valid_i       (query_valid),
    .query_row_i         (query_row),
    .query_word_i        (query_word),
    .query_i             (query),
    .word_valid_i        (word_valid),
    .word_is_value_i     (values_i),
    .word_tag_i          (word_tag),
    .word_index_i        (word_index),
    .word_last_i         (word_last),
    .word_i              (word),
    .score_valid_o,
    .score_tag_o,
    .score_o,
    .value_last_word_i   (word_index_t'((dim_i - 1'b1) >> $clog2(ExactLanes))),
    .value_grouped_i     (1'b0),
    .value_ready_o       (values_ready_o),
    .value_idle_o        (values_idle_o),
    .value_clear_i       (clear_i),
    .value_clear_groups_i(1'b0),
    .value_swap_i        (swap_i),
    .value_raise_valid_i (raise_valid_i),
    .value_raise_i       (raise_i),
    .value_word_sum_i    ('0),
    .value_word_subtract_i(1'b0),
    .value_weight_i      (weight_i),
    .value_shift_i       (shift_i),
    .value_units_i       (units_i),
    .value_read_valid_i  (read_valid_i),
    .value_read_ready_o  (read_ready_o),
    .value_read_z_i      (1'b0),
    .value_read_row_i    (read_row_i),
    .value_read_channel_i(read_channel_i),
    .value_read_sum_i    ('0),
    .value_acc_valid_o   (acc_valid_o),
    .value_acc_o         (acc_o),
    .value_z_o           (z_o),
    .value_growing_valid_i(1'b0),
    .value_growing_z_i   (1'b0),
    .value_growing_row_i ('0),
    .value_growing_channel_i('0),
    .value_growing_sum_i ('0)
  );

  assign value_valid_o = word_valid && values_i;
  assign value_tag_o = word_tag;

  logic unused_wants, unused_issued_last;

endmodule
