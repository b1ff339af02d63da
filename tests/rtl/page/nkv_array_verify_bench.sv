// nkv_array_verify with the fields of its beats and failures as ports.
module nkv_array_verify_bench
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,
  input  logic        expect_valid_i,
  output logic        expect_ready_o,
  input  logic        expect_nothing_i,
  input  logic [31:0] expect_crc_i,
  input  list_index_t expect_index_i,
  input  logic        beat_valid_i,
  input  logic        beat_first_i,
  input  logic        beat_last_i,
  input  logic        beat_poison_i,
  input  logic [6:0]  beat_last_bytes_i,
  input  burst_t      beat_data_i,
  output logic        failed_o,
  output logic [7:0]  failed_status_o,
  output list_index_t failed_index_o,
  output logic        idle_o
);

  read_tag_t     tag;
  page_failure_t failure;
  assign tag = '{last_bytes: beat_last_bytes_i, sink: SinkArray, default: '0};

  nkv_array_verify u_verify (
    .clk_i,
    .rst_ni,
    .clear_i,
    .expect_valid_i,
    .expect_ready_o,
    .expect_nothing_i,
    .expect_crc_i,
    .expect_index_i,
    .beat_valid_i,
    .beat_i('{fault: 1'b0, poison: beat_poison_i, first: beat_first_i, last: beat_last_i, tag: tag,
              data: beat_data_i}),
    .failed_o,
    .failure_o(failure),
    .idle_o
  );

  assign failed_status_o = failure.status;
  assign failed_index_o = failure.index;

endmodule
