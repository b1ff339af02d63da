// An engine's way to memory: readers and writers by rank, the lowest first; every address guarded by
// the window of its command; reads given back in order. Writers in `Trailing` write for the command
// before the one that runs.

module nkv_engine_memory
  import nkv_pkg::*;
#(
  parameter int unsigned Readers = 4,
  parameter int unsigned Writers = 3,
  parameter logic [Writers-1:0] Trailing = '0,
  parameter logic [2:0] Client = '0       // Upper bits of the ids.
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,
  input  logic           forfeit_i,       // With clear_i: what memory owes will not come.
  output logic           quiet_o,         // Memory owes no answer.
  input  logic           forget_reads_i,  // What was asked for is not given any more.
  input  domain_t        domain_i,
  input  domain_t        trailing_domain_i,

  input  logic           [Readers-1:0] read_valid_i,
  output logic           [Readers-1:0] read_ready_o,
  input  read_request_t  [Readers-1:0] read_i,
  output logic           beat_valid_o,
  input  logic           beat_ready_i,
  output read_beat_t     beat_o,

  input  logic           [Writers-1:0] write_valid_i,
  output logic           [Writers-1:0] write_ready_o,
  input  write_request_t [Writers-1:0] write_i,
  output logic           writes_done_o,   // Memory has all that was accepted of the command that runs,
  output logic           trailing_done_o, // and of the one before it.
  input  logic           begins_i,        // A command begins; the results of the one before
  input  logic           trailing_ends_i, // are done with.
  output logic           writes_failed_o, // Memory refused a write of the command that runs,
  output logic           trailing_failed_o,  // and of the one before it.

  output logic           ar_valid_o,
  input  logic           ar_ready_i,
  output axi_ar_t        ar_o,
  input  logic           r_valid_i,
  input  axi_r_t         r_i,
  output logic           w_valid_o,
  input  logic           w_ready_i,
  output axi_w_t         w_o,
  input  logic           b_valid_i,
  input  axi_b_t         b_i
);

  read_request_t  request;
  write_request_t write;
  logic     trails, reads_quiet, writes_quiet;
  logic     request_ready, write_ready, read_inside, write_inside, unused_r_ready;
  address_t read_address, write_address;

  assign quiet_o = reads_quiet && writes_quiet;

  always_comb begin
    request = read_i[0];
    read_ready_o = '0;
    for (int i = int'(Readers) - 1; i >= 0; i--) begin
      if (read_valid_i[i]) request = read_i[i];
    end
    for (int i = 0; i < int'(Readers); i++) begin
      read_ready_o[i] = request_ready;
      for (int j = 0; j < i; j++) if (read_valid_i[j]) read_ready_o[i] = 1'b0;
    end
    write = write_i[0];
    trails = Trailing[0];
    write_ready_o = '0;
    for (int i = int'(Writers) - 1; i >= 0; i--) begin
      if (write_valid_i[i]) begin
        write = write_i[i];
        trails = Trailing[i];
      end
    end
    for (int i = 0; i < int'(Writers); i++) begin
      write_ready_o[i] = write_ready;
      for (int j = 0; j < i; j++) if (write_valid_i[j]) write_ready_o[i] = 1'b0;
    end
  end

  nkv_window_guard u_read_guard (
    .domain_i,
    .offset_i (request.address),
    .bursts_i (request.bursts),
    .inside_o (read_inside),
    .address_o(read_address)
  );

  nkv_reader #(
    .Client(Client)
  ) u_reader (
    .clk_i,
    .rst_ni,
    .clear_i        (clear_i || forget_reads_i),
    .forfeit_i,
    .quiet_o        (reads_quiet),
    .request_valid_i(read_valid_i != '0),
    .request_ready_o(request_ready),
    .request_i      (request),
    .fault_i        (!read_inside),
    .address_i      (read_address),
    .beat_valid_o,
    .beat_ready_i,
    .beat_o,
    .ar_valid_o,
    .ar_ready_i,
    .ar_o,
    .r_valid_i,
    .r_ready_o      (unused_r_ready),
    .r_i
  );

  nkv_window_guard u_write_guard (
    .domain_i (trails ? trailing_domain_i : domain_i),
    .offset_i (write.address),
    .bursts_i (burst_count_t'(1)),
    .inside_o (write_inside),
    .address_o(write_address)
  );

  nkv_writer #(
    .Client(Client)
  ) u_writer (
    .clk_i,
    .rst_ni,
    .clear_i,
    .forfeit_i,
    .quiet_o        (writes_quiet),
    .request_valid_i(write_valid_i != '0),
    .request_ready_o(write_ready),
    .request_i      (write),
    .trailing_i     (trails),
    .inside_i       (write_inside),
    .address_i      (write_address),
    .idle_o         (writes_done_o),
    .trailing_idle_o(trailing_done_o),
    .begins_i,
    .trailing_ends_i,
    .failed_o       (writes_failed_o),
    .trailing_failed_o,
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_i
  );

endmodule
