// Near-data's ports before one slice: their reads, or writes, to it one after the other, and its
// answers back to the ports that asked. Each port has a queue for what it asks, so that one that waits
// here goes on to other slices, and credits for answers, so that every answer finds room as it comes:
// the slice is never held up, and no port by answers that another one does not take.
// - Work-conserving: who asks alone, and has credits, goes.
// - No starvation: a port that has credits waits for at most one access of each other port.
// - A port's accesses keep their order, and its answers the slice's.
// With one port there is nothing here: what it asks and what it is told pass.

`include "nkv_assert.svh"

module nkv_near_ports
  import nkv_inline_pkg::*;
#(
  parameter int unsigned Ports = 2,
  parameter type Request = access_t,
  parameter type Answer = access_r_t,
  parameter int unsigned Queued = 8,    // Requests of a port; a power of two.
  parameter int unsigned Credits = 32,  // Answers of a port; a power of two.
  localparam int unsigned PortBits = Ports > 1 ? $clog2(Ports) : 1
) (
  input  logic                clk_i,
  input  logic                rst_ni,

  input  logic [Ports-1:0]    valid_i,
  output logic [Ports-1:0]    ready_o,
  input  Request              request_i[Ports],
  output logic [Ports-1:0]    answer_valid_o,
  input  logic [Ports-1:0]    answer_ready_i,
  output Answer               answer_o[Ports],

  output logic                valid_o,
  input  logic                ready_i,
  output Request              request_o,
  input  logic                answer_valid_i,
  output logic                answer_ready_o,
  input  logic [PortBits-1:0] answer_port_i,
  input  Answer               answer_i
);

  if (Ports == 1) begin : gen_one
    assign valid_o = valid_i;
    assign ready_o = ready_i;
    assign request_o = request_i[0];
    assign answer_valid_o = answer_valid_i;
    assign answer_ready_o = answer_ready_i;
    assign answer_o[0] = answer_i;
    wire unused = ^{clk_i, rst_ni, answer_port_i};
  end else begin : gen_many
    logic [Ports-1:0] waits, has_credit, grant;
    logic [PortBits-1:0] index;
    Request waiting[Ports];

    wire [Ports-1:0] taken = grant & {Ports{ready_i}};

    nkv_round_robin #(
      .Requests(Ports)
    ) u_turn (
      .clk_i,
      .rst_ni,
      .request_i(waits & has_credit),
      .valid_o,
      .ready_i,
      .grant_o  (grant),
      .index_o  (index)
    );
    assign request_o = waiting[index];
    assign answer_ready_o = 1'b1;

    for (genvar i = 0; i < int'(Ports); i++) begin : gen_port
      logic has_room, excess;
      logic [$clog2(Queued):0] unused_queued;
      logic [$clog2(Credits):0] unused_held;
      logic [$clog2(Credits+1)-1:0] unused_free;

      nkv_fifo #(
        .T(Request),
        .Depth(Queued)
      ) u_requests (
        .clk_i,
        .rst_ni,
        .clear_i    (1'b0),
        .in_valid_i (valid_i[i]),
        .in_ready_o (ready_o[i]),
        .in_data_i  (request_i[i]),
        .out_valid_o(waits[i]),
        .out_ready_i(taken[i]),
        .out_data_o (waiting[i]),
        .used_o     (unused_queued)
      );
      nkv_credit_counter #(
        .Limit(Credits)
      ) u_credits (
        .clk_i,
        .rst_ni,
        .take_valid_i (taken[i]),
        .take_ready_o (has_credit[i]),
        .take_amount_i(1'b1),
        .give_amount_i(answer_valid_o[i] && answer_ready_i[i]),
        .free_o       (unused_free),
        .excess_o     (excess)
      );
      nkv_fifo #(
        .T(Answer),
        .Depth(Credits)
      ) u_answers (
        .clk_i,
        .rst_ni,
        .clear_i    (1'b0),
        .in_valid_i (answer_valid_i && answer_port_i == PortBits'(i)),
        .in_ready_o (has_room),   // Credits keep room.
        .in_data_i  (answer_i),
        .out_valid_o(answer_valid_o[i]),
        .out_ready_i(answer_ready_i[i]),
        .out_data_o (answer_o[i]),
        .used_o     (unused_held)
      );

      `NKV_ASSERT(CreditsKept_A, !excess)
      `NKV_ASSERT_ROOM(AnswersHaveRoom_A, answer_valid_i && PortBits'(i) == answer_port_i, has_room)
    end
  end

endmodule
