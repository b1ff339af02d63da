// The queues: rings in device memory on one side, commands and outcomes of Engines on the other.
//
//   SQ ring --> fetch --> turns --> a command in each engine --> post --> CQ ring
//
// Commands of a queue run in order, one at a time, whichever engine is free; queues take weighted
// turns. While some run, the next of each queue is fetched, and completions of those before are
// written. While a command only has results to write, another queue's may start on its engine. A queue
// that is disabled lets its command in flight end and forgets what was fetched; `reset_i` forgets
// everything.
//
// A NOP on an idle device starts 16 + 16 cycles, and what memory takes, after its doorbell at most.

module nkv_queues
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned Engines = 1,     // 1, 2 or 4.
  parameter int unsigned AnswerCycles = nkv_pkg::PatienceCycles,  // After which an answer of memory is lost.
  parameter logic [2:0] Client = 3'd7     // Upper bits of the ids of its reads and writes.
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               reset_i,     // CONTROL.RESET, until memory owes nothing,
  input  logic               forfeit_i,   // or what it owes will not come.
  output logic               quiet_o,     // It owes the queues nothing.

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

  output logic            [Engines-1:0] command_valid_o,
  input  logic            [Engines-1:0] command_ready_i,
  output engine_command_t [Engines-1:0] command_o,
  input  logic            [Engines-1:0] outcome_valid_i,  // In the order of commands.
  output logic            [Engines-1:0] outcome_ready_o,
  input  outcome_t        [Engines-1:0] outcome_i,
  input  results_t        [Engines-1:0] results_i,        // What a command that trails writes.
  input  port_events_t    [Engines-1:0] events_i,         // Of each engine's memory port.

  output logic               posted_valid_o,   // Memory has a completion
  output queue_t             posted_queue_o,   // of this queue.
  output logic               lost_o,           // Memory did not say so of one.
  output logic               ended_valid_o,    // A command has ended.
  input  logic               ended_ready_i,
  output ended_t             ended_o
);

  localparam int unsigned EngineBits = Engines > 1 ? $clog2(Engines) : 1;
  typedef logic [EngineBits-1:0] engine_t;

  queue_t look_q;         // Each cycle another queue is looked at in turn,
  queue_t last_ended_q;   // or that of the command that ended last.
  logic   again;
  // Each forfeit takes the next epoch: what memory still answers to earlier accesses is dropped.
  logic [1:0] epoch_q;

  logic     [Engines-1:0] free, runs, trails, starts, told, told_trail, told_cost, told_turn;
  queue_t   [Engines-1:0] running_queue, trailing_queue;
  results_t [Engines-1:0] told_results;
  ended_t   [Engines-1:0] told_end;
  engine_t                start_engine, told_engine;
  logic                   some_told, fetch_quiet, post_quiet;

  assign quiet_o = fetch_quiet && post_quiet;

  logic         restart, asked, fetched, room, posting, chosen_valid, post_ready;
  status_e      start_status;
  logic [MaxQueues-1:0] live;
  logic [511:0] command;
  queue_t       chosen;
  queue_setup_t look_setup, chosen_setup;
  ring_count_t  sq_head;
  completion_place_t place;

  wire queue_t look = again ? last_ended_q : look_q;

  logic look_runs, look_trails, chosen_trails;
  always_comb begin
    start_engine = '0;
    {look_runs, look_trails, chosen_trails} = '0;
    for (int i = int'(Engines) - 1; i >= 0; i--) begin
      if (free[i]) start_engine = engine_t'(i);
      if (runs[i] && running_queue[i] == look) look_runs = 1'b1;
      if (trails[i] && trailing_queue[i] == look) look_trails = 1'b1;
      if (trails[i] && trailing_queue[i] == chosen) chosen_trails = 1'b1;
    end
  end

  // A queue's commands keep their order, also if one trails. Its queue takes part in the choice of one
  // engine, so that no other gets ahead of its share; several engines do not wait for it.
  wire look_ready = fetched && room && live[look] && !look_runs && !(Engines > 1 && look_trails);
  wire start = free != '0 && chosen_valid && live[chosen] && !chosen_trails;
  wire told_ready = told_trail[told_engine] || (post_ready && ended_ready_i);
  wire ends = some_told && told_ready && !told_trail[told_engine];
  wire reckons = some_told && told_ready && told_cost[told_engine];

  nkv_queue_setup u_setup (
    .clk_i,
    .rst_ni,
    .reset_i,
    .registers_i,
    .memory_bytes_i,
    .status_o,
    .look_i      (look),
    .busy_i      (asked || posting || look_runs || look_trails || (start && chosen == look)),
    .restart_o   (restart),
    .look_setup_o(look_setup),
    .live_o      (live),
    .queue_i     (chosen),
    .setup_o     (chosen_setup)
  );

  nkv_queue_fetch #(
    .AnswerCycles(AnswerCycles),
    .Client(Client)
  ) u_fetch (
    .clk_i,
    .rst_ni,
    .reset_i,
    .forfeit_i,
    .quiet_o      (fetch_quiet),
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
    .status_o     (start_status),
    .sq_head_o    (sq_head),
    .ar_valid_o,
    .ar_ready_i,
    .ar_o,
    .r_valid_i,
    .r_i
  );

  // ---- Turns ----
  // The command's own two bursts in the rings count too, so that nothing is free.
  localparam int unsigned CostBits = 26;
  wire [32:0] moved = 33'(ended_o.activity.read_bursts) + 33'(ended_o.activity.written_bursts) +
      33'(told_results[told_engine]) + 33'd2;
  wire [CostBits-1:0] cost = moved[32:CostBits] == '0 ? moved[CostBits-1:0] : '1;

  nkv_queue_turns #(
    .Engines(Engines),
    .CostBits(CostBits)
  ) u_turns (
    .clk_i,
    .rst_ni,
    .reset_i,
    .look_i        (look),
    .ready_i       (look_ready),
    .again_o       (again),
    .valid_o       (chosen_valid),
    .queue_o       (chosen),
    .start_i       (start),
    .start_engine_i(start_engine),
    .end_i         (reckons),
    .end_engine_i  (told_engine),
    .weight_i      (registers_i.weight[ended_o.started.queue_index].share),
    .cost_i        (cost)
  );

  // ---- Engines ----
  engine_command_t start_command;
  started_t start_as;
  assign start_command = '{domain: chosen_setup.domain, command: command};
  assign start_as = '{
      queue_index: chosen,
      tenant: chosen_setup.domain.tenant,
      tag: command[31:16],
      opcode: command[7:0],
      sq_head: sq_head,
      place: place
  };
  assign starts = Engines'(start) << start_engine;

  for (genvar i = 0; i < int'(Engines); i++) begin : gen_engine
    nkv_queue_run u_run (
      .clk_i,
      .rst_ni,
      .reset_i,
      .free_o         (free[i]),
      .start_i        (starts[i]),
      .start_command_i(start_command),
      .start_as_i     (start_as),
      .status_i       (start_status),
      .runs_o         (runs[i]),
      .running_queue_o(running_queue[i]),
      .trails_o       (trails[i]),
      .trailing_queue_o(trailing_queue[i]),
      .command_valid_o(command_valid_o[i]),
      .command_ready_i(command_ready_i[i]),
      .command_o      (command_o[i]),
      .outcome_valid_i(outcome_valid_i[i]),
      .outcome_ready_o(outcome_ready_o[i]),
      .outcome_i      (outcome_i[i]),
      .results_i      (results_i[i]),
      .events_i       (events_i[i]),
      .told_valid_o   (told[i]),
      .told_ready_i   (told_turn[i] && told_ready),
      .told_trail_o   (told_trail[i]),
      .told_cost_o    (told_cost[i]),
      .told_results_o (told_results[i]),
      .told_o         (told_end[i])
    );
  end

  // ---- What engines tell, one at a time ----
  if (Engines == 1) begin : gen_one_end
    assign some_told = told;
    assign told_turn = 1'b1;
    assign told_engine = '0;
  end else begin : gen_ends
    nkv_round_robin #(
      .Requests(Engines)
    ) u_ends (
      .clk_i,
      .rst_ni,
      .request_i(told),
      .valid_o  (some_told),
      .ready_i  (told_ready),
      .grant_o  (told_turn),
      .index_o  (told_engine)
    );
  end

  assign ended_o = told_end[told_engine];
  assign ended_valid_o = ends;

  nkv_queue_post #(
    .AnswerCycles(AnswerCycles),
    .Client(Client)
  ) u_post (
    .clk_i,
    .rst_ni,
    .reset_i,
    .forfeit_i,
    .quiet_o      (post_quiet),
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
    .ended_valid_i(ends),
    .ended_ready_o(post_ready),
    .ended_i      (ended_o),
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_i,
    .posted_valid_o,
    .posted_queue_o,
    .lost_o
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      look_q <= '0;
      last_ended_q <= '0;
      epoch_q <= '0;
    end else if (reset_i) begin
      if (forfeit_i) epoch_q <= epoch_q + 2'd1;
    end else begin
      if (!again) look_q <= look_q + 1'b1;
      if (reckons) last_ended_q <= ended_o.started.queue_index;
    end
  end

endmodule
