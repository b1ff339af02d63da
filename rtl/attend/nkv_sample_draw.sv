// Draws a round's sample (ARITHMETIC.md 8.3) from the levels of four tokens per cycle, 8 cycles later
// at the output. A start takes 15 cycles before the first tokens may come.

module nkv_sample_draw
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_sample_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,

  input  logic          start_i,            // While no tokens are on their way.
  input  logic [31:0]   seed_i,
  input  logic [2:0]    round_i,            // From 1. Held, as the next two are.
  input  group_t        rows_i,             // In use.
  input  level_t        threshold_i[Rows],
  output logic          ready_o,

  input  logic          valid_i,            // Once ready_o.
  input  logic [ListTokensLog2-1:0] token_i,  // Index of the first; a multiple of four.
  input  logic [TailTokens-1:0] counts_i,   // May be drawn.
  input  level_t        level_i[Rows][TailTokens],

  output logic          valid_o,
  output logic [TailTokens-1:0] drawn_o,
  output halvings_t     halvings_o[TailTokens],
  output sample_group_t group_o[TailTokens]
);

  localparam logic [31:0] GoldenRatio = 32'h9E3779B9;
  localparam int unsigned MixLatency = 5;
  localparam int unsigned Latency = MixLatency + 2;  // Until the draw, whose result takes one more.

  // ---- The round's key: the seed through the first lane, and again ----
  logic [31:0] key_q, mixed[TailTokens];
  logic [3:0]  step_q;
  logic        keyed_q;
  assign ready_o = keyed_q;
  wire [31:0] key_in = step_q < 4'd7 ? seed_i + GoldenRatio : key_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      step_q <= '0;
      keyed_q <= 1'b0;
    end else if (start_i) begin
      step_q <= '0;
      keyed_q <= 1'b0;
    end else if (!keyed_q) begin
      step_q <= step_q + 1'b1;
      keyed_q <= step_q == 4'd13;
    end
  end
  always_ff @(posedge clk_i) begin
    if (!keyed_q && step_q == 4'd6) key_q <= mixed[0] + 32'(round_i);
    if (!keyed_q && step_q == 4'd13) key_q <= mixed[0];
  end

  // ---- Lanes ----
  typedef struct packed {
    logic valid;
    logic [TailTokens-1:0] counts;
    halvings_t [TailTokens-1:0] halvings;
  } side_t;

  function automatic halvings_t halvings_of(level_t level, level_t threshold);
    automatic level_t over = level - threshold;
    automatic logic [LevelBits-2:0] octaves = (LevelBits - 1)'(over >> 2) + 1'b1;
    if (level < threshold) return '0;
    return octaves > (LevelBits - 1)'(MostHalvings) ? halvings_t'(MostHalvings)
                                                    : halvings_t'(octaves);
  endfunction

  halvings_t row_halvings_q[Rows][TailTokens];
  logic      valid_1_q;
  logic [TailTokens-1:0] counts_1_q;
  side_t     least, late;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_1_q <= 1'b0;
    else valid_1_q <= valid_i;
  end
  always_ff @(posedge clk_i) begin
    counts_1_q <= counts_i;
    for (int unsigned r = 0; r < Rows; r++) begin
      for (int unsigned t = 0; t < TailTokens; t++) begin
        row_halvings_q[r][t] <= group_t'(r) < rows_i ? halvings_of(level_i[r][t], threshold_i[r])
                                                     : halvings_t'(MostHalvings);
      end
    end
  end

  always_comb begin
    least = '{
        valid: valid_1_q,
        counts: counts_1_q,
        halvings: {TailTokens{halvings_t'(MostHalvings)}}
    };
    for (int unsigned r = 0; r < Rows; r++) begin
      for (int unsigned t = 0; t < TailTokens; t++) begin
        if (row_halvings_q[r][t] < least.halvings[t]) least.halvings[t] = row_halvings_q[r][t];
      end
    end
  end
  nkv_delay #(
    .Width ($bits(side_t)),
    .Cycles(Latency - 1)
  ) u_side (
    .clk_i,
    .data_i(least),
    .data_o(late)
  );

  for (genvar t = 0; t < int'(TailTokens); t++) begin : g_lane
    logic [31:0] number_q, hash_q;
    if (t == 0) begin : g_key
      always_ff @(posedge clk_i) number_q <= keyed_q ? key_q ^ 32'(token_i) : key_in;
    end else begin : g_token
      always_ff @(posedge clk_i) number_q <= key_q ^ (32'(token_i) | 32'(t));
    end
    nkv_sample_mix u_mix (
      .clk_i,
      .number_i(number_q),
      .mixed_o (mixed[t])
    );
    always_ff @(posedge clk_i) hash_q <= mixed[t];

    // As many zeros on top as there are halvings.
    wire [MostHalvings-1:0] wanted = ~MostHalvings'(32'hFFFF >> late.halvings[t]);
    wire [GroupBits+15:0] sevenfold = (GroupBits + 16)'(hash_q[15:0]) * (GroupBits + 16)'(Groups);
    always_ff @(posedge clk_i) begin
      drawn_o[t] <= late.counts[t] && (hash_q[31:16] & wanted) == '0;
      halvings_o[t] <= late.halvings[t];
      group_o[t] <= sample_group_t'(sevenfold >> 16) + 1'b1;
    end
    wire unused = ^sevenfold[15:0];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_o <= 1'b0;
    else valid_o <= late.valid;
  end

endmodule
