// nkv_append with the page list and the way to memory of an engine.
module nkv_append_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::guest_report_t;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  logic         start_i,
  input  logic [511:0] command_i,
  input  domain_t      domain_i,
  output logic         done_o,
  output outcome_t     outcome_o,
  output logic         writes_done_o,

  output logic         ar_valid_o,
  input  logic         ar_ready_i,
  output axi_ar_t      ar_o,
  input  logic         r_valid_i,
  input  axi_r_t       r_i,
  output logic         w_valid_o,
  input  logic         w_ready_i,
  output axi_w_t       w_o,
  input  logic         b_valid_i,
  input  axi_b_t       b_i
);

  logic           load, loaded, poisoned, beat_valid, beat_ready, rows_ready;
  logic           list_valid, list_ready, rows_valid, rows_request_ready, write_valid, write_ready;
  list_load_t     list;
  page_index_t    page;
  page_entry_t    entry;
  read_request_t  list_request, rows_request;
  read_beat_t     beat;
  write_request_t write;
  logic [7:0]     unused_k_exponent, unused_v_exponent;
  guest_report_t  unused_guest;
  logic           unused_judges;

  nkv_append u_append (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .command_i      (append_command_t'(command_i)),
    .domain_i,
    .done_o,
    .outcome_o,
    .load_o         (load),
    .list_o         (list),
    .loaded_i       (loaded),
    .poisoned_i     (poisoned),
    .judges_o       (unused_judges),
    .page_o         (page),
    .entry_i        (entry),
    .request_valid_o(rows_valid),
    .request_ready_i(rows_request_ready),
    .request_o      (rows_request),
    .beat_valid_i   (beat_valid && beat.tag.sink == SinkRows),
    .beat_ready_o   (rows_ready),
    .beat_i         (beat),
    .write_valid_o  (write_valid),
    .write_ready_i  (write_ready),
    .write_o        (write),
    .writes_done_i  (writes_done_o),
    .guest_i        ('0),
    .guest_o        (unused_guest)
  );

  nkv_page_list u_list (
    .clk_i,
    .rst_ni,
    .load_i         (load),
    .address_i      (list.address),
    .entries_i      (list.entries),
    .loaded_o       (loaded),
    .poisoned_o     (poisoned),
    .request_valid_o(list_valid),
    .request_ready_i(list_ready),
    .request_o      (list_request),
    .beat_valid_i   (beat_valid && beat.tag.sink == SinkList),
    .beat_i         (beat),
    .page_i         (page),
    .entry_o        (entry),
    .k_exponent_o   (unused_k_exponent),
    .v_exponent_o   (unused_v_exponent)
  );

  assign beat_ready = beat.tag.sink == SinkRows ? rows_ready : 1'b1;

  logic unused_quiet, unused_trailing_done, unused_writes_failed, unused_trailing_failed;
  nkv_engine_memory #(
    .Readers(2),
    .Writers(1)
  ) u_memory (
    .forfeit_i    (1'b0),
    .quiet_o      (unused_quiet),
    .forget_reads_i(1'b0),
    .trailing_domain_i('0),
    .read_valid_i ({rows_valid, list_valid}),
    .read_ready_o ({rows_request_ready, list_ready}),
    .read_i       ({rows_request, list_request}),
    .beat_valid_o (beat_valid),
    .beat_ready_i (beat_ready),
    .beat_o       (beat),
    .write_valid_i(write_valid),
    .write_ready_o(write_ready),
    .write_i      (write),
    .trailing_done_o(unused_trailing_done),
    .begins_i     (start_i),
    .trailing_ends_i(1'b0),
    .writes_failed_o(unused_writes_failed),
    .trailing_failed_o(unused_trailing_failed),
    .*
  );

endmodule
