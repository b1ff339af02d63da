// BOUNDED's sums from entries to results: nkv_exact_stage with nkv_sample_measure where sums grow, and
// nkv_attend_result where they were set aside.
module nkv_sampled_sums_bench
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,

  input  group_t         rows_i,
  input  dim_t           value_dim_i,
  input  logic [7:0]     sixteenths_i,
  input  logic [31:0]    error_i,
  input  exponent_t      value_exponent_i,
  input  reference_t     reference_i[Rows],

  output logic           value_ready_o,
  output logic           value_idle_o,
  input  logic           value_clear_i,
  input  logic           value_clear_groups_i,
  input  logic           value_raise_valid_i,
  input  logic [5:0]     value_raise_i[Rows],
  input  logic           word_valid_i,
  input  word_index_t    word_index_i,
  input  sample_group_t  value_word_sum_i,
  input  logic           value_word_subtract_i,
  input  key_t           word_i[ExactLanes],
  input  weight_t        value_weight_i[Rows],
  input  shift_t         value_shift_i[Rows],
  input  units_t         value_units_i[Rows],

  input  logic           measure_i,
  output logic           measured_o,
  output logic           all_within_o,
  output logic           known_o[Rows],
  output log_t           log_bound_o[Rows],

  input  logic           finish_i,
  output logic           busy_o,
  output logic           write_valid_o,
  output write_request_t write_o
);

  localparam int unsigned ChannelBits = $clog2(Channels);
  logic score_valid, growing, growing_z, aside, aside_ready, aside_z, acc_valid;
  logic [7:0] score_tag;
  score_t score[Rows];
  row_index_t growing_row, aside_row;
  logic [ChannelBits-1:0] growing_channel, aside_channel;
  sample_group_t growing_sum, aside_sum;
  sum_t acc, z[Rows];
  logic [31:0] bound[Rows];
  log_t log_error;

  nkv_exact_stage u_stage (
    .query_valid_i        (1'b0),
    .query_row_i          ('0),
    .query_word_i         ('0),
    .query_i              ('{default: '0}),
    .word_is_value_i      (1'b1),
    .word_tag_i           ('0),
    .word_last_i          (1'b0),
    .score_valid_o        (score_valid),
    .score_tag_o          (score_tag),
    .score_o              (score),
    .value_last_word_i    (word_index_t'((value_dim_i - 1'b1) >> $clog2(ExactLanes))),
    .value_grouped_i      (1'b1),
    .value_swap_i         (finish_i),
    .value_read_valid_i   (aside),
    .value_read_ready_o   (aside_ready),
    .value_read_z_i       (aside_z),
    .value_read_row_i     (aside_row),
    .value_read_channel_i (aside_channel),
    .value_read_sum_i     (aside_sum),
    .value_acc_valid_o    (acc_valid),
    .value_acc_o          (acc),
    .value_z_o            (z),
    .value_growing_valid_i(growing),
    .value_growing_z_i    (growing_z),
    .value_growing_row_i  (growing_row),
    .value_growing_channel_i(growing_channel),
    .value_growing_sum_i  (growing_sum),
    .*
  );

  nkv_sample_measure u_measure (
    .clear_i       (1'b0),
    .start_i       (measure_i),
    .read_valid_o  (growing),
    .read_z_o      (growing_z),
    .read_row_o    (growing_row),
    .read_channel_o(growing_channel),
    .read_sum_o    (growing_sum),
    .acc_i         (acc),
    .done_o        (measured_o),
    .bound_o       (bound),
    .log_error_o   (log_error),
    .*
  );

  nkv_attend_result u_result (
    .clear_i       (1'b0),
    .start_i       (finish_i),
    .address_i     ('0),
    .bf16_i        (1'b0),
    .base2_i       (1'b0),
    .grouped_i     (1'b1),
    .bound_i       (bound),
    .z_i           (z),
    .read_valid_o  (aside),
    .read_ready_i  (aside_ready),
    .read_z_o      (aside_z),
    .read_row_o    (aside_row),
    .read_channel_o(aside_channel),
    .read_sum_o    (aside_sum),
    .acc_valid_i   (acc_valid),
    .acc_i         (acc),
    .write_ready_i (1'b1),
    .*
  );

  wire unused = ^{score_valid, score_tag, log_error, score[0]};

endmodule
