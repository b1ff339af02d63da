// Reads, or writes, of host and near-data on their way to one memory, and their answers back. An
// access is taken when whoever asks has a credit for its answer; the credit comes back when the
// answer is taken. So every answer finds room as it comes: memory is never held up, and neither side
// by answers that the other does not take.
//
// An access is at memory one cycle after it is taken, an answer at its taker one cycle after it came.
// One of each per cycle. Who goes first: nkv_host_first. A side's accesses keep their order.
//
// Near-data leaves memory's queue to the host: beyond near_least_i accesses of its own in flight (1 at
// least) it asks only while there are fewer than limit_i of both, as one cycle before.

`include "nkv_assert.svh"

module nkv_inline_channel
  import nkv_inline_pkg::*;
#(
  parameter type Request = access_t,
  parameter type Answer = access_r_t,
  parameter int unsigned HostLimit = 64,  // Credits; powers of two, 2 at least.
  parameter int unsigned NearLimit = 128,
  parameter int unsigned NearRoom = NearLimit  // For answers; 2 do where they are taken at once.
) (
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic [3:0] share_i,
  input  age_t       age_cycles_i,
  input  depth_t     near_least_i,
  input  depth_t     limit_i,

  input  logic       host_valid_i,
  output logic       host_ready_o,
  input  Request     host_i,
  input  logic       near_valid_i,
  output logic       near_ready_o,
  input  Request     near_i,

  output logic       memory_valid_o,
  input  logic       memory_ready_i,
  output logic       memory_near_o,  // It is near-data's.
  output Request     memory_o,

  input  logic       answer_valid_i, // Taken at once.
  input  logic       answer_near_i,
  input  Answer      answer_i,

  output logic       host_answer_valid_o,
  input  logic       host_answer_ready_i,
  output Answer      host_answer_o,
  output logic       near_answer_valid_o,
  input  logic       near_answer_ready_i,
  output Answer      near_answer_o,

  output depth_t     host_depth_o,   // In flight.
  output depth_t     near_depth_o
);

  typedef struct packed {
    logic   is_near;
    Request request;
  } owned_t;

  logic host_credit, near_credit, near_may_q, near_first, ready;
  logic [$clog2(HostLimit+1)-1:0] host_free;
  logic [$clog2(NearLimit+1)-1:0] near_free;

  assign host_depth_o = depth_t'(HostLimit) - depth_t'(host_free);
  assign near_depth_o = depth_t'(NearLimit) - depth_t'(near_free);

  wire host_asks = host_valid_i && host_credit;
  wire near_asks = near_valid_i && near_credit && near_may_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) near_may_q <= 1'b0;
    else near_may_q <= near_depth_o == '0 || near_depth_o < near_least_i ||
        host_depth_o + near_depth_o < limit_i;
  end

  nkv_host_first u_turn (
    .clk_i,
    .rst_ni,
    .share_i,
    .age_cycles_i,
    .host_ask_i(host_asks),
    .near_ask_i(near_asks),
    .ready_i   (ready),
    .near_o    (near_first)
  );

  wire host_taken = host_asks && ready && !near_first;
  wire near_taken = ready && near_first;
  assign host_ready_o = host_credit && ready && !near_first;
  assign near_ready_o = near_taken;

  owned_t chosen, sent;
  assign chosen = '{is_near: near_first, request: near_first ? near_i : host_i};
  nkv_skid_buffer #(
    .T(owned_t)
  ) u_memory (
    .clk_i,
    .rst_ni,
    .in_valid_i (host_asks || near_asks),
    .in_ready_o (ready),
    .in_data_i  (chosen),
    .out_valid_o(memory_valid_o),
    .out_ready_i(memory_ready_i),
    .out_data_o (sent)
  );
  assign memory_near_o = sent.is_near;
  assign memory_o = sent.request;

  logic [1:0] excess, room;
  nkv_credit_counter #(
    .Limit(HostLimit)
  ) u_host_credits (
    .clk_i,
    .rst_ni,
    .take_valid_i (host_taken),
    .take_ready_o (host_credit),
    .take_amount_i(1'b1),
    .give_amount_i(host_answer_valid_o && host_answer_ready_i),
    .free_o       (host_free),
    .excess_o     (excess[0])
  );
  nkv_credit_counter #(
    .Limit(NearLimit)
  ) u_near_credits (
    .clk_i,
    .rst_ni,
    .take_valid_i (near_taken),
    .take_ready_o (near_credit),
    .take_amount_i(1'b1),
    .give_amount_i(near_answer_valid_o && near_answer_ready_i),
    .free_o       (near_free),
    .excess_o     (excess[1])
  );

  // Credits keep room in them.
  logic [$clog2(HostLimit):0] unused_host_used;
  logic [$clog2(NearRoom):0] unused_near_used;
  nkv_fifo #(
    .T(Answer),
    .Depth(HostLimit)
  ) u_host_answers (
    .clk_i,
    .rst_ni,
    .clear_i    (1'b0),
    .in_valid_i (answer_valid_i && !answer_near_i),
    .in_ready_o (room[0]),
    .in_data_i  (answer_i),
    .out_valid_o(host_answer_valid_o),
    .out_ready_i(host_answer_ready_i),
    .out_data_o (host_answer_o),
    .used_o     (unused_host_used)
  );
  nkv_fifo #(
    .T(Answer),
    .Depth(NearRoom)
  ) u_near_answers (
    .clk_i,
    .rst_ni,
    .clear_i    (1'b0),
    .in_valid_i (answer_valid_i && answer_near_i),
    .in_ready_o (room[1]),
    .in_data_i  (answer_i),
    .out_valid_o(near_answer_valid_o),
    .out_ready_i(near_answer_ready_i),
    .out_data_o (near_answer_o),
    .used_o     (unused_near_used)
  );

  `NKV_ASSERT(CreditsKept_A, excess == '0)
  `NKV_ASSERT_ROOM(HostHasRoom_A, answer_valid_i && !answer_near_i, room[0])
  `NKV_ASSERT_ROOM(NearHasRoom_A, answer_valid_i && answer_near_i, room[1])
  `NKV_ASSERT_STAYS(NearAnswerStays_A, near_answer_valid_o, near_answer_ready_i, near_answer_o)

endmodule
