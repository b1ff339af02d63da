// nkv_move with the page list, the pass over pages, the page builder and the way to memory of an engine.
module nkv_move_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::guest_page_t;
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

  logic           load, loaded, poisoned, looks, beat_valid, beat_ready, header_ready, move_ready;
  logic           list_valid, list_ready, pass_valid, pass_request_ready, ids_valid, ids_ready;
  logic           start, clear, body_valid, body_ready, write_valid, write_ready;
  logic           visits_given, visit_valid, visit_ready, visits_end, given_valid, given_end;
  logic           built_valid, built_ready;
  logic           unused_erase_valid, unused_appended, unused_load, unused_rows_valid;
  logic           unused_rows_ready;
  logic [1:0]     unused_judges;
  outcome_t       unused_outcome;
  list_load_t     unused_list;
  page_index_t    unused_page;
  read_request_t  unused_rows;
  guest_page_t    guest;
  guest_report_t  guest_report;
  list_load_t     list;
  page_index_t    move_page, page, verified_page;
  page_entry_t    entry;
  pass_setup_t    pass;
  pass_report_t   report;
  page_body_t     unused_body;
  page_record_t   record;
  visit_t         visit, given;
  logic [31:0]    verified_crc;
  read_request_t  list_request, pass_request, ids_request;
  read_beat_t     beat;
  write_request_t write, built, unused_erase;
  logic [7:0]     unused_k_exponent, unused_v_exponent;

  nkv_move u_move (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .command_i,
    .window_bytes_i (domain_i.window_bytes),
    .done_o,
    .outcome_o,
    .load_o         (load),
    .list_o         (list),
    .loaded_i       (loaded),
    .poisoned_i     (poisoned),
    .judges_o       (unused_judges[0]),
    .looks_o        (looks),
    .page_o         (move_page),
    .entry_i        (entry),
    .pass_start_o   (start),
    .pass_clear_o   (clear),
    .pass_o         (pass),
    .visits_o       (visits_given),
    .visit_valid_o  (given_valid),
    .visit_ready_i  (visit_ready),
    .visit_o        (given),
    .visits_end_o   (given_end),
    .pass_i         (report),
    .verified_page_i(verified_page),
    .verified_crc_o (verified_crc),
    .body_valid_i   (body_valid),
    .body_ready_o   (body_ready),
    .record_i       (record),
    .request_valid_o(ids_valid),
    .request_ready_i(ids_ready),
    .request_o      (ids_request),
    .beat_valid_i   (beat_valid),
    .beat_ready_o   (move_ready),
    .beat_i         (beat),
    .guest_o        (guest),
    .guest_i        (guest_report),
    .write_valid_o  (write_valid),
    .write_ready_i  (write_ready),
    .write_o        (write),
    .writes_done_i  (writes_done_o)
  );

  nkv_append u_builder (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i        (1'b0),
    .command_i      ('0),
    .domain_i,
    .done_o         (unused_appended),
    .outcome_o      (unused_outcome),
    .load_o         (unused_load),
    .list_o         (unused_list),
    .loaded_i       (1'b0),
    .poisoned_i     (1'b0),
    .judges_o       (unused_judges[1]),
    .page_o         (unused_page),
    .entry_i        ('0),
    .request_valid_o(unused_rows_valid),
    .request_ready_i(1'b0),
    .request_o      (unused_rows),
    .beat_valid_i   (1'b0),
    .beat_ready_o   (unused_rows_ready),
    .beat_i         ('0),
    .write_valid_o  (built_valid),
    .write_ready_i  (built_ready),
    .write_o        (built),
    .writes_done_i  (writes_done_o),
    .guest_i        (guest),
    .guest_o        (guest_report)
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
    .page_i         (looks ? move_page : page),
    .entry_o        (entry),
    .k_exponent_o   (unused_k_exponent),
    .v_exponent_o   (unused_v_exponent)
  );

  nkv_visible_pages u_visits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i      (start),
    .tokens_i     (pass.tokens),
    .window_i     (pass.window),
    .sinks_i      (pass.sinks),
    .done_o       (visits_end),
    .visit_valid_o(visit_valid),
    .visit_ready_i(visit_ready),
    .visit_o      (visit)
  );

  nkv_page_pass u_pass (
    .clk_i,
    .rst_ni,
    .clear_i        (clear_i || start_i || clear),
    .domain_i,
    .demand_i       (pass.demand),
    .plan_i         (pass.plan),
    .erase_i        (pass.erase),
    .first_index_i  (pass.first_index),
    .visit_valid_i  (visits_given ? given_valid : visit_valid),
    .visit_ready_o  (visit_ready),
    .visit_i        (visits_given ? given : visit),
    .visits_end_i   (visits_given ? given_end : visits_end),
    .page_o         (page),
    .entry_i        (entry),
    .verified_page_o(verified_page),
    .verified_crc_i (verified_crc),
    .body_valid_o   (body_valid),
    .body_ready_i   (body_ready),
    .body_o         (unused_body),
    .record_o       (record),
    .request_valid_o(pass_valid),
    .request_ready_i(pass_request_ready),
    .request_o      (pass_request),
    .header_valid_i (beat_valid && beat.tag.sink == SinkHeader),
    .header_ready_o (header_ready),
    .array_taken_i  (beat_valid && beat_ready && beat.tag.sink == SinkArray),
    .beat_i         (beat),
    .write_valid_o  (unused_erase_valid),
    .write_ready_i  (1'b0),
    .write_o        (unused_erase),
    .report_o       (report)
  );

  always_comb begin
    unique case (beat.tag.sink)
      SinkHeader: beat_ready = header_ready;
      SinkArray: beat_ready = move_ready;
      default: beat_ready = 1'b1;
    endcase
  end

  logic unused_quiet, unused_trailing_done, unused_writes_failed, unused_trailing_failed;
  nkv_engine_memory #(
    .Readers(3),
    .Writers(2)
  ) u_memory (
    .forfeit_i    (1'b0),
    .quiet_o      (unused_quiet),
    .forget_reads_i(1'b0),
    .trailing_domain_i('0),
    .read_valid_i ({ids_valid, pass_valid, list_valid}),
    .read_ready_o ({ids_ready, pass_request_ready, list_ready}),
    .read_i       ({ids_request, pass_request, list_request}),
    .beat_valid_o (beat_valid),
    .beat_ready_i (beat_ready),
    .beat_o       (beat),
    .write_valid_i({built_valid, write_valid}),
    .write_ready_o({built_ready, write_ready}),
    .write_i      ({built, write}),
    .trailing_done_o(unused_trailing_done),
    .begins_i     (start_i),
    .trailing_ends_i(1'b0),
    .writes_failed_o(unused_writes_failed),
    .trailing_failed_o(unused_trailing_failed),
    .*
  );

endmodule
