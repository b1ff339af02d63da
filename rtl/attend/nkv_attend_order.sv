// What ATTEND does one after the other: starts, has its pages read, hands the command over once all scores
// are logits, and sets its sums aside.

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
  input  logic            scored_i,         // Of the pages so far: all scores are logits,
  input  logic            pages_done_i,     // and all values have been added.
  input  logic            results_free_i,   // Those of the command before have been written.
  output logic            idle_o,
  output logic            done_o,           // For one cycle: all but the results is done with.
  output outcome_t        outcome_o,
  output logic            results_left_o,   // With done_o: there are results.
  output logic            sums_o,           // Only values are still being added.

  output logic            pass_start_o,
  output pass_setup_t     pass_o,
  input  pass_report_t    pass_i
);

  typedef enum logic [2:0] {
    StIdle,
    StStart,
    StPass,
    StScores,    // Until all logits are there, and the results of the command before have been written.
    StFailed,    // Until what was asked for has been used up.
    StSums       // Until the last page's values have been added.
  } state_e;

  state_e state_q;

  assign idle_o = state_q == StIdle;
  assign sums_o = state_q == StSums;

  logic [PageArrayCount-1:0] arrays;
  always_comb begin
    arrays = '0;
    arrays[PageArrayKExponents] = 1'b1;
    arrays[PageArrayKRows] = 1'b1;
    arrays[PageArrayVExponents] = 1'b1;
    arrays[PageArrayVRows] = 1'b1;
  end

  assign pass_start_o = state_q == StStart;
  assign pass_o = '{
      tokens: command_i.tokens,
      window: command_i.window,
      sinks: command_i.sinks,
      first_index: '0,
      demand: '{
          any_codec: 1'b0,
          keys: 1'b1,
          values: 1'b1,
          raw_keys: 1'b0,
          alike: 1'b0,
          any_values: 1'b0,
          no_codes: 1'b0,
          head_dim: command_i.head_dim,
          value_dim: command_i.value_dim
      },
      plan: '{whole: arrays, default: '0},
      erase: 1'b0
  };

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      done_o <= 1'b0;
      outcome_o <= '0;
      results_left_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      unique case (state_q)
        StIdle: if (start_i) state_q <= StStart;
        StStart: state_q <= StPass;
        StPass: begin
          if (pass_i.done && query_ready_i) begin
            state_q <= pass_i.failed ? StFailed : StScores;
            outcome_o <= '0;
            if (pass_i.failed) begin
              outcome_o.verdict <= '{
                  status: pass_i.failure.status,
                  detail: 64'(pass_i.failure.index)
              };
            end else begin
              outcome_o.count <= 32'(command_i.group);
              outcome_o.stream_bursts <= pass_i.bursts;
              outcome_o.flags[CompletionFlagNonfinite] <= pass_i.nonfinite;
            end
          end
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

  wire unused = ^command_i;

endmodule
