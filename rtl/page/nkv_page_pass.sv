// One pass over the pages of a list: visits, headers ahead of their use, judgement, bodies or
// erasure, and checksums of what streams by.
//
//   visits --> header_fetch --> page_accept --> page_stream --> requests; array_verify <-- beats
//                                           `-> page_eraser --> writes
//
// The pass ends when everything that it asked for has come and was verified. The failing page of the
// lowest index is kept; from the first failure on no further page is begun, what is under way ends.

module nkv_page_pass
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,         // Before each command.

  input  domain_t        domain_i,
  input  demand_t        demand_i,
  input  plan_t          plan_i,
  input  logic           erase_i,         // Erase pages, one after the other, instead of reading them.
  input  list_index_t    first_index_i,   // Of the page list's part on chip.

  input  logic           visit_valid_i,
  output logic           visit_ready_o,
  input  visit_t         visit_i,
  input  logic           visits_end_i,    // No more visits will come.
  output page_index_t    page_o,          // Look-up in the page list.
  input  page_entry_t    entry_i,

  output page_index_t    verified_page_o,  // With plan.again: its header's checksums when it was verified.
  input  logic [31:0]    verified_crc_i,

  output logic           body_valid_o,    // Pages whose bursts will come, in order.
  input  logic           body_ready_i,
  output page_body_t     body_o,
  output page_record_t   record_o,        // All that is known of the body's page.

  output logic           request_valid_o,
  input  logic           request_ready_i,
  output read_request_t  request_o,
  input  logic           header_valid_i,  // Beats for SinkHeader.
  output logic           header_ready_o,
  input  logic           array_taken_i,   // Beats for SinkArray, as their user takes them.
  input  read_beat_t     beat_i,

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o,

  output pass_report_t   report_o
);

  logic          done, failed_q, nonfinite_q;
  page_failure_t failure_q;
  logic [31:0]   bursts;
  assign report_o = '{
      done: done,
      failed: failed_q,
      failure: failure_q,
      nonfinite: nonfinite_q,
      bursts: bursts
  };

  // ---- Headers, fetched and judged ----
  // Room for every header under way, so that none holds up the bodies that come behind it.
  localparam int unsigned HeadersAhead = PagesAhead / 2;
  logic       waiting_valid, waiting_ready;
  read_beat_t waiting;
  logic [$clog2(2*HeadersAhead):0] unused_waiting;
  logic          header_request_valid, header_request_ready;
  read_request_t header_request;
  logic          pending_valid, pending_ready;
  visit_t        pending_visit;
  page_entry_t   pending_entry;
  logic          released, headers_idle, fetch_ready;

  assign visit_ready_o = failed_q || fetch_ready;

  nkv_header_fetch #(
    .Ahead(HeadersAhead)
  ) u_fetch (
    .clk_i,
    .rst_ni,
    .clear_i,
    .serial_i       (erase_i),
    .visit_valid_i  (visit_valid_i && !failed_q),
    .visit_ready_o  (fetch_ready),
    .visit_i,
    .page_o,
    .entry_i,
    .request_valid_o(header_request_valid),
    .request_ready_i(header_request_ready),
    .request_o      (header_request),
    .pending_valid_o(pending_valid),
    .pending_ready_i(pending_ready),
    .pending_visit_o(pending_visit),
    .pending_entry_o(pending_entry),
    .released_i     (released),
    .idle_o         (headers_idle)
  );

  nkv_fifo #(
    .T(read_beat_t),
    .Depth(2 * HeadersAhead)
  ) u_headers (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (header_valid_i),
    .in_ready_o (header_ready_o),
    .in_data_i  (beat_i),
    .out_valid_o(waiting_valid),
    .out_ready_i(waiting_ready),
    .out_data_o (waiting),
    .used_o     (unused_waiting)
  );

  logic         record_valid, record_ready;
  page_record_t record;

  nkv_page_accept u_accept (
    .clk_i,
    .rst_ni,
    .clear_i,
    .domain_i,
    .demand_i,
    .first_index_i,
    .pending_valid_i(pending_valid),
    .pending_ready_o(pending_ready),
    .pending_visit_i(pending_visit),
    .pending_entry_i(pending_entry),
    .was_verified_i (plan_i.again),
    .verified_page_o,
    .verified_crc_i,
    .beat_valid_i   (waiting_valid),
    .beat_ready_o   (waiting_ready),
    .beat_i         (waiting),
    .record_valid_o (record_valid),
    .record_ready_i (record_ready),
    .record_o       (record)
  );

  // ---- Bodies ----
  wire  refused = record.verdict.status != StatusOk;
  // A body that was announced comes whole: its user waits for it.
  logic begun;
  wire  drop = refused || (failed_q && !begun);
  logic stream_ready, erase_ready, body_request_valid, body_request_ready;
  read_request_t body_request;
  logic        expect_valid, expect_ready, expect_nothing;
  logic [31:0] expect_crc;
  list_index_t expect_index;

  assign record_o = record;
  assign record_ready = drop || (erase_i ? erase_ready : stream_ready);
  assign released = record_valid && record_ready;

  nkv_page_stream u_stream (
    .clk_i,
    .rst_ni,
    .clear_i,
    .begun_o         (begun),
    .plan_i,
    .first_index_i,
    .record_valid_i  (record_valid && !drop && !erase_i),
    .record_ready_o  (stream_ready),
    .record_i        (record),
    .body_valid_o,
    .body_ready_i,
    .body_o,
    .bursts_o        (bursts),
    .request_valid_o (body_request_valid),
    .request_ready_i (body_request_ready),
    .request_o       (body_request),
    .expect_valid_o  (expect_valid),
    .expect_ready_i  (expect_ready),
    .expect_nothing_o(expect_nothing),
    .expect_crc_o    (expect_crc),
    .expect_index_o  (expect_index)
  );

  nkv_page_eraser u_eraser (
    .clk_i,
    .rst_ni,
    .clear_i,
    .record_valid_i(record_valid && !drop && erase_i),
    .record_ready_o(erase_ready),
    .record_i      (record),
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  // What bodies need waits here, so that memory's turns end here.
  logic          waiting_request_valid;
  read_request_t waiting_request;
  logic [1:0]    unused_requests;
  nkv_fifo #(
    .T(read_request_t),
    .Depth(2)
  ) u_requests (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (body_request_valid),
    .in_ready_o (body_request_ready),
    .in_data_i  (body_request),
    .out_valid_o(waiting_request_valid),
    .out_ready_i(request_ready_i && !header_request_valid),
    .out_data_o (waiting_request),
    .used_o     (unused_requests)
  );

  // Headers go first: they are few, and everything waits for them.
  assign request_valid_o = header_request_valid || waiting_request_valid;
  assign request_o = header_request_valid ? header_request : waiting_request;
  assign header_request_ready = request_ready_i;

  // ---- Checksums ----
  logic          wrong, verify_idle;
  page_failure_t wrong_page;

  nkv_array_verify u_verify (
    .clk_i,
    .rst_ni,
    .clear_i,
    .expect_valid_i  (expect_valid),
    .expect_ready_o  (expect_ready),
    .expect_nothing_i(expect_nothing),
    .expect_crc_i    (expect_crc),
    .expect_index_i  (expect_index),
    .beat_valid_i    (array_taken_i && beat_i.tag.whole),
    .beat_i,
    .failed_o        (wrong),
    .failure_o       (wrong_page),
    .idle_o          (verify_idle)
  );

  // ---- The first failing page, and the end ----
  wire refuses = record_valid && refused && !failed_q;
  wire page_failure_t refused_page = '{
      status: record.verdict.status,
      index: list_index_t'(record.verdict.detail)
  };

  // Rows and padding have no checksum, but may come with poison.
  wire poisoned = array_taken_i && !beat_i.tag.whole && beat_i.poison;
  wire page_failure_t poisoned_page = '{
      status: StatusPoison,
      index: first_index_i + list_index_t'(beat_i.tag.page)
  };

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      failed_q <= 1'b0;
      failure_q <= '0;
    end else if (clear_i) begin
      failed_q <= 1'b0;
    end else if (wrong && (!failed_q || wrong_page.index < failure_q.index)) begin
      // An array of a page that was accepted before any page was refused.
      failed_q <= 1'b1;
      failure_q <= wrong_page;
    end else if (poisoned && (!failed_q || poisoned_page.index < failure_q.index)) begin
      failed_q <= 1'b1;
      failure_q <= poisoned_page;
    end else if (refuses) begin
      failed_q <= 1'b1;
      failure_q <= refused_page;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) nonfinite_q <= 1'b0;
    else if (clear_i) nonfinite_q <= 1'b0;
    else if (released && !drop && (record.visit.tokens & record.header.nonfinite) != '0) begin
      nonfinite_q <= 1'b1;
    end
  end

  // Rows and padding that have been asked for and have not come.
  logic [15:0] rows_due_q;
  wire rows_asked = body_request_valid && body_request_ready && !body_request.tag.whole;
  wire rows_came = array_taken_i && !beat_i.tag.whole && beat_i.last;
  wire rows_due = rows_due_q != '0;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) rows_due_q <= '0;
    else if (clear_i) rows_due_q <= '0;
    else rows_due_q <= rows_due_q + 16'(rows_asked) - 16'(rows_came);
  end

  // A verdict of the checksums follows the last of them by one cycle.
  logic settled_q;
  wire  all_idle = verify_idle && headers_idle && visits_end_i && !rows_due;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) settled_q <= 1'b0;
    else settled_q <= all_idle && !clear_i;
  end
  assign done = settled_q && all_idle;

endmodule
