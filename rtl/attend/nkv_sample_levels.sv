// Levels of tokens from the logits of their midpoints, and how many tokens of each level a row has
// (ARITHMETIC.md 8.2). Four tokens of all rows per cycle; their levels come 4 cycles later and are
// counted in the cycle after that. Tokens that were counted may be taken back, four a cycle, while none are
// counted. A clear takes 152 cycles.

module nkv_sample_levels
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_sample_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       clear_i,          // Before each round, while no tokens are on their way.
  output logic       ready_o,          // Cleared.

  input  reference_t reference_i[Rows],  // M_t, held.
  input  logic       valid_i,          // Only while ready_o.
  input  logic [TailTokens-1:0] counts_i,  // Outside the exact set.
  input  logit_t     logit_i[Rows][TailTokens],

  output logic       valid_o,
  output level_t     level_o[Rows][TailTokens],

  input  logic [TailTokens-1:0] remove_i,  // Tokens that no longer count,
  input  level_t     remove_level_i[Rows][TailTokens],  // and their levels.

  input  row_index_t read_row_i,       // Counts, a cycle later, while none come or go.
  input  level_t     read_level_i,
  output count_t     count_o
);

  localparam int unsigned Latency = 4;
  localparam int unsigned BelowBits = LogitBits + 1;
  localparam int unsigned NearBits = 22;       // Of what lies less than 64 octaves below M_t.
  localparam int unsigned SlopeShift = 17;
  localparam level_t LastLevel = level_t'(Levels - 1);
  typedef logic signed [BelowBits-1:0] below_t;
  typedef logic [NearBits+2:0] steps_t;

  logic [Latency-1:0] valid_q;
  logic [TailTokens-1:0] counts_q[Latency];
  assign valid_o = valid_q[Latency-1];

  // ---- A clear passes over all levels ----
  logic   clearing_q;
  level_t cleared_q;
  assign ready_o = !clearing_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      clearing_q <= 1'b1;
      cleared_q <= '0;
    end else begin
      valid_q <= {valid_q[Latency-2:0], valid_i};
      if (clear_i) begin
        clearing_q <= 1'b1;
        cleared_q <= '0;
      end else if (clearing_q) begin
        cleared_q <= cleared_q + 1'b1;
        clearing_q <= cleared_q != LastLevel;
      end
    end
  end
  always_ff @(posedge clk_i) begin
    counts_q[0] <= counts_i;
    for (int unsigned i = 1; i < Latency; i++) counts_q[i] <= counts_q[i-1];
  end

  // ---- Lanes ----
  typedef logic [CountBits-1:0] lane_count_t;
  lane_count_t lane_count[Rows][TailTokens];

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    below_t top_q;  // (M_t + 1) 2^16 - 1
    always_ff @(posedge clk_i) top_q <= {below_t'(reference_i[r]) <<< 16} | below_t'(16'hFFFF);

    for (genvar t = 0; t < int'(TailTokens); t++) begin : g_token
      logit_t logit_q;
      below_t below_q;
      steps_t steps_q;
      logic   far_q;
      level_t level_q;
      wire steps_t level_wide = steps_q >> SlopeShift;

      always_ff @(posedge clk_i) begin
        logit_q <= logit_i[r][t];
        below_q <= top_q - below_t'(logit_q);
        far_q <= below_q[BelowBits-1:NearBits] != '0;
        // By 7, without a multiplier.
        steps_q <= {below_q[NearBits-1:0], 3'd0} - steps_t'(below_q[NearBits-1:0]);
        level_q <= far_q || level_wide > steps_t'(LastLevel) ? LastLevel : level_t'(level_wide);
      end
      assign level_o[r][t] = level_q;

      // Read, increased and written in one cycle, so that a level may come again at once.
      (* ram_style = "distributed" *) lane_count_t counts[Levels];
      wire adds = valid_o && counts_q[Latency-1][t];
      wire level_t place = clearing_q ? cleared_q : adds ? level_q
          : remove_i[t] ? remove_level_i[r][t] : read_level_i;
      wire lane_count_t old = counts[place];
      always_ff @(posedge clk_i) begin
        if (clearing_q || adds || remove_i[t]) begin
          counts[place] <= clearing_q ? '0 : adds ? old + 1'b1 : old - 1'b1;
        end
      end
      assign lane_count[r][t] = old;
    end
  end

  always_ff @(posedge clk_i) begin
    count_o <= lane_count[read_row_i][0] + lane_count[read_row_i][1] + lane_count[read_row_i][2] +
        lane_count[read_row_i][3];
  end

endmodule
