// TOPK FULL and INDEXER (ARITHMETIC.md section 6): reads every visible row and ranks, INDEXER by one score
// for all rows. Begins when the query rows and the page list are on chip. A page that fails ends the command
// with its verdict once the pass is over; nothing is written then.

module nkv_topk
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,           // Before each command.

  input  logic           start_i,
  input  topk_command_t  command_i,         // Checked; held until done, as all that follows.
  input  exponent_t      query_exponent_i[Rows],
  input  exponent_t      key_exponent_i,    // Ek
  input  logic [31:0]    weight_i[Rows],    // INDEXER's.
  output logic           done_o,            // For one cycle.
  output outcome_t       outcome_o,

  output logic           pass_start_o,
  output pass_setup_t    pass_o,
  input  pass_report_t   pass_i,
  input  logic           body_valid_i,
  output logic           body_ready_o,
  input  page_body_t     body_i,
  output logic           no_rows_o,         // For now no row is scored.

  input  logic           scale_valid_i,     // Bursts of KEY_SCALES.
  output logic           scale_ready_o,
  input  burst_t         scale_i,

  // Rows to score, and their scores (nkv_key_scores).
  output logic           page_valid_o,
  input  logic           page_ready_i,
  output page_body_t     page_o,
  input  logic           score_valid_i,
  output logic           score_ready_o,
  input  logic [$clog2(PageTokens)-1:0] score_token_i,
  input  logic           score_last_i,
  input  score_t         score_i[Rows],

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  typedef enum logic [3:0] {
    StIdle,
    StRows,      // Until all rows have been read,
    StScores,    // and the last score is ranked.
    StSelect,    // Selectors begin, if no score has begun them.
    StFinish,
    StResult,
    StWrite,
    StFail,
    StDone
  } state_e;

  state_e   state_q;
  logic     begun_q;  // What the state starts has been started.
  outcome_t outcome_q;
  wire is_indexer = command_i.mode == SelectIndexer;
  assign outcome_o = outcome_q;
  assign no_rows_o = state_q inside {StSelect, StFinish, StResult, StWrite};

  // ---- The pass: all rows, with their key scales ----
  logic [PageArrayCount-1:0] arrays;
  always_comb begin
    arrays = '0;
    arrays[PageArrayKExponents] = 1'b1;
    arrays[PageArrayKRows] = 1'b1;
    arrays[PageArrayKeyScales] = 1'b1;
  end
  assign pass_start_o = state_q == StRows && !begun_q;
  assign pass_o = '{
      tokens: command_i.tokens,
      window: command_i.window,
      sinks: command_i.sinks,
      first_index: '0,
      demand: '{keys: 1'b1, raw_keys: is_indexer, head_dim: command_i.head_dim, default: '0},
      plan: '{whole: arrays, default: '0},
      erase: 1'b0
  };

  // ---- Scores to ranks to results ----
  logic selects_ready, started, answered, scores_over, scale_nonfinite, written;
  logic [31:0] found;
  wire selects = state_q inside {StSelect, StFinish} && !begun_q;
  wire writes_result = state_q inside {StResult, StWrite};

  nkv_topk_ranks u_ranks (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .command_i,
    .indexer_i     (is_indexer),
    .query_exponent_i,
    .key_exponent_i,
    .weight_i,
    .ranks_i       (writes_result || state_q inside {StRows, StScores, StSelect, StFinish}),
    .select_valid_i(selects),
    .select_ready_o(selects_ready),
    .select_i      (state_q == StSelect ? nkv_select_pkg::SelectStart : nkv_select_pkg::SelectFinish),
    .started_o     (started),
    .answered_o    (answered),
    .found_o       (found),
    .idle_o        (scores_over),
    .nonfinite_o   (scale_nonfinite),
    .body_valid_i,
    .body_ready_o,
    .body_i,
    .scale_valid_i,
    .scale_ready_o,
    .scale_i,
    .page_valid_o,
    .page_ready_i,
    .page_o,
    .score_valid_i,
    .score_ready_o,
    .score_token_i,
    .score_last_i,
    .score_i,
    .writes_i      (writes_result),
    .write_start_i (state_q == StResult),
    .written_o     (written),
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  // ---- The order of all that ----
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      begun_q <= 1'b0;
      outcome_q <= '0;
      done_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      begun_q <= 1'b0;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      begun_q <= state_q == StRows || (selects && selects_ready) || begun_q;
      unique case (state_q)
        StIdle: begin
          outcome_q <= '0;
          if (start_i) go_to(StRows);
        end
        StRows: begin
          if (begun_q && pass_i.done) begin
            outcome_q.stream_bursts <= pass_i.bursts;
            outcome_q.flags[CompletionFlagNonfinite] <= pass_i.nonfinite;
            go_to(StScores);
          end
        end
        StScores: if (scores_over) go_to(pass_i.failed ? StFail : started ? StFinish : StSelect);
        StSelect: if (selects_ready) go_to(StFinish);
        StFinish: begin
          if (scale_nonfinite) outcome_q.flags[CompletionFlagNonfinite] <= 1'b1;
          if (begun_q && answered) go_to(StResult);
        end
        StResult: begin
          outcome_q.count <= found;
          go_to(StWrite);
        end
        StWrite: if (written) go_to(StDone);
        StFail: begin
          outcome_q <= '0;
          outcome_q.verdict <= '{status: pass_i.failure.status, detail: 64'(pass_i.failure.index)};
          go_to(StDone);
        end
        StDone: begin
          go_to(StIdle);
          done_o <= 1'b1;
        end
        default: go_to(StIdle);
      endcase
    end
  end

  task automatic go_to(state_e state);
    state_q <= state;
    begun_q <= 1'b0;
  endtask

  wire unused = ^command_i;

endmodule
