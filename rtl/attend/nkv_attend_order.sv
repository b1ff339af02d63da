// What ATTEND does one after the other: starts, has its pages read by a pass of its own (DENSE) or by
// nkv_topk, hands the command over once all scores are logits, and sets its sums aside. BOUNDED may become
// DENSE on the way, which then begins anew.

module nkv_attend_order
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,          // Before each command.

  input  logic            start_i,
  input  attend_command_t command_i,        // Checked; held while not idle_o.
  input  logic            query_ready_i,    // The query rows are here.
  input  logic            begins_i,         // TAIL and BOUNDED: midpoints have come, and tables can be built.
  input  logic            scored_i,         // Of the pages so far: all scores are logits,
  input  logic            pages_done_i,     // and all values have been added.
  input  logic            results_free_i,   // Those of the command before have been written.
  input  logic [31:0]     largest_bound_i,
  output logic            idle_o,
  output logic            done_o,           // For one cycle: all but the results is done with.
  output outcome_t        outcome_o,
  output logic            results_left_o,   // With done_o: there are results.

  output logic            starts_o,
  output logic            sums_o,           // Only values are still being added.
  output logic            chosen_o,         // Tokens are, by nkv_topk,
  output logic            bounded_o,        // in rounds.
  output logic            again_o,          // For one cycle: what was added is forgotten.
  output logic            dense_after_all_o,
  output logic [7:0]      rounds_o,
  output logic            any_sampled_o,    // Results are those of BOUNDED's sums; else nothing was visible.

  input  logic            searched_i,       // The plane search has ended.
  input  outcome_t        search_outcome_i,
  output logic            pass_start_o,
  output pass_setup_t     pass_o,
  input  pass_report_t    pass_i
);

  typedef enum logic [2:0] {
    StIdle,
    StStart,     // TAIL: until there are midpoints, whose logits tables then give.
    StPass,
    StScores,    // Until all logits are there, and the results of the command before have been written.
    StAgain,     // BOUNDED becomes DENSE.
    StFailed,    // Until what was asked for has been used up.
    StSums       // Until the last page's values have been added.
  } state_e;

  state_e   state_q;
  logic     searched_q;
  logic     dense_q;       // DENSE after all.
  outcome_t search_q;

  assign idle_o = state_q == StIdle;
  assign starts_o = state_q == StStart;
  assign sums_o = state_q == StSums;
  assign again_o = state_q == StAgain;
  assign chosen_o = command_i.mode != AttendModeDense && !dense_q;
  assign bounded_o = command_i.mode == AttendModeBounded && !dense_q;
  assign dense_after_all_o = dense_q;
  assign rounds_o = search_q.rounds;
  assign any_sampled_o =
      bounded_o && (search_q.rounds != '0 || search_q.flags[CompletionFlagCapped]);

  logic [PageArrayCount-1:0] arrays;
  always_comb begin
    arrays = '0;
    arrays[PageArrayKExponents] = 1'b1;
    arrays[PageArrayKRows] = 1'b1;
    arrays[PageArrayVExponents] = 1'b1;
    arrays[PageArrayVRows] = 1'b1;
  end

  assign pass_start_o = state_q == StStart && !chosen_o;
  assign pass_o = '{
      tokens: command_i.tokens,
      window: command_i.window,
      sinks: command_i.sinks,
      first_index: '0,
      demand: '{
          whole_header: 1'b1,
          any_codec: 1'b0,
          keys: 1'b1,
          values: 1'b1,
          raw_keys: 1'b0,
          alike: 1'b0,
          any_values: 1'b0,
          head_dim: command_i.head_dim,
          value_dim: command_i.value_dim
      },
      plan: '{whole: arrays, default: '0},
      erase: 1'b0
  };

  wire passed = chosen_o ? searched_q : pass_i.done && query_ready_i;
  wire failed = chosen_o ? search_q.verdict.status != StatusOk : pass_i.failed;
  wire falls_back = bounded_o && search_q.flags[CompletionFlagDenseFallback];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      done_o <= 1'b0;
      outcome_o <= '0;
      results_left_o <= 1'b0;
      searched_q <= 1'b0;
      search_q <= '0;
      dense_q <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      done_o <= 1'b0;
      searched_q <= 1'b0;
      search_q <= '0;
      dense_q <= 1'b0;
    end else begin
      done_o <= 1'b0;
      if (searched_i) begin
        searched_q <= 1'b1;
        search_q <= search_outcome_i;
      end
      unique case (state_q)
        StIdle: if (start_i) state_q <= StStart;
        StStart: if (!chosen_o || begins_i || searched_q) state_q <= StPass;
        StPass: begin
          if (passed) begin
            state_q <= falls_back ? StAgain : failed ? StFailed : StScores;
            // After all what was read before counts, too.
            outcome_o <= search_q;
            if (!failed) begin
              outcome_o.count <= 32'(command_i.group);
              outcome_o.bound <= any_sampled_o ? largest_bound_i : '0;
            end
            if (!chosen_o && failed) begin
              outcome_o <= '0;
              outcome_o.verdict <= '{
                  status: pass_i.failure.status,
                  detail: 64'(pass_i.failure.index)
              };
            end else if (!chosen_o) begin
              outcome_o.stream_bursts <= search_q.stream_bursts + pass_i.bursts;
              outcome_o.flags[CompletionFlagNonfinite] <= pass_i.nonfinite;
            end
          end
        end
        StAgain: begin
          dense_q <= 1'b1;
          state_q <= StStart;
        end
        StScores: begin
          if (scored_i && results_free_i) begin
            state_q <= StSums;
            done_o <= 1'b1;
            results_left_o <= 1'b1;
          end
        end
        StFailed: begin
          if (pages_done_i) begin
            state_q <= StIdle;
            done_o <= 1'b1;
            results_left_o <= 1'b0;
          end
        end
        StSums: if (pages_done_i) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
    end
  end

  wire unused = ^{command_i, pass_i};

endmodule
