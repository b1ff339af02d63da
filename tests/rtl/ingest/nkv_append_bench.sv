// nkv_append with the page list and the way to memory of an engine, whose fields are ports.
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
  input  logic [63:0]  window_base_i,
  input  logic [63:0]  window_bytes_i,
  input  logic [15:0]  tenant_i,
  output logic         done_o,
  output logic [7:0]   status_o,
  output logic [63:0]  detail_o,
  output logic [31:0]  count_o,
  output logic         writes_done_o,

  output logic         ar_valid_o,
  input  logic         ar_ready_i,
  output logic [11:0]  ar_id_o,
  output logic [51:0]  ar_addr_o,
  output logic [9:0]   ar_len_o,
  input  logic         r_valid_i,
  input  logic [11:0]  r_id_i,
  input  logic         r_last_i,
  input  logic         r_poison_i,
  input  logic [511:0] r_data_i,
  output logic         w_valid_o,
  input  logic         w_ready_i,
  output logic [11:0]  w_id_o,
  output logic [51:0]  w_addr_o,
  output logic [63:0]  w_strb_o,
  output logic [511:0] w_data_o,
  input  logic         b_valid_i,
  input  logic [11:0]  b_id_i
);

  wire domain_t domain = '{
      tenant: tenant_i,
      window_bytes: address_t'(window_bytes_i),
      window_base: address_t'(window_base_i)
  };

  logic           load, loaded, poisoned, beat_valid, beat_ready, rows_ready;
  logic           list_valid, list_ready, rows_valid, rows_request_ready, write_valid, write_ready;
  list_load_t     list;
  page_index_t    page;
  page_entry_t    entry;
  read_request_t  list_request, rows_request;
  read_beat_t     beat;
  write_request_t write;
  outcome_t       outcome;
  logic [7:0]     unused_k_exponent, unused_v_exponent;
  logic           unused_poison;
  guest_report_t  unused_guest;
  axi_ar_t        ar;
  axi_w_t         w;

  nkv_append u_append (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .command_i      (append_command_t'(command_i)),
    .domain_i       (domain),
    .done_o,
    .outcome_o      (outcome),
    .load_o         (load),
    .list_o         (list),
    .loaded_i       (loaded),
    .poisoned_i     (poisoned),
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

  logic unused_trailing_done;
  nkv_engine_memory #(
    .Readers(2),
    .Writers(1)
  ) u_memory (
    .clk_i,
    .rst_ni,
    .clear_i,
    .domain_i     (domain),
    .forget_reads_i(1'b0),
    .trailing_domain_i('0),
    .scratch_domain_i('0),
    .read_valid_i ({rows_valid, list_valid}),
    .read_ready_o ({rows_request_ready, list_ready}),
    .read_i       ({rows_request, list_request}),
    .beat_valid_o (beat_valid),
    .beat_ready_i (beat_ready),
    .beat_o       (beat),
    .write_valid_i(write_valid),
    .write_ready_o(write_ready),
    .write_i      (write),
    .writes_done_o,
    .trailing_done_o(unused_trailing_done),
    .ar_valid_o,
    .ar_ready_i,
    .ar_o         (ar),
    .r_valid_i,
    .r_i          ('{id: r_id_i, error: 1'b0, poison: r_poison_i, last: r_last_i, data: r_data_i}),
    .w_valid_o,
    .w_ready_i,
    .w_o          (w),
    .b_valid_i,
    .b_i          ('{id: b_id_i, error: 1'b0})
  );

  assign {ar_id_o, ar_addr_o, ar_len_o} = ar;
  assign {w_id_o, w_addr_o, w_strb_o, unused_poison, w_data_o} = w;
  assign status_o = outcome.verdict.status;
  assign detail_o = outcome.verdict.detail;
  assign count_o = outcome.count;

  wire unused = ^{outcome, window_base_i, window_bytes_i};

endmodule
