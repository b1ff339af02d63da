// The selectors of TOPK, one for each query row in use, which take every candidate together: starts
// them, asks all for their best k, and keeps the answers.
//
// The first candidate starts the rows, and its scores lay their bins: the largest of them falls 128 bins
// from the reference. With `indexer_i` there are 512 bins to each power of two around the first score.
//
// All rows wait while one cuts its store. Those that are nearly as full cut theirs meanwhile.

module nkv_rank_rows
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_select_pkg::ReferenceShift;
  import nkv_select_pkg::select_command_e;
  import nkv_select_pkg::token_t;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,           // Before each command.

  input  group_t          rows_i,            // In use; held during a command, as k is.
  input  logic [12:0]     k_i,
  input  logic            indexer_i,         // Scores are R of section 6.

  input  logic            command_valid_i,   // Taken with command_ready_o.
  output logic            command_ready_o,
  input  select_command_e command_i,
  output logic            started_o,         // By the first candidate.
  output logic            answered_o,        // All rows, since the last command.
  output logic [15:0]     count_o[Rows],     // Tokens that follow.

  input  logic            candidate_valid_i,
  output logic            candidate_ready_o,
  input  token_t          candidate_i,
  input  score_t          candidate_score_i[Rows],

  input  row_index_t      out_row_i,         // Whose best tokens are taken.
  output logic            out_valid_o,
  input  logic            out_ready_i,
  output token_t          out_token_o,
  output score_t          out_score_o
);

  logic [Rows-1:0] in_use, ready, in_ready, answered_q, out_valid;
  score_t          out_score[Rows];
  token_t          out_token[Rows];
  logic            started_q, held_q;

  assign started_o = started_q;
  assign answered_o = &answered_q;
  assign command_ready_o = &(ready | ~in_use);
  assign out_valid_o = out_valid[out_row_i];
  assign out_token_o = out_token[out_row_i];
  assign out_score_o = out_score[out_row_i];

  // ---- Bins laid by the first candidate ----
  localparam int unsigned FirstBits = 11;
  wire starts = candidate_valid_i && command_ready_o && !started_q;
  logic [ScoreBits-1:ReferenceShift] magnitude;
  logic [5:0] first_shift;
  // In bins of 16 << shift times 2^32: 2^39 is 1/512 of an exponent of R.
  localparam logic [5:0] IndexerShift = 6'(nkv_indexer_pkg::FractionBits - 9 - ReferenceShift - 4);
  always_comb begin
    magnitude = '0;
    for (int unsigned r = 0; r < Rows; r++) begin
      magnitude |= candidate_score_i[r][ScoreBits-1:ReferenceShift] ^
          {(ScoreBits - ReferenceShift) {candidate_score_i[r][ScoreBits-1]}};
    end
    first_shift = '0;
    for (int unsigned i = FirstBits; i < ScoreBits - ReferenceShift; i++) begin
      if (magnitude[ReferenceShift+i]) first_shift = 6'(i - FirstBits + 1);
    end
    if (indexer_i) first_shift = IndexerShift;
  end

  wire taken = starts || (command_valid_i && command_ready_o);
  wire select_command_e command = starts ? nkv_select_pkg::SelectStart : command_i;
  assign candidate_ready_o = &(in_ready | ~in_use) && started_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) started_q <= 1'b0;
    else if (clear_i) started_q <= 1'b0;
    else if (starts) started_q <= 1'b1;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) held_q <= 1'b0;
    else held_q <= (in_use & ~in_ready) != '0;
  end

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    logic answer_valid, unused_out_last;
    logic [13:0] answer_count;
    // What a row is still to give when a command is cleared is given to nobody.
    logic drops_q;
    assign in_use[r] = group_t'(r) < rows_i;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) drops_q <= 1'b0;
      else drops_q <= clear_i || (drops_q && !ready[r]);
    end

    nkv_select u_select (
      .clk_i,
      .rst_ni,
      .command_valid_i(taken && in_use[r]),
      .command_ready_o(ready[r]),
      .command_i      (command),
      .k_i,
      .reference_i    (indexer_i ? 31'(magnitude)
                       : 31'(signed'(candidate_score_i[r][ScoreBits-1:ReferenceShift]))),
      .shift_i        (first_shift),
      .held_i         (held_q),
      .in_valid_i     (candidate_valid_i && candidate_ready_o && in_use[r]),
      .in_ready_o     (in_ready[r]),
      .in_score_i     (candidate_score_i[r]),
      .in_token_i     (candidate_i),
      .answer_valid_o (answer_valid),
      .answer_count_o (answer_count),
      .out_valid_o    (out_valid[r]),
      .out_ready_i    (drops_q || (out_ready_i && out_row_i == row_index_t'(r))),
      .out_last_o     (unused_out_last),
      .out_score_o    (out_score[r]),
      .out_token_o    (out_token[r])
    );

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        answered_q[r] <= 1'b0;
        count_o[r] <= '0;
      end else if (taken) begin
        answered_q[r] <= !in_use[r];
      end else if (answer_valid) begin
        answered_q[r] <= 1'b1;
        count_o[r] <= 16'(answer_count);
      end
    end
  end

endmodule
