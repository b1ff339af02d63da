// A row's threshold for its next sample, from the counts of its levels (ARITHMETIC.md 8.2): walks
// them from above, a level a cycle, and keeps the lowest that will do. 168 cycles.

module nkv_sample_threshold
  import nkv_attend_pkg::TopLatency;
  import nkv_sample_pkg::*;
  import nkv_tables_pkg::*;
(
  input  logic   clk_i,
  input  logic   rst_ni,
  input  logic   clear_i,         // Before each command.

  input  logic   start_i,         // While idle; the rest is held until done_o.
  input  logic   first_i,         // Round 1. Later:
  input  log_t   limit_i,         // what the variance may be.

  output logic   read_o,          // The count of a level, a cycle later.
  output level_t read_level_o,
  input  count_t count_i,

  output logic   done_o,          // For one cycle; the answer stands until the next start.
  output level_t level_o,
  output log_t   log_variance_o
);

  localparam int unsigned QuarterBits = 16;
  localparam int unsigned TermBits = CountBits + QuarterBits + 2;
  localparam int unsigned SumBits = TermBits + 2;
  localparam logic [QuarterBits:0] Quarter1 = 17'd46341;
  localparam logic [QuarterBits:0] Quarter3 = 17'd23170;
  localparam int unsigned RandomReads = 96;
  localparam level_t FirstLimit = level_t'(64);
  localparam int unsigned TableLatency = 3;
  typedef logic [TermBits-1:0] term_t;
  typedef logic [SumBits-1:0] sum_t;
  typedef logic [CountBits+1:0] four_t;         // Counts of four levels.

  // What goes along with a level.
  typedef struct packed {
    logic   valid;
    logic   last;
    logic   enough;
    level_t level;
  } side_t;

  // ---- Counts ----
  logic   reading_q, counted_q;
  level_t level_q, counted_level_q;
  count_t above_q[3];             // Of the three levels before.

  assign read_o = reading_q;
  assign read_level_o = level_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      reading_q <= 1'b0;
      counted_q <= 1'b0;
    end else if (clear_i) begin
      reading_q <= 1'b0;
      counted_q <= 1'b0;
    end else begin
      if (start_i) reading_q <= 1'b1;
      else if (level_q == '0) reading_q <= 1'b0;
      counted_q <= reading_q;
    end
  end
  always_ff @(posedge clk_i) begin
    if (start_i) level_q <= level_t'(Levels - 1);
    else if (reading_q && level_q != '0) level_q <= level_q - 1'b1;
    counted_level_q <= level_q;
    if (start_i) above_q <= '{default: '0};
    else if (counted_q) above_q <= '{count_i, above_q[0], above_q[1]};
  end

  // ---- a and c ----
  logic   weighed_q;
  level_t weighed_level_q;
  term_t  weighed_sum_q;
  four_t  counted_sum_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) weighed_q <= 1'b0;
    else weighed_q <= counted_q && !clear_i;
  end
  always_ff @(posedge clk_i) begin
    weighed_level_q <= counted_level_q;
    weighed_sum_q <= (term_t'(count_i) << QuarterBits) + term_t'(above_q[0]) * term_t'(Quarter1) +
        (term_t'(above_q[1]) << (QuarterBits - 1)) + term_t'(above_q[2]) * term_t'(Quarter3);
    counted_sum_q <= four_t'(count_i) + four_t'(above_q[0]) + four_t'(above_q[1]) +
        four_t'(above_q[2]);
  end

  // ---- G, A and H of the last four levels ----
  sum_t doubled_q[4], plain_q[4], random_q[4];
  wire sum_t doubled = (doubled_q[3] >> 1) + (sum_t'(weighed_sum_q) << 1);
  wire sum_t plain = (plain_q[3] >> 2) + sum_t'(weighed_sum_q);
  wire sum_t random = (random_q[3] + (sum_t'(counted_sum_q) << QuarterBits)) >> 1;
  side_t side_q;
  sum_t  variance_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) side_q <= '0;
    else if (clear_i) side_q <= '0;
    else begin
      side_q <= '{
          valid: weighed_q,
          last: weighed_level_q == '0,
          enough: random >= (sum_t'(RandomReads) << QuarterBits),
          level: weighed_level_q
      };
    end
  end
  always_ff @(posedge clk_i) begin
    variance_q <= doubled - plain;
    if (start_i) begin
      doubled_q <= '{default: '0};
      plain_q <= '{default: '0};
      random_q <= '{default: '0};
    end else if (weighed_q) begin
      doubled_q <= '{doubled, doubled_q[0], doubled_q[1], doubled_q[2]};
      plain_q <= '{plain, plain_q[0], plain_q[1], plain_q[2]};
      random_q <= '{random, random_q[0], random_q[1], random_q[2]};
    end
  end

  // ---- Their logarithm ----
  logic [31:0] top;
  logic [6:0]  bits, bits_1_q, bits_2_q;
  logic [23:0] base_1_q, base_2_q;
  logic [17:0] slope_q;
  logic [15:0] rest_q;
  logic [33:0] rise_q;
  log_t        log_q;

  nkv_top_bits u_top (
    .clk_i,
    .rst_ni,
    .valid_i (side_q.valid),
    .number_i(64'(variance_q)),
    .top_o   (top),
    .bits_o  (bits)
  );

  side_t late;
  nkv_delay #(
    .Width ($bits(side_t)),
    .Cycles(TopLatency + TableLatency)
  ) u_side (
    .clk_i,
    .data_i(side_q),
    .data_o(late)
  );

  wire log_t whole = (log_t'({1'b0, bits_2_q}) - log_t'(1)) <<< FractionBits;
  level_t level_2;
  nkv_delay #(
    .Width (LevelBits),
    .Cycles(TopLatency + TableLatency - 1)
  ) u_level (
    .clk_i,
    .data_i(side_q.level),
    .data_o(level_2)
  );

  always_ff @(posedge clk_i) begin
    base_1_q <= Log2Base[top[30:24]];
    slope_q <= Log2Slope[top[30:24]];
    rest_q <= top[23:8];
    bits_1_q <= bits;
    base_2_q <= base_1_q;
    rise_q <= slope_q * rest_q;
    bits_2_q <= bits_1_q;
    log_q <= bits_2_q == '0 ? NoVariance
        : whole + log_t'({1'b0, base_2_q}) + log_t'({1'b0, rise_q[33:16]}) -
          (log_t'({1'b0, level_2}) <<< (FractionBits - 1));
  end

  // ---- The lowest that will do ----
  wire accepted = first_i ? late.level == FirstLimit || (late.level < FirstLimit && late.enough)
                          : log_q <= limit_i;
  logic [3:0] flush_q;            // A walk that was cleared is still under way.
  wire counts = late.valid && flush_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      done_o <= 1'b0;
      flush_q <= 4'(TopLatency + TableLatency);
    end else begin
      done_o <= counts && late.last && !clear_i;
      if (clear_i) flush_q <= 4'(TopLatency + TableLatency);
      else if (flush_q != '0) flush_q <= flush_q - 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      level_o <= NoLevel;
      log_variance_o <= NoVariance;
    end else if (counts && accepted) begin
      level_o <= late.level;
      log_variance_o <= log_q;
    end
  end

  wire unused = top[31] ^ (^top[7:0]) ^ (^rise_q[15:0]);

endmodule
