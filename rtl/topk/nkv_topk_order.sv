// The order of what TOPK does, and of TAIL's and BOUNDED's search: the state, what holds for all of
// the command, and its outcome.

module nkv_topk_order
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_scan_pkg::planes_t;
  import nkv_topk_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,           // Before each command.

  input  logic         start_i,
  input  logic         tail_i,            // An ATTEND TAIL, or BOUNDED; held, as all of the command.
  input  logic         bounded_i,
  input  logic         full_i,            // FULL or INDEXER.
  input  logic         filter_i,          // SIGN or DIGEST.
  input  logic         none_wanted_i,     // Its k is 0.
  input  logic [13:0]  seeds_wanted_i,
  input  planes_t      scan_planes_i,
  output logic         done_o,            // For one cycle.
  output outcome_t     outcome_o,

  output state_e       state_o,
  output logic         begun_o,           // What the state starts has been started,
  input  logic         can_begin_i,       // as now it can be.
  input  progress_t    progress_i,
  input  logic         scanned_i,         // A page goes to the plane stage,
  input  logic [6:0]   visible_i,         // with so many tokens.

  output logic         started_o,         // The plane stage has been told.
  output logic         first_page_o,      // None has been scanned.
  output logic         all_seeds_o,       // There are no more tokens than seeds.
  output planes_t      planes_o,          // That midpoints have.

  // For the outcome.
  input  pass_report_t pass_i,
  input  nkv_sample_pkg::rounds_outcome_t rounds_i,
  input  logic [31:0]  refine_bursts_i,
  input  page_index_t  poisoned_page_i,
  input  logic [31:0]  found_i,
  input  logic         nonfinite_i
);

  state_e  state_q, after_scores_q;
  logic    begun_q, started_q, first_page_q, all_seeds_q;
  planes_t planes_q;
  logic [ListTokensLog2:0] visible_q;
  outcome_t outcome_q;
  assign state_o = state_q;
  assign begun_o = begun_q;
  assign started_o = started_q;
  assign first_page_o = first_page_q;
  assign all_seeds_o = all_seeds_q;
  assign planes_o = planes_q;
  assign outcome_o = outcome_q;

  wire op_over = begun_q && progress_i.op_ready;
  // No more visible tokens than seeds.
  wire few = visible_q <= (ListTokensLog2 + 1)'(seeds_wanted_i);
  wire answered = begun_q && progress_i.answered;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      after_scores_q <= StIdle;
      begun_q <= 1'b0;
      planes_q <= '0;
      all_seeds_q <= 1'b0;
      visible_q <= '0;
      first_page_q <= 1'b0;
      started_q <= 1'b0;
      outcome_q <= '0;
      done_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      begun_q <= 1'b0;
      started_q <= 1'b0;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      if (state_q != StIdle && !begun_q && can_begin_i) begun_q <= 1'b1;
      if (scanned_i) begin
        first_page_q <= 1'b0;
        visible_q <= visible_q + (ListTokensLog2 + 1)'(visible_i);
      end
      unique case (state_q)
        StIdle: begin
          begun_q <= 1'b0;
          outcome_q <= '0;
          visible_q <= '0;
          first_page_q <= 1'b1;
          planes_q <= scan_planes_i;
          if (start_i) state_q <= full_i ? StFull : StStart;
        end
        StStart: begin
          if (!begun_q && progress_i.op_ready) started_q <= 1'b1;
          if (op_over && progress_i.query_taken) begin
            go_to(progress_i.any_pages ? StScanOp : tail_i ? StDone : StSelect);
          end
        end
        StScanOp: if (!begun_q && progress_i.op_ready) go_to(StScan);
        StScan: begin
          if (begun_q && pass_i.done) begin
            outcome_q.stream_bursts <= pass_i.bursts;
            outcome_q.flags[CompletionFlagNonfinite] <= pass_i.nonfinite;
            if (pass_i.failed) go_to(StFail);
            else if (progress_i.op_ready) go_to(tail_i ? StTail : StSelect);
          end
        end
        StSelect: begin
          all_seeds_q <= few;
          if (progress_i.selected) begin
            if (visible_q == '0) go_to(StFinish);
            else if (few) go_to(StBest);
            else go_to(StThreshold);
          end
        end
        StTail: begin
          all_seeds_q <= few;
          if (visible_q == '0) go_to(StDone);
          else if (!progress_i.visits_wait && bounded_i) go_to(StRounds);
          else if (!progress_i.visits_wait) begin
            go_to(none_wanted_i || few ? StBest : StThreshold);
          end
        end
        StRounds: begin
          if (progress_i.rounds_done) begin
            outcome_q.stream_bursts <= outcome_q.stream_bursts + rounds_i.sum_bursts;
            outcome_q.exact_bursts <= rounds_i.exact_bursts;
            outcome_q.value_bursts <= rounds_i.value_bursts;
            outcome_q.flags[CompletionFlagDenseFallback] <= rounds_i.dense;
            outcome_q.flags[CompletionFlagCapped] <= rounds_i.capped;
            outcome_q.rounds <= 8'(rounds_i.rounds);
            go_to(rounds_i.failed || progress_i.poisoned ? StFail : StDone);
          end
        end
        StThreshold: if (op_over) go_to(StBest);
        StBest: begin
          after_scores_q <= all_seeds_q || filter_i ? StFinish : StRank;
          if (begun_q && pass_i.done && (all_seeds_q || progress_i.op_ready)) begin
            outcome_q.exact_bursts <= pass_i.bursts;
            go_to(StScores);
            if (tail_i) begin
              outcome_q.value_bursts <= pass_i.value_bursts;
              outcome_q.stream_bursts <= outcome_q.stream_bursts + pass_i.sum_bursts;
              go_to(pass_i.failed || progress_i.poisoned ? StFail : StDone);
            end
          end
        end
        StScores: begin
          if (progress_i.scores_over) begin
            go_to(pass_i.failed || progress_i.poisoned ? StFail :
                  full_i ? (progress_i.full_started ? StFinish : StSelect) : after_scores_q);
          end
        end
        StRank: if (answered) go_to(StFreeze);
        StFreeze: if (op_over) go_to(planes_q == planes_t'(KeyPlanes) ? StLeft : StAlive);
        StAlive: begin
          if (op_over && progress_i.all_picked) begin
            go_to(progress_i.poisoned ? StFail : !progress_i.any_alive ? StFinish : StRefine);
          end
        end
        StRefine: begin
          if (op_over && progress_i.refined) begin
            outcome_q.refine_bursts <= outcome_q.refine_bursts + refine_bursts_i;
            planes_q <= planes_q + 3'd1;
            go_to(progress_i.poisoned ? StFail : planes_q + 3'd1 == planes_t'(KeyPlanes) ? StLeft : StAlive);
          end
        end
        StLeft: begin
          after_scores_q <= StFinish;
          if (begun_q && pass_i.done && progress_i.op_ready) begin
            outcome_q.exact_bursts <= outcome_q.exact_bursts + pass_i.bursts;
            go_to(StScores);
          end
        end
        StFull: begin
          if (begun_q && pass_i.done) begin
            outcome_q.stream_bursts <= pass_i.bursts;
            outcome_q.flags[CompletionFlagNonfinite] <= pass_i.nonfinite;
            go_to(StScores);
          end
        end
        StFinish: begin
          if (nonfinite_i) outcome_q.flags[CompletionFlagNonfinite] <= 1'b1;
          if (answered) go_to(StResult);
        end
        StResult: begin
          outcome_q.count <= found_i;
          go_to(StWrite);
        end
        StWrite: if (progress_i.written) go_to(StDone);
        StFail: begin
          outcome_q <= '0;
          outcome_q.verdict <= progress_i.poisoned ?
              verdict_t'({StatusPoison, 64'(poisoned_page_i)}) :
              verdict_t'({pass_i.failure.status, 64'(pass_i.failure.index)});
          go_to(StDone);
        end
        StDone: begin
          state_q <= StIdle;
          done_o <= 1'b1;
        end
        default: state_q <= StIdle;
      endcase
    end
  end

  task automatic go_to(state_e state);
    state_q <= state;
    begun_q <= 1'b0;
  endtask

endmodule
