// The commands of one engine: handed to it, run, and their ends told, with what each did at the engine's
// port to memory. One that could not be read ends with what is wrong, and the engine does not see it.
//
// An engine that is ready again before it gave an outcome only has results to write: as soon as its cost
// has been reckoned that command trails, and another queue's may start.

`include "nkv_assert.svh"

module nkv_queue_run
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_queue_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            reset_i,          // CONTROL.RESET

  output logic            free_o,           // It takes a command, in this cycle:
  input  logic            start_i,
  input  engine_command_t start_command_i,
  input  started_t        start_as_i,
  input  status_e         status_i,         // OK, or it cannot be used.
  output logic            runs_o,
  output queue_t          running_queue_o,
  output logic            trails_o,
  output queue_t          trailing_queue_o,

  output logic            command_valid_o,
  input  logic            command_ready_i,
  output engine_command_t command_o,
  input  logic            outcome_valid_i,  // In the order of commands.
  output logic            outcome_ready_o,
  input  outcome_t        outcome_i,
  input  results_t        results_i,        // With command_ready_i: what a command that trails writes.
  input  port_events_t    events_i,         // Of the engine's memory port.

  // A command has ended, or is to trail. Its cost is due, unless it trailed.
  output logic            told_valid_o,
  input  logic            told_ready_i,
  output logic            told_trail_o,     // It is to trail; no completion yet.
  output logic            told_cost_o,
  output results_t        told_results_o,   // That its activity lacks.
  output ended_t          told_o
);

  typedef enum logic [1:0] {
    StIdle,
    StOffer,    // Until the engine takes the command.
    StRun,
    StEnd       // Its completion waits to be written.
  } state_e;

  state_e          state_q;
  started_t        started_q, trailing_q;
  logic            trails_q;      // A command trails,
  logic            trail_ends_q;  // and its completion waits to be written.
  outcome_t        outcome_q;
  engine_command_t command_q;
  activity_t       activity, trailing_activity;

  wire may_trail = state_q == StRun && command_ready_i && !outcome_valid_i && !trails_q;
  wire trail = may_trail && told_ready_i;
  wire outcome_taken = outcome_valid_i && outcome_ready_o;

  // An engine that has stopped takes none.
  assign free_o = state_q == StIdle && command_ready_i && !trail_ends_q;
  assign runs_o = state_q != StIdle;
  assign running_queue_o = started_q.queue_index;
  assign trails_o = trails_q;
  assign trailing_queue_o = trailing_q.queue_index;
  assign command_valid_o = state_q == StOffer;
  assign command_o = command_q;
  assign outcome_ready_o = (state_q == StRun || trails_q) && state_q != StEnd && !trail_ends_q &&
      !start_i;

  assign told_valid_o = state_q == StEnd || trail_ends_q || may_trail;
  assign told_trail_o = may_trail;
  assign told_cost_o = !trail_ends_q;
  assign told_results_o = may_trail ? results_i : '0;
  assign told_o = trail_ends_q
      ? '{started: trailing_q, outcome: outcome_q, activity: trailing_activity}
      : '{started: started_q, outcome: outcome_q, activity: activity};

  nkv_port_meter u_meter (
    .clk_i,
    .rst_ni,
    .start_i,
    .run_i     (state_q inside {StOffer, StRun}),
    .trail_i   (trail),
    .trails_i  (trails_q && !trail_ends_q),
    .events_i,
    .activity_o(activity),
    .trailing_o(trailing_activity)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      {trails_q, trail_ends_q} <= '0;
    end else if (reset_i) begin
      state_q <= StIdle;
      {trails_q, trail_ends_q} <= '0;
    end else begin
      unique case (state_q)
        StIdle: if (start_i) state_q <= status_i == StatusOk ? StOffer : StEnd;
        StOffer: if (command_ready_i) state_q <= StRun;
        StRun: begin
          if (outcome_taken && !trails_q) state_q <= StEnd;
          else if (trail) state_q <= StIdle;
        end
        StEnd: if (told_ready_i) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
      if (trail) trails_q <= 1'b1;
      if (outcome_taken && trails_q) trail_ends_q <= 1'b1;
      if (trail_ends_q && told_ready_i) {trails_q, trail_ends_q} <= '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      command_q <= start_command_i;
      started_q <= start_as_i;
      outcome_q <= '0;
      outcome_q.verdict.status <= status_i;  // Unless the engine runs it.
    end
    if (outcome_taken) outcome_q <= outcome_i;
    if (trail) trailing_q <= started_q;
  end

  `NKV_ASSERT_STAYS(CommandStays_A, command_valid_o, command_ready_i, command_o, reset_i)
  // Whether a command trails is of no use any more when it has ended.
  `NKV_ASSERT_STAYS(ToldStays_A, told_valid_o, told_ready_i, {told_cost_o, told_o}, reset_i || told_trail_o)

endmodule
