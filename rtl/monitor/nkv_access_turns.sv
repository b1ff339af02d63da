// Accesses of several sources, one a cycle for a monitor: each source's wait for their turn in a queue
// of `Queued`. One that finds its queue full is not counted: that takes more than an access a cycle for
// longer than the queues last. A single source's pass at once.

module nkv_access_turns
  import nkv_pkg::address_t;
#(
  parameter int unsigned Sources = 2,
  parameter int unsigned Queued = 16,  // A power of two.
  localparam int unsigned IndexBits = Sources > 1 ? $clog2(Sources) : 1
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic [Sources-1:0]   taken_i,    // In this cycle.
  input  address_t             address_i[Sources],
  output logic                 valid_o,
  output logic [IndexBits-1:0] source_o,
  output address_t             address_o
);

  if (Sources == 1) begin : gen_one
    assign valid_o = taken_i;
    assign source_o = '0;
    assign address_o = address_i[0];
    wire unused = ^{clk_i, rst_ni};
  end else begin : gen_many
    logic [Sources-1:0] waits, turn, unused_ready;
    address_t address[Sources];

    for (genvar i = 0; i < int'(Sources); i++) begin : gen_source
      logic [$clog2(Queued):0] unused_used;

      nkv_fifo #(
        .T(address_t),
        .Depth(Queued)
      ) u_queue (
        .clk_i,
        .rst_ni,
        .clear_i    (1'b0),
        .in_valid_i (taken_i[i]),
        .in_ready_o (unused_ready[i]),
        .in_data_i  (address_i[i]),
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
      .index_o  (source_o)
    );
    assign address_o = address[source_o];
  end

endmodule
