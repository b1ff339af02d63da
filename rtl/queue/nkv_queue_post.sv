// Completions. A command claims its place in the completion ring as it starts, so that one that starts
// has room for it; when it has ended, its completion is one write of 64 bytes, announced when memory
// has it. The next command may start, and even end, before that. Sections "Registers" (CQ_HEAD) and
// "completion" of the contract's reference.
//
// If memory refuses one, or does not say within `AnswerCycles` to twice that that it has it, nobody knows
// what the host saw: from then on `lost_o` tells, until a reset.

`include "nkv_assert.svh"

module nkv_queue_post
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned AnswerCycles = nkv_pkg::PatienceCycles,
  parameter logic [2:0] Client = 3'd7     // Upper bits of the ids of its writes.
) (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         reset_i,
  input  logic         forfeit_i,         // With reset_i: what memory owes will not come.
  output logic         quiet_o,           // It owes nothing.
  input  logic [1:0]   epoch_i,           // What memory answers to writes of another one is dropped.

  input  queue_t       look_i,            // This cycle's queue:
  input  logic         restart_i,         // it begins anew;
  // verilator lint_off UNUSEDSIGNAL
  input  queue_setup_t look_setup_i,
  // verilator lint_on UNUSEDSIGNAL
  input  ring_count_t  cq_head_i,         // what the host has read.
  output logic         room_o,            // A completion more fits.
  output logic         busy_o,            // One is on its way.

  input  logic              start_i,      // A command of start_queue_i starts,
  input  queue_t            start_queue_i,
  // verilator lint_off UNUSEDSIGNAL
  input  queue_setup_t      start_setup_i,
  // verilator lint_on UNUSEDSIGNAL
  output completion_place_t place_o,      // and will be told here.

  input  logic         ended_valid_i,
  output logic         ended_ready_o,
  // verilator lint_off UNUSEDSIGNAL
  input  ended_t       ended_i,
  // verilator lint_on UNUSEDSIGNAL

  output logic         w_valid_o,
  input  logic         w_ready_i,
  output axi_w_t       w_o,
  input  logic         b_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  axi_b_t       b_i,               // Bits of its id say nothing.
  // verilator lint_on UNUSEDSIGNAL

  output logic         posted_valid_o,    // Memory has a completion
  output queue_t       posted_queue_o,    // of this queue.
  output logic         lost_o             // Not so one before.
);

  // ---- Places ----
  ring_count_t cq_tail_q[MaxQueues];
  wire ring_count_t unread = cq_tail_q[look_i] - cq_head_i;
  wire ring_count_t entries = 16'd1 << start_setup_i.ring_log2;
  wire ring_count_t tail = cq_tail_q[start_queue_i];
  wire ring_count_t slot = tail & (entries - 16'd1);

  assign room_o = unread < 16'd1 << look_setup_i.ring_log2;
  assign place_o = '{
      address: start_setup_i.cq_base + address_t'({slot, 6'b0}),
      phase: (tail & entries) == '0
  };

  // ---- The write ----
  logic hold_q;
  logic [1:0] under_way_q[MaxQueues];     // Writes of each queue.
  ended_t ended_q;
  completion_t completion;
  always_comb begin
    completion = '0;
    completion.tag = ended_q.started.tag;
    completion.status = ended_q.outcome.verdict.status;
    completion.phase = 8'(ended_q.started.place.phase);
    completion.count = ended_q.outcome.count;
    completion.detail = ended_q.outcome.verdict.detail;
    completion.stream_bursts = ended_q.outcome.stream_bursts;
    completion.refine_bursts = ended_q.outcome.refine_bursts;
    completion.exact_bursts = ended_q.outcome.exact_bursts;
    completion.value_bursts = ended_q.outcome.value_bursts;
    completion.sq_head = ended_q.started.sq_head;
    completion.flags = ended_q.outcome.flags;
    completion.rounds = ended_q.outcome.rounds;
    completion.bound = ended_q.outcome.bound;
    completion.ticks = ended_q.activity.ticks;
  end

  wire queue_t writer = ended_q.started.queue_index;
  wire write = w_valid_o && w_ready_i;
  assign ended_ready_o = !hold_q;
  assign w_valid_o = hold_q && under_way_q[writer] != '1;
  assign w_o = '{
      id: axi_id_t'({Client, epoch_i, 3'b0, writer}),
      addr: ended_q.started.place.address,
      strb: '1,
      poison: 1'b0,
      data: completion
  };

  // ---- Until memory has it ----
  wire settles = b_valid_i && b_i.id[AxiIdBits-1-:5] == {Client, epoch_i};
  wire queue_t settled = b_i.id[QueueBits-1:0];

  assign busy_o = under_way_q[look_i] != '0 || (hold_q && writer == look_i);
  assign posted_valid_o = settles && !b_i.error;
  assign posted_queue_o = settled;

  logic [MaxQueues-1:0] waits, late;
  always_comb begin
    for (int unsigned i = 0; i < MaxQueues; i++) begin
      waits[i] = under_way_q[i] != '0 || (hold_q && writer == queue_t'(i));
    end
    quiet_o = 1'b1;
    for (int unsigned i = 0; i < MaxQueues; i++) if (under_way_q[i] != '0) quiet_o = 1'b0;
  end
  nkv_late_answers #(
    .Cycles(AnswerCycles)
  ) u_late (
    .clk_i,
    .rst_ni,
    .waits_i   (waits),
    .answered_i(MaxQueues'(settles) << settled),
    .late_o    (late)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) lost_o <= 1'b0;
    else lost_o <= (lost_o || late != '0 || (settles && b_i.error)) && !reset_i;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      hold_q <= 1'b0;
      for (int unsigned i = 0; i < MaxQueues; i++) cq_tail_q[i] <= '0;
    end else if (reset_i) begin
      hold_q <= 1'b0;
    end else begin
      if (ended_valid_i && ended_ready_o) hold_q <= 1'b1;
      else if (write) hold_q <= 1'b0;
      if (start_i) cq_tail_q[start_queue_i] <= tail + 16'd1;
      if (restart_i) cq_tail_q[look_i] <= '0;
    end
  end

  // Through resets: what was sent will be written, though it is forgotten here.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i < MaxQueues; i++) under_way_q[i] <= '0;
    end else if (forfeit_i) begin
      for (int unsigned i = 0; i < MaxQueues; i++) under_way_q[i] <= '0;
    end else begin
      if (write && !(settles && settled == writer)) begin
        under_way_q[writer] <= under_way_q[writer] + 1'b1;
      end
      if (settles && !(write && settled == writer)) begin
        under_way_q[settled] <= under_way_q[settled] - 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) if (ended_valid_i && ended_ready_o) ended_q <= ended_i;

  `NKV_ASSERT_STAYS(WStays_A, w_valid_o, w_ready_i, w_o, reset_i)
  `NKV_ASSERT(AnswerIsOwed_A, !settles || under_way_q[settled] != '0)

endmodule
