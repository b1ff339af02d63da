// Bodies of pages on their way to another codec: opened to plain rows, and built anew from them in their
// new places, but for the word that makes them pages. The next page is opened while one is built. Pages
// come in order; behind the first one that fails none is written any more.
//
//   bodies --> page_open --> plain_store (2 pages) --> cold_build --> memory
//               hot_open, cold_open               `--> hot_build --> APPEND's builder --> memory

module nkv_transcode
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::*;
  import nkv_transcode_pkg::*;
#(
  parameter int unsigned Ahead = 4         // Pages whose bodies may be on their way.
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  codec_e         codec_i,          // Held.
  input  logic [31:0]    slot_bytes_i,

  input  logic           page_valid_i,
  output logic           page_ready_o,
  input  page_record_t   record_i,
  input  logic [31:0]    page_i,           // Where it goes,
  input  logic [15:0]    generation_i,     // under which generation.
  output logic           idle_o,
  output logic           made_o,           // For one cycle: a page stands,
  output made_page_t     made_page_o,      // this one.
  output logic           failed_o,         // Until clear_i: a page could not be made,
  output page_failure_t  failure_o,        // the first of them.

  input  logic           beat_valid_i,     // Beats for SinkArray.
  output logic           beat_ready_o,
  input  read_beat_t     beat_i,

  output guest_page_t    guest_o,
  input  guest_report_t  guest_i,

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  localparam int unsigned Stores = 2;

  typedef struct packed {
    status_e      status;
    moving_page_t page;
  } opened_t;

  // Codecs have no clear of their own.
  logic codec_rst_nq;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) codec_rst_nq <= 1'b0;
    else codec_rst_nq <= !clear_i;
  end

  // ---- Pages whose bodies come ----
  logic         come_valid, come_taken;
  moving_page_t coming, come;
  logic [$clog2(Ahead):0] come_used;
  wire page_header_t header = record_i.header;

  always_comb begin
    coming.header = header;
    coming.index = record_i.visit.page;
    coming.empty = header.codec != CodecNone && header.payload_bytes == '0;
    coming.last_array = '0;
    for (int unsigned i = 0; i < PageArrayCount; i++) begin
      if (header.codec == CodecNone && record_i.bytes[i] != '0) coming.last_array = page_array_t'(i);
    end
    coming.page = page_i;
    coming.generation = generation_i;
  end

  nkv_fifo #(
    .T(moving_page_t),
    .Depth(Ahead)
  ) u_coming (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (page_valid_i),
    .in_ready_o (page_ready_o),
    .in_data_i  (coming),
    .out_valid_o(come_valid),
    .out_ready_i(come_taken),
    .out_data_o (come),
    .used_o     (come_used)
  );

  // ---- To plain rows ----
  logic         opened, has_store, plain_valid, built;
  logic         write_page_q, read_page_q;
  status_e      open_status;
  plain_write_t plain_write;
  opened_t      plain;
  logic [$clog2(Stores):0] plain_used;

  nkv_page_open u_open (
    .clk_i,
    .rst_ni,
    .clear_i,
    .codec_rst_ni(codec_rst_nq),
    .stop_i      (failed_o),
    .page_valid_i(come_valid),
    .page_ready_o(come_taken),
    .page_i      (come),
    .beat_valid_i,
    .beat_ready_o,
    .beat_i,
    .write_o     (plain_write),
    .opened_o    (opened),
    .status_o    (open_status),
    .room_i      (has_store)
  );

  nkv_fifo #(
    .T(opened_t),
    .Depth(Stores)
  ) u_plain (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (opened),
    .in_ready_o (has_store),
    .in_data_i  ('{status: open_status, page: come}),
    .out_valid_o(plain_valid),
    .out_ready_i(built),
    .out_data_o (plain),
    .used_o     (plain_used)
  );

  logic         run_valid, run_ready, burst_valid, burst_ready, burst_last;
  plain_index_t run_first, run_bursts;
  burst_t       burst, scales;
  logic [ScaleBits-1:0] scale_index;

  nkv_plain_store u_store (
    .clk_i,
    .rst_ni,
    .clear_i,
    .write_page_i (write_page_q),
    .write_i      (plain_write),
    .read_page_i  (read_page_q),
    .run_valid_i  (run_valid),
    .run_ready_o  (run_ready),
    .run_first_i  (run_first),
    .run_bursts_i (run_bursts),
    .burst_valid_o(burst_valid),
    .burst_ready_i(burst_ready),
    .burst_last_o (burst_last),
    .burst_o      (burst),
    .scale_index_i(scale_index),
    .scales_o     (scales)
  );

  // ---- To their new form ----
  wire to_hot = codec_i == CodecNone;
  logic         busy_q;
  logic         hot_done, cold_done, hot_run, cold_run, hot_ready, cold_ready;
  status_e      hot_status, cold_status;
  logic [31:0]  hot_bytes, cold_bytes;
  plain_index_t hot_first, cold_first, hot_bursts, cold_bursts;
  logic [ScaleBits-1:0] hot_scale, cold_scale;
  wire passes = plain_valid && !busy_q && (failed_o || plain.status != StatusOk);
  wire begins = plain_valid && !busy_q && !passes;
  wire done = hot_done || cold_done;
  wire status_e build_status = to_hot ? hot_status : cold_status;

  nkv_hot_build u_hot (
    .clk_i,
    .rst_ni,
    .clear_i,
    .slot_bytes_i,
    .start_i      (begins && to_hot),
    .page_i       (plain.page),
    .done_o       (hot_done),
    .status_o     (hot_status),
    .total_bytes_o(hot_bytes),
    .guest_o,
    .guest_i,
    .run_valid_o  (hot_run),
    .run_ready_i  (run_ready),
    .run_first_o  (hot_first),
    .run_bursts_o (hot_bursts),
    .burst_valid_i(burst_valid && to_hot),
    .burst_ready_o(hot_ready),
    .burst_last_i (burst_last),
    .burst_i      (burst),
    .scale_index_o(hot_scale),
    .scales_i     (scales)
  );

  nkv_cold_build u_cold (
    .clk_i,
    .rst_ni,
    .clear_i,
    .codec_rst_ni (codec_rst_nq),
    .codec_i,
    .slot_bytes_i,
    .start_i      (begins && !to_hot),
    .page_i       (plain.page),
    .done_o       (cold_done),
    .status_o     (cold_status),
    .total_bytes_o(cold_bytes),
    .run_valid_o  (cold_run),
    .run_ready_i  (run_ready),
    .run_first_o  (cold_first),
    .run_bursts_o (cold_bursts),
    .burst_valid_i(burst_valid && !to_hot),
    .burst_ready_o(cold_ready),
    .burst_i      (burst),
    .scale_index_o(cold_scale),
    .scales_i     (scales),
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  assign run_valid = to_hot ? hot_run : cold_run;
  assign run_first = to_hot ? hot_first : cold_first;
  assign run_bursts = to_hot ? hot_bursts : cold_bursts;
  assign burst_ready = to_hot ? hot_ready : cold_ready;
  assign scale_index = to_hot ? hot_scale : cold_scale;

  assign built = passes || done;
  wire status_e status = done ? build_status : plain.status;
  wire fails = built && status != StatusOk && !failed_o;
  assign made_o = done && build_status == StatusOk;
  assign made_page_o = '{
      index: plain.page.index,
      k_exponent: to_hot ? guest_i.k_exponent : plain.page.header.k_exponent,
      v_exponent: to_hot ? guest_i.v_exponent : plain.page.header.v_exponent,
      total_bytes: to_hot ? hot_bytes : cold_bytes
  };
  assign idle_o = come_used == '0 && plain_used == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {write_page_q, read_page_q, busy_q, failed_o, failure_o} <= '0;
    end else if (clear_i) begin
      {write_page_q, read_page_q, busy_q, failed_o} <= '0;
    end else begin
      if (opened) write_page_q <= !write_page_q;
      if (built) read_page_q <= !read_page_q;
      if (begins) busy_q <= 1'b1;
      if (done) busy_q <= 1'b0;
      if (fails) begin
        failed_o <= 1'b1;
        failure_o <= '{status: status, index: list_index_t'(plain.page.index)};
      end
    end
  end

  wire unused = ^record_i;

endmodule
