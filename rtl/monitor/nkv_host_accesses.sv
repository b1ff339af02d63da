// The host's accesses on their way past the engine, one a cycle for a monitor: those of all slices,
// reads and writes, wait for their turn in queues of `Queued`. One that finds its queue full is not
// counted: that takes more than an access a cycle for longer than the queues last.

module nkv_host_accesses
  import nkv_inline_pkg::*;
#(
  parameter int unsigned Slices = 1,
  parameter int unsigned Queued = 16   // A power of two.
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic    [Slices-1:0] read_i,         // Taken in this cycle.
  // verilator lint_off UNUSEDSIGNAL
  input  access_t [Slices-1:0] read_access_i,
  input  logic    [Slices-1:0] write_i,
  input  access_t [Slices-1:0] write_access_i,
  // verilator lint_on UNUSEDSIGNAL

  output logic                  valid_o,
  output nkv_chmu_pkg::access_t access_o
);

  localparam int unsigned Sources = 2 * Slices;  // Reads, then writes.
  localparam int unsigned IndexBits = $clog2(Sources);

  logic [Sources-1:0] in, waits, turn, unused_ready;
  logic [IndexBits-1:0] index;
  nkv_pkg::address_t address[Sources];

  for (genvar i = 0; i < int'(Sources); i++) begin : gen_source
    localparam int unsigned Slice = i % Slices;
    logic [$clog2(Queued):0] unused_used;
    wire nkv_pkg::address_t asked =
        i < int'(Slices) ? read_access_i[Slice].addr : write_access_i[Slice].addr;
    assign in[i] = i < int'(Slices) ? read_i[Slice] : write_i[Slice];

    nkv_fifo #(
      .T(nkv_pkg::address_t),
      .Depth(Queued)
    ) u_queue (
      .clk_i,
      .rst_ni,
      .clear_i    (1'b0),
      .in_valid_i (in[i]),
      .in_ready_o (unused_ready[i]),
      .in_data_i  (asked),
      .out_valid_o(waits[i]),
      .out_ready_i(turn[i]),
      .out_data_o (address[i]),
      .used_o     (unused_used)
    );
  end

  nkv_round_robin #(
    .Requests(Sources)
  ) u_turns (
    .clk_i,
    .rst_ni,
    .request_i(waits),
    .valid_o,
    .ready_i  (1'b1),
    .grant_o  (turn),
    .index_o  (index)
  );

  assign access_o = '{is_write: index >= IndexBits'(Slices), dpa: address[index]};

endmodule
