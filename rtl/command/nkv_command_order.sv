// What an engine does with commands, one after the other: check, dispatch, run, wait for memory to have
// all writes, give the outcome. A command that only has results left to be written trails: the next one is
// taken meanwhile, and its outcome waits for that of the one before.
//
// If there is no progress for `WatchdogCycles`, what is under way ends with INTERNAL, and no other command
// is taken until all is cleared. A command of which memory refuses a write ends with INTERNAL too, but the
// next one is taken.

`include "nkv_assert.svh"

module nkv_command_order
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter int unsigned WatchdogCycles = nkv_pkg::PatienceCycles
) (
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,          // CONTROL.RESET

  input  logic            command_valid_i,
  output logic            command_ready_o,  // The command before has ended, or but for its results.
  input  engine_command_t command_i,
  output logic            outcome_valid_o,  // In the order of commands.
  input  logic            outcome_ready_i,
  output outcome_t        outcome_o,
  output results_t        results_o,        // What the command that trails is to write.
  output logic            fatal_o,

  output engine_command_t command_o,        // The one that runs: held while busy_o.
  output logic            busy_o,
  output logic            check_o,          // Its verdict is wanted,
  input  logic            checked_i,        // and stands.
  input  verdict_t        verdict_i,
  input  logic            runs_i,           // There is something to run.
  output logic            dispatch_o,       // For one cycle: it begins.
  input  logic            done_i,           // For one cycle: it is over,
  input  outcome_t        done_outcome_i,
  input  logic            results_left_i,   // but for results,
  input  results_t        results_i,        // so many bursts.
  input  logic            writes_done_i,    // Memory has all of its writes,
  input  logic            writes_failed_i,  // or refused one.

  output logic            trails_o,
  output domain_t         trailing_domain_o,
  input  logic            results_done_i,   // Memory has all results of the one that trails,
  input  logic            results_failed_i, // or refused one.
  output logic            trailing_ends_o,  // For one cycle: its outcome is taken.
  input  logic            progress_i        // Memory answered.
);

  typedef enum logic [2:0] {
    StIdle,
    StCheck,
    StRun,
    StFlush,    // Until memory has all writes.
    StOutcome
  } state_e;

  localparam outcome_t Lost = '{
      verdict: '{status: StatusInternal, detail: '0},
      default: '0
  };

  state_e          state_q;
  engine_command_t command_q;
  outcome_t        outcome_q, trailing_outcome_q;
  logic            fatal_q, trails_q;
  domain_t         trailing_domain_q;
  results_t        results_q;

  wire trailing_ended = trails_q && (fatal_q || results_done_i);
  wire hands_over = state_q == StRun && done_i && results_left_i;

  assign command_ready_o = state_q == StIdle && !fatal_q;
  assign outcome_valid_o = trailing_ended || (state_q == StOutcome && !trails_q);
  assign outcome_o = !trails_q ? outcome_q : results_failed_i ? Lost : trailing_outcome_q;
  assign trailing_ends_o = trailing_ended && outcome_ready_i;
  assign results_o = results_q;
  assign fatal_o = fatal_q;
  assign command_o = command_q;
  assign busy_o = state_q != StIdle;
  assign check_o = state_q == StCheck;
  assign dispatch_o = state_q == StCheck && checked_i && verdict_i.status == StatusOk;
  assign trails_o = trails_q;
  assign trailing_domain_o = trailing_domain_q;

  localparam int unsigned WatchdogBits = $clog2(WatchdogCycles) + 1;
  logic [WatchdogBits-1:0] idle_cycles_q;
  wire waits = state_q inside {StRun, StFlush} || (trails_q && !trailing_ended);
  wire stuck = waits && idle_cycles_q == WatchdogBits'(WatchdogCycles);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      command_q <= '0;
      outcome_q <= '0;
      fatal_q <= 1'b0;
      trails_q <= 1'b0;
      trailing_domain_q <= '0;
      trailing_outcome_q <= '0;
      results_q <= '0;
      idle_cycles_q <= '0;
    end else if (clear_i) begin
      state_q <= StIdle;
      fatal_q <= 1'b0;
      trails_q <= 1'b0;
      idle_cycles_q <= '0;
    end else begin
      if (trailing_ends_o) trails_q <= 1'b0;
      idle_cycles_q <= waits && !progress_i ? idle_cycles_q + 1'b1 : '0;
      unique case (state_q)
        StIdle: begin
          command_q <= command_i;
          if (command_valid_i && command_ready_o) state_q <= StCheck;
        end
        StCheck: begin
          outcome_q <= '0;
          outcome_q.verdict <= verdict_i;
          if (checked_i) state_q <= dispatch_o && runs_i ? StRun : StOutcome;
        end
        StRun: begin
          if (hands_over) begin
            state_q <= StIdle;
            trails_q <= 1'b1;
            trailing_domain_q <= command_q.domain;
            trailing_outcome_q <= done_outcome_i;
            results_q <= results_i;
          end else if (done_i) begin
            state_q <= StFlush;
            outcome_q <= done_outcome_i;
          end
        end
        StFlush: begin
          if (writes_done_i) begin
            state_q <= StOutcome;
            if (writes_failed_i) outcome_q <= Lost;
          end
        end
        StOutcome: if (outcome_ready_i && !trails_q) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
      if (stuck) begin
        fatal_q <= 1'b1;
        if (!trailing_ended) trailing_outcome_q <= Lost;
      end
      if ((stuck || fatal_q) && !(state_q inside {StIdle, StOutcome}) && !hands_over) begin
        state_q <= StOutcome;
        outcome_q <= Lost;
      end
    end
  end

  `NKV_ASSERT_STAYS(OutcomeStays_A, outcome_valid_o, outcome_ready_i, outcome_o, clear_i)

endmodule
