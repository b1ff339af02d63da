// Levels, draws and what comes of them (ARITHMETIC.md 8.2 and 8.3), from pages that pass through
// nkv_tail_rest, four tokens of all rows a cycle. A walk over the pages does one of three things:
//
//   count   tokens of each level, for the thresholds;
//   draw    each page's sample, as a set, 12 cycles after its last four tokens, which then no longer
//           counts;
//   give    the same draws once more, token by token with their logits, which wait here until they
//           are taken: 32 times four tokens, for which the pages before are held up.

module nkv_sample_pick
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_sample_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       clear_i,            // Before each command, while no tokens are on their way.

  input  logic       clear_counts_i,     // While no tokens are on their way.
  output logic       counts_clear_o,
  input  logic       start_i,            // Of a round; what follows is held until its end.
  input  logic [31:0] seed_i,
  input  logic [2:0] round_i,
  input  group_t     rows_i,
  input  reference_t reference_i[Rows],
  input  level_t     threshold_i[Rows],
  output logic       ready_o,            // Draws may be made.

  input  pick_e      pick_i,             // What the walk is for.
  input  logic       word_i,             // Four times four tokens were asked for,
  output logic       hold_o,             // no more for now.
  input  tail_quad_t quad_i,

  output logic       page_valid_o,       // A page has passed,
  output token_mask_t drawn_o,           // of which these were drawn,
  output token_mask_t saturated_o,       // and these are read anyway.

  output logic       sampled_valid_o,
  input  logic       sampled_ready_i,
  output logit_t     sampled_logit_o[Rows],
  output halvings_t  sampled_halvings_o,
  output sample_group_t sampled_group_o,

  input  row_index_t read_row_i,
  input  level_t     read_level_i,
  output count_t     count_o
);

  localparam int unsigned LevelLatency = 4;
  localparam int unsigned DrawLatency = 8;
  localparam int unsigned Queue = 32;
  localparam int unsigned WordQuads = nkv_scan_pkg::WordQuads;
  localparam int unsigned QueueBits = $clog2(Queue);

  // ---- What goes along ----
  typedef struct packed {
    logic valid;
    logic last;
    logic [$clog2(PageQuads)-1:0] quad;
    logic [TailTokens-1:0] saturated;
  } side_t;
  typedef struct packed {
    page_index_t page;
    logic [$clog2(PageQuads)-1:0] quad;
    logic [TailTokens-1:0] counts;
  } level_side_t;
  side_t       side;
  level_side_t level_side;

  nkv_delay #(
    .Width ($bits(side_t)),
    .Cycles(LevelLatency + DrawLatency)
  ) u_side (
    .clk_i,
    .data_i({quad_i.valid, quad_i.last, quad_i.quad, quad_i.saturated}),
    .data_o(side)
  );
  nkv_delay #(
    .Width ($bits(level_side_t)),
    .Cycles(LevelLatency)
  ) u_level_side (
    .clk_i,
    .data_i({quad_i.page, quad_i.quad, quad_i.counts}),
    .data_o(level_side)
  );

  // ---- Levels ----
  logit_t logit[Rows][TailTokens];
  level_t level[Rows][TailTokens];
  logic   level_valid;
  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) begin
      for (int unsigned t = 0; t < TailTokens; t++) logit[r][t] = quad_i.logit[r][t];
    end
  end

  // Those drawn leave the counts: their levels wait for the draw.
  typedef logic [Rows-1:0][TailTokens-1:0][LevelBits-1:0] levels_t;
  levels_t levels_now, levels_late;
  level_t  late_level[Rows][TailTokens];
  logic    draws_valid;
  logic [TailTokens-1:0] drawn;
  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) begin
      for (int unsigned t = 0; t < TailTokens; t++) begin
        levels_now[r][t] = level[r][t];
        late_level[r][t] = levels_late[r][t];
      end
    end
  end
  nkv_delay #(
    .Width ($bits(levels_t)),
    .Cycles(DrawLatency)
  ) u_late_levels (
    .clk_i,
    .data_i(levels_now),
    .data_o(levels_late)
  );

  nkv_sample_levels u_levels (
    .clk_i,
    .rst_ni,
    .clear_i     (clear_counts_i),
    .ready_o     (counts_clear_o),
    .reference_i,
    .valid_i     (quad_i.valid),
    .counts_i    (pick_i == PickCount ? quad_i.counts : '0),
    .logit_i     (logit),
    .valid_o     (level_valid),
    .level_o     (level),
    .remove_i    (draws_valid && pick_i == PickDraw ? drawn : '0),
    .remove_level_i(late_level),
    .read_row_i,
    .read_level_i,
    .count_o
  );

  // ---- Draws ----
  halvings_t     halvings[TailTokens];
  sample_group_t group[TailTokens];

  nkv_sample_draw u_draw (
    .clk_i,
    .rst_ni,
    .start_i,
    .seed_i,
    .round_i,
    .rows_i,
    .threshold_i,
    .ready_o,
    .valid_i   (level_valid && pick_i != PickCount),
    .token_i   ({level_side.page, level_side.quad, 2'b00}),
    .counts_i  (pick_i == PickNone ? '0 : level_side.counts),
    .level_i   (level),
    .valid_o   (draws_valid),
    .drawn_o   (drawn),
    .halvings_o(halvings),
    .group_o   (group)
  );

  // ---- Pages ----
  token_mask_t drawn_q, saturated_q;
  logic        page_q;
  always_ff @(posedge clk_i) begin
    if (side.valid) begin
      drawn_q[{side.quad, 2'b00}+:TailTokens] <= draws_valid ? drawn : '0;
      saturated_q[{side.quad, 2'b00}+:TailTokens] <= side.saturated;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) page_q <= 1'b0;
    else page_q <= side.valid && side.last && !clear_i;
  end
  assign page_valid_o = page_q;
  assign drawn_o = drawn_q;
  assign saturated_o = saturated_q;

  // ---- Tokens with their logits ----
  typedef struct packed {
    logic          [TailTokens-1:0] drawn;
    halvings_t     [TailTokens-1:0] halvings;
    sample_group_t [TailTokens-1:0] group;
  } draws_t;
  draws_t draws_in, draws;
  logit_t [Rows-1:0][TailTokens-1:0] logits;
  logic   logits_valid, waiting_valid, pop, unused_logits_ready, unused_draws_ready;
  logic [QueueBits:0] unused_logits_used, unused_draws_used;
  logic [QueueBits+1:0] asked_q;             // Tokens by four, in the queue or on their way.
  logic [TailTokens-1:0] given_q;            // Of the oldest four.
  wire gives = pick_i inside {PickGive, PickNone};

  always_comb begin
    draws_in.drawn = drawn;
    for (int unsigned t = 0; t < TailTokens; t++) begin
      draws_in.halvings[t] = halvings[t];
      draws_in.group[t] = group[t];
    end
  end
  nkv_fifo #(
    .T(logit_t [Rows-1:0][TailTokens-1:0]),
    .Depth(Queue)
  ) u_logits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (gives && quad_i.valid),
    .in_ready_o (unused_logits_ready),
    .in_data_i  (quad_i.logit),
    .out_valid_o(logits_valid),
    .out_ready_i(pop),
    .out_data_o (logits),
    .used_o     (unused_logits_used)
  );
  nkv_fifo #(
    .T(draws_t),
    .Depth(Queue)
  ) u_draws (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (gives && draws_valid),
    .in_ready_o (unused_draws_ready),
    .in_data_i  (draws_in),
    .out_valid_o(waiting_valid),
    .out_ready_i(pop),
    .out_data_o (draws),
    .used_o     (unused_draws_used)
  );

  wire [TailTokens-1:0] left = draws.drawn & ~given_q;
  wire [TailTokens-1:0] first = left & (~left + 1'b1);
  wire given = sampled_valid_o && sampled_ready_i;
  assign sampled_valid_o = waiting_valid && left != '0;
  assign pop = waiting_valid && (left == '0 || (given && left == first));
  assign hold_o = gives && asked_q > (QueueBits + 2)'(Queue - WordQuads);

  always_comb begin
    sampled_halvings_o = '0;
    sampled_group_o = '0;
    for (int unsigned r = 0; r < Rows; r++) sampled_logit_o[r] = '0;
    for (int unsigned t = 0; t < TailTokens; t++) begin
      if (first[t]) begin
        sampled_halvings_o = draws.halvings[t];
        sampled_group_o = draws.group[t];
        for (int unsigned r = 0; r < Rows; r++) sampled_logit_o[r] = logits[r][t];
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      asked_q <= '0;
      given_q <= '0;
    end else if (clear_i) begin
      asked_q <= '0;
      given_q <= '0;
    end else begin
      asked_q <= asked_q + (gives && word_i ? (QueueBits + 2)'(WordQuads) : '0) -
          (QueueBits + 2)'(pop);
      if (pop) given_q <= '0;
      else if (given) given_q <= given_q | first;
    end
  end

  wire unused = logits_valid;

endmodule
