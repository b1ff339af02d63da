// Commands from the submission rings, one ahead of use in each queue: a command is fetched as soon as
// its doorbell has rung and its predecessor has started, and waits until its queue's turn comes. A
// queue that stops meanwhile forgets it. What was fetched counts as consumed (`sq_head`) when it
// starts. One queue a cycle is looked at.
//
// A slot without the ring's phase is not written yet, for its doorbell may have come first: it is read
// again. A command that is not there within `AnswerCycles` to twice that is a NOP with a tag of 0 that
// ends with NOT_WRITTEN, or with INTERNAL if memory has not answered at all. Reads carry how many of
// their queue were lost, so that an answer after that is not the next one's.

`include "nkv_assert.svh"

module nkv_queue_fetch
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned AnswerCycles = nkv_pkg::PatienceCycles,
  parameter logic [2:0] Client = 3'd7     // Upper bits of the ids of its reads.
) (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         reset_i,
  input  logic         forfeit_i,         // With reset_i: what memory owes will not come.
  output logic         quiet_o,           // It owes nothing that is waited for.
  input  logic [1:0]   epoch_i,           // What memory answers to reads of another one is dropped.

  input  queue_t       look_i,            // This cycle's queue:
  input  logic         live_i,
  input  logic         restart_i,         // it begins anew;
  // verilator lint_off UNUSEDSIGNAL
  input  queue_setup_t look_setup_i,
  // verilator lint_on UNUSEDSIGNAL
  input  ring_count_t  tail_i,            // its doorbell.
  output logic         asked_o,           // It waits for memory's answer.
  output logic         fetched_o,         // It has a command that may start.

  input  logic         start_i,           // The command of start_queue_i starts.
  input  queue_t       start_queue_i,
  output logic [511:0] command_o,
  output status_e      status_o,          // OK, or it cannot be used.
  output ring_count_t  sq_head_o,         // After it.

  output logic         ar_valid_o,
  input  logic         ar_ready_i,
  output axi_ar_t      ar_o,
  input  logic         r_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  axi_r_t       r_i
  // verilator lint_on UNUSEDSIGNAL
);

  localparam int unsigned LostBits = 3;
  typedef logic [LostBits-1:0] lost_t;

  localparam int unsigned PhaseBit = 8 + SlotFlagPhase;  // A command's second byte is its flags.

  logic [MaxQueues-1:0] asked_q, fetched_q, late;
  logic [MaxQueues-1:0] phase_q;          // Of the slot that was asked for.
  logic [MaxQueues-1:0] missing_q;        // It was not written when it was read last.
  logic [MaxQueues-1:0] owed_q;           // Memory was asked, also if a reset has forgotten it.
  status_e status_q[MaxQueues];
  lost_t lost_q[MaxQueues];               // Counted.
  ring_count_t sq_head_q[MaxQueues];
  (* ram_style = "distributed" *) logic [511:0] commands[MaxQueues];

  assign asked_o = asked_q[look_i];
  assign fetched_o = fetched_q[look_i];
  assign command_o = commands[start_queue_i];
  assign status_o = status_q[start_queue_i];
  assign sq_head_o = sq_head_q[start_queue_i] + 16'd1;

  // ---- Asking ----
  wire ring_count_t entries = 16'd1 << look_setup_i.ring_log2;
  wire ring_count_t submitted = tail_i - sq_head_q[look_i];
  wire ring_count_t slot = sq_head_q[look_i] & (entries - 16'd1);
  // A doorbell further ahead than the ring is long cannot be right; nothing is fetched for it.
  wire wanted = live_i && !asked_q[look_i] && !fetched_q[look_i] && submitted != '0 &&
      submitted <= entries;
  logic     ask_valid_q;
  queue_t   ask_queue_q;
  lost_t    ask_lost_q;
  address_t ask_address_q;
  wire      ask = wanted && !ask_valid_q && !late[look_i];

  assign ar_valid_o = ask_valid_q;
  assign ar_o = '{
      id: axi_id_t'({Client, epoch_i, ask_lost_q, ask_queue_q}),
      addr: ask_address_q,
      len: '0
  };

  // ---- What comes ----
  wire queue_t r_queue = r_i.id[QueueBits-1:0];
  wire answers = r_valid_i && owed_q[r_queue] &&
      r_i.id[AxiIdBits-1:QueueBits] == {Client, epoch_i, lost_q[r_queue]};
  wire arrives = answers && asked_q[r_queue];
  wire unusable = r_i.poison || r_i.error;
  wire written = unusable || r_i.data[PhaseBit] == phase_q[r_queue];
  wire loses = late[look_i] && (asked_q[look_i] || wanted) && !arrives;
  burst_t arrived;
  always_comb begin
    arrived = r_i.data;
    arrived[PhaseBit] = 1'b0;
  end
  assign quiet_o = owed_q == '0;

  nkv_late_answers #(
    .Cycles(AnswerCycles)
  ) u_late (
    .clk_i,
    .rst_ni,
    .waits_i   (asked_q | missing_q),
    .answered_i('0),
    .late_o    (late)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      ask_valid_q <= 1'b0;
      asked_q <= '0;
      fetched_q <= '0;
      missing_q <= '0;
      for (int unsigned i = 0; i < MaxQueues; i++) begin
        status_q[i] <= StatusOk;
        lost_q[i] <= '0;
        sq_head_q[i] <= '0;
      end
    end else if (reset_i) begin
      ask_valid_q <= 1'b0;
      asked_q <= '0;
      fetched_q <= '0;
      missing_q <= '0;
    end else begin
      if (ar_ready_i) ask_valid_q <= 1'b0;
      if (ask) begin
        ask_valid_q <= 1'b1;
        asked_q[look_i] <= 1'b1;
      end
      if (arrives) begin
        asked_q[r_queue] <= 1'b0;
        fetched_q[r_queue] <= written;
        missing_q[r_queue] <= !written;
        status_q[r_queue] <= unusable ? StatusPoison : StatusOk;
      end
      // Its doorbell was taken back, or the queue stops.
      if (!asked_q[look_i] && !wanted) missing_q[look_i] <= 1'b0;
      if (loses) begin
        asked_q[look_i] <= 1'b0;
        fetched_q[look_i] <= 1'b1;
        missing_q[look_i] <= 1'b0;
        status_q[look_i] <= missing_q[look_i] ? StatusNotWritten : StatusInternal;
        if (asked_q[look_i]) lost_q[look_i] <= lost_q[look_i] + 1'b1;
      end
      if (start_i) begin
        fetched_q[start_queue_i] <= 1'b0;
        sq_head_q[start_queue_i] <= sq_head_o;
      end
      if (restart_i) begin
        fetched_q[look_i] <= 1'b0;
        missing_q[look_i] <= 1'b0;
        sq_head_q[look_i] <= '0;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) owed_q <= '0;
    else if (forfeit_i) owed_q <= '0;
    else begin
      if (answers) owed_q[r_queue] <= 1'b0;
      if (loses && !reset_i) owed_q[look_i] <= 1'b0;
      if (ar_valid_o && ar_ready_i) owed_q[ask_queue_q] <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (ask) begin
      phase_q[look_i] <= (sq_head_q[look_i] & entries) == '0;
      ask_queue_q <= look_i;
      ask_lost_q <= lost_q[look_i];
      ask_address_q <= look_setup_i.sq_base + address_t'({slot, 6'b0});
    end
    if (arrives || loses) commands[arrives ? r_queue : look_i] <= arrives ? arrived : '0;
  end

  // A command may start, and starts, once it has come.
  `NKV_ASSERT(FetchedIsThere_A, reset_i || (fetched_q & (asked_q | missing_q)) == '0)
  `NKV_ASSERT(StartedIsThere_A, reset_i || !start_i || fetched_q[start_queue_i])
  `NKV_ASSERT_STAYS(ArStays_A, ar_valid_o, ar_ready_i, ar_o, reset_i)

endmodule
