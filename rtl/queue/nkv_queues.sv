// The queues: rings in device memory on one side, commands and outcomes on the other.
//
//   SQ ring --> fetch --> turns --> the command in the engine --> post --> CQ ring
//
// Commands of a queue run in order, one at a time; queues take weighted turns. While one runs, the
// next of each queue is fetched, and the completion of the one before is written. An engine that is ready
// again before it gave an outcome only has results to write: that command trails, and another queue's may
// start. A queue that is disabled lets its command in flight end and forgets what was fetched; `reset_i`
// forgets everything.
//
// A NOP on an idle device starts 16 + 16 cycles, and what memory takes, after its doorbell at the most.

module nkv_queues
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter logic [2:0] Client = 3'd7     // Upper bits of the ids of its reads and writes.
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               reset_i,     // CONTROL.RESET

  input  csr_reg2hw_t        registers_i,
  input  logic [63:0]        memory_bytes_i,
  output csr_queue_status_t [MaxQueues-1:0] status_o,

  output logic               ar_valid_o,
  input  logic               ar_ready_i,
  output axi_ar_t            ar_o,
  input  logic               r_valid_i,
  input  axi_r_t             r_i,

  output logic               w_valid_o,
  input  logic               w_ready_i,
  output axi_w_t             w_o,
  input  logic               b_valid_i,
  input  axi_b_t             b_i,

  output logic               command_valid_o,
  input  logic               command_ready_i,
  output engine_command_t    command_o,
  input  logic               outcome_valid_i,  // In the order of commands.
  output logic               outcome_ready_o,
  input  outcome_t           outcome_i,
  input  results_t           results_i,        // With command_ready_i: what a command that trails writes.
  input  port_events_t       events_i,         // Of the engine's memory port.

  output logic               posted_valid_o,   // Memory has a completion
  output queue_t             posted_queue_o,   // of this queue.
  output logic               ended_valid_o,    // A command has ended.
  input  logic               ended_ready_i,
  output ended_t             ended_o
);

  typedef enum logic [1:0] {
    StIdle,
    StOffer,    // Until the engine takes the command.
    StRun,
    StEnd       // Its completion waits to be written.
  } state_e;

  state_e   state_q;
  started_t started_q, trailing_q;
  logic     trails_q;     // A command trails,
  logic     trail_ends_q; // and its completion waits to be written.
  outcome_t outcome_q;
  engine_command_t command_q;
  queue_t   look_q;       // Each cycle another queue is looked at in turn,
  logic     again;        // or the last command's.
  // Each reset takes the next epoch: what memory still answers to earlier accesses is dropped.
  logic [1:0] epoch_q;

  wire queue_t look = again ? started_q.queue_index : look_q;
  wire in_flight = state_q != StIdle;
  wire look_runs = in_flight && started_q.queue_index == look;
  wire look_in_flight = look_runs || (trails_q && trailing_q.queue_index == look);

  logic         restart, asked, fetched, poisoned, room, posting, chosen_valid, post_ready;
  logic [MaxQueues-1:0] live;
  logic [511:0] command;
  queue_t       chosen;
  queue_setup_t look_setup, chosen_setup;
  ring_count_t  sq_head;
  completion_place_t place;
  activity_t    activity, trailing_activity;

  // A queue's commands keep their order, also if one trails.
  wire start = state_q == StIdle && chosen_valid && live[chosen] && !trail_ends_q &&
      !(trails_q && trailing_q.queue_index == chosen);
  wire trail = state_q == StRun && command_ready_i && !outcome_valid_i && !trails_q;
  wire ends = state_q == StEnd && post_ready && ended_ready_i;
  wire trail_ends = trail_ends_q && post_ready && ended_ready_i;

  nkv_queue_setup u_setup (
    .clk_i,
    .rst_ni,
    .reset_i,
    .registers_i,
    .memory_bytes_i,
    .status_o,
    .look_i      (look),
    .busy_i      (asked || posting || look_in_flight || (start && chosen == look)),
    .restart_o   (restart),
    .look_setup_o(look_setup),
    .live_o      (live),
    .queue_i     (chosen),
    .setup_o     (chosen_setup)
  );

  nkv_queue_fetch #(
    .Client(Client)
  ) u_fetch (
    .clk_i,
    .rst_ni,
    .reset_i,
    .epoch_i      (epoch_q),
    .look_i       (look),
    .live_i       (live[look]),
    .restart_i    (restart),
    .look_setup_i (look_setup),
    .tail_i       (registers_i.sq_tail[look][15:0]),
    .asked_o      (asked),
    .fetched_o    (fetched),
    .start_i      (start),
    .start_queue_i(chosen),
    .command_o    (command),
    .poisoned_o   (poisoned),
    .sq_head_o    (sq_head),
    .ar_valid_o,
    .ar_ready_i,
    .ar_o,
    .r_valid_i,
    .r_i
  );

  // The command's own two bursts in the rings count too, so that nothing is free.
  localparam int unsigned CostBits = 26;
  assign ended_o = trail_ends_q
      ? '{started: trailing_q, outcome: outcome_q, activity: trailing_activity}
      : '{started: started_q, outcome: outcome_q, activity: activity};
  assign ended_valid_o = ends || trail_ends;
  wire [32:0] moved = 33'(activity.read_bursts) + 33'(activity.written_bursts) +
      (state_q == StRun ? 33'(results_i) : 33'd0) + 33'd2;
  wire [CostBits-1:0] cost = moved[32:CostBits] == '0 ? moved[CostBits-1:0] : '1;

  nkv_queue_turns #(
    .CostBits(CostBits)
  ) u_turns (
    .clk_i,
    .rst_ni,
    .reset_i,
    .look_i     (look),
    .ready_i    (fetched && room && live[look] && !look_runs),
    .again_o    (again),
    .valid_o    (chosen_valid),
    .queue_o    (chosen),
    .start_i    (start),
    .end_i      (ends || trail),
    .weight_i   (registers_i.weight[started_q.queue_index].share),
    .cost_i     (cost)
  );

  nkv_port_meter u_meter (
    .clk_i,
    .rst_ni,
    .start_i   (start),
    .run_i     (state_q inside {StOffer, StRun}),
    .trail_i   (trail),
    .trails_i  (trails_q && !trail_ends_q),
    .events_i,
    .activity_o(activity),
    .trailing_o(trailing_activity)
  );

  nkv_queue_post #(
    .Client(Client)
  ) u_post (
    .clk_i,
    .rst_ni,
    .reset_i,
    .epoch_i      (epoch_q),
    .look_i       (look),
    .restart_i    (restart),
    .look_setup_i (look_setup),
    .cq_head_i    (registers_i.cq_head[look][15:0]),
    .room_o       (room),
    .busy_o       (posting),
    .start_i      (start),
    .start_queue_i(chosen),
    .start_setup_i(chosen_setup),
    .place_o      (place),
    .ended_valid_i(ended_valid_o),
    .ended_ready_o(post_ready),
    .ended_i      (ended_o),
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_i,
    .posted_valid_o,
    .posted_queue_o
  );

  assign command_valid_o = state_q == StOffer;
  assign command_o = command_q;
  assign outcome_ready_o = (state_q == StRun || trails_q) && state_q != StEnd && !trail_ends_q && !start;
  wire outcome_taken = outcome_valid_i && outcome_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      look_q <= '0;
      state_q <= StIdle;
      trails_q <= 1'b0;
      trail_ends_q <= 1'b0;
      epoch_q <= '0;
    end else if (reset_i) begin
      state_q <= StIdle;
      trails_q <= 1'b0;
      trail_ends_q <= 1'b0;
      epoch_q <= epoch_q + 2'd1;
    end else begin
      if (!again) look_q <= look_q + 1'b1;
      unique case (state_q)
        StIdle: if (start) state_q <= poisoned ? StEnd : StOffer;
        StOffer: if (command_ready_i) state_q <= StRun;
        StRun: begin
          if (outcome_taken && !trails_q) state_q <= StEnd;
          else if (trail) state_q <= StIdle;
        end
        StEnd: if (ends) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
      if (trail) trails_q <= 1'b1;
      if (outcome_taken && trails_q) trail_ends_q <= 1'b1;
      if (trail_ends) begin
        trails_q <= 1'b0;
        trail_ends_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (start) begin
      command_q <= '{domain: chosen_setup.domain, command: command};
      started_q <= '{
          queue_index: chosen,
          tenant: chosen_setup.domain.tenant,
          tag: command[31:16],
          opcode: command[7:0],
          sq_head: sq_head,
          place: place
      };
      outcome_q <= '0;
      outcome_q.verdict.status <= StatusPoison;  // Unless the engine runs it.
    end
    if (outcome_taken) outcome_q <= outcome_i;
    if (trail) trailing_q <= started_q;
  end

endmodule
