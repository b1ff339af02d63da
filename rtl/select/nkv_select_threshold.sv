// The histogram of the candidates of one row, and the threshold bin: the highest bin such that k of
// those seen so far lie in it or above. It only rises: what lies below it can be dropped at once.
// - add_valid_i shows a candidate; one cycle later keep_o tells, with keep_valid_o, whether it may
//   be among the best k. Up to one per cycle.
// - The threshold follows in cycles without candidates, over blocks of 64 bins first, one in a cycle,
//   then bin by bin, one in 2 cycles; settled_o tells that it has arrived, 200 cycles after the last
//   candidate at most. Until then it is too low, never too high.
// - clear_i, which needs ready_o, begins a new query. Bins are told from those of earlier queries by a stamp.
//   After each query a part of them is emptied, so that no stamp comes again while a bin has it from before:
//   ready_o falls for 256 cycles (after reset for 4,096), in which no candidate may come.
// - refresh_i (without candidates, settled) brings the threshold bin's number to at_o one cycle
//   later; set_valid_i replaces their number after some were found not to be among the best.

module nkv_select_threshold
  import nkv_select_pkg::*;
#(
  parameter int unsigned CountBits = 14,
  localparam type count_t = logic [CountBits-1:0]
) (
  input  logic   clk_i,
  input  logic   rst_ni,
  input  logic   clear_i,
  output logic   ready_o,
  input  count_t k_i,          // Stands a cycle before the first candidate.

  input  logic   add_valid_i,
  input  bin_t   add_bin_i,
  output logic   keep_valid_o,
  output logic   keep_o,

  output logic   settled_o,
  output logic   reached_o,    // k candidates have come.
  output bin_t   threshold_o,
  output count_t above_o,      // Of the kept, those above that bin; below k once settled.

  input  logic   refresh_i,
  output count_t at_o,
  input  logic   set_valid_i,
  input  count_t set_count_i
);

  localparam int unsigned StampBits = 4;
  localparam int unsigned PartBits = BinBits - StampBits;  // As many parts as stamps.
  typedef logic [StampBits-1:0] stamp_t;
  typedef struct packed {
    stamp_t stamp;
    count_t count;
  } bin_word_t;
  (* ram_style = "block" *) bin_word_t counts[2**BinBits];
  bin_word_t read_q;
  stamp_t    stamp_q;      // Of this query.
  wire count_t read_count = read_q.stamp == stamp_q ? read_q.count : '0;

  logic clearing_q;        // A part,
  logic resetting_q;       // or all of them.
  bin_t sweep_q;
  logic valid_q;           // A candidate whose bin is being read.
  bin_t bin_q;
  logic repeated_q;        // The bin was written while it was read:
  count_t written_q;       // with this.
  logic climbing_q;        // The next bin is being read, to become the threshold.
  logic reached_q;
  bin_t threshold_q;
  count_t above_q, total_q;
  count_t k_less_one_q;

  // Blocks of bins: how many candidates fell into each, the highest block such that k of them lie in
  // it or above, as far as it has climbed, and how many lie above it.
  localparam int unsigned BlockBits = BinBits / 2;
  typedef logic [BlockBits-1:0] block_t;
  (* ram_style = "distributed" *) bin_word_t block_counts[2**BlockBits];
  block_t block_q;
  count_t block_above_q;

  assign ready_o = !clearing_q;
  assign reached_o = reached_q;
  assign threshold_o = threshold_q;
  assign above_o = above_q;
  assign at_o = read_count;
  assign keep_valid_o = valid_q;
  assign keep_o = !reached_q || bin_q >= threshold_q;

  // k of those kept lie above the threshold bin, or even above its block.
  wire is_low = reached_q && above_q >= k_i;
  wire is_block_low = reached_q && block_above_q >= k_i;
  wire climbs = is_low && !is_block_low && !climbing_q && !valid_q && !add_valid_i;
  wire climbs_block = is_block_low && !climbing_q && !valid_q;
  assign settled_o = !is_low && !climbing_q && !valid_q;

  wire block_t next_block = block_q + 1'b1;
  wire block_t added_block = bin_q[BinBits-1:BinBits-BlockBits];
  wire block_t counted_block = valid_q ? added_block : next_block;
  wire bin_word_t block_word = block_counts[counted_block];
  wire count_t block_count = block_word.stamp == stamp_q ? block_word.count : '0;

  wire bin_t next_bin = threshold_q + 1'b1;
  wire count_t increased = (repeated_q ? written_q : read_count) + 1'b1;

  // One read and one write port.
  logic write;
  bin_t write_bin;
  count_t write_count;
  always_comb begin
    write = clearing_q || valid_q || set_valid_i;
    write_bin = threshold_q;
    write_count = set_count_i;
    if (clearing_q) begin
      write_bin = sweep_q;
      write_count = '0;
    end else if (valid_q) begin
      write_bin = bin_q;
      write_count = increased;
    end
  end

  always_ff @(posedge clk_i) begin
    if (add_valid_i || climbs || refresh_i) begin
      read_q <= counts[add_valid_i ? add_bin_i : climbs ? next_bin : threshold_q];
    end
    if (write) counts[write_bin] <= '{stamp: stamp_q, count: write_count};
    if (clearing_q || valid_q) begin
      block_counts[clearing_q ? block_t'(sweep_q) : added_block] <=
          '{stamp: stamp_q, count: clearing_q ? '0 : block_count + 1'b1};
    end
    k_less_one_q <= k_i - 1'b1;
    if (add_valid_i) begin
      bin_q <= add_bin_i;
      repeated_q <= valid_q && bin_q == add_bin_i;
    end
    if (valid_q) written_q <= increased;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      clearing_q <= 1'b1;
      resetting_q <= 1'b1;
      sweep_q <= '0;
      valid_q <= 1'b0;
      climbing_q <= 1'b0;
      reached_q <= 1'b0;
      threshold_q <= '1;
      above_q <= '0;
      block_q <= '1;
      block_above_q <= '0;
      total_q <= '0;
      stamp_q <= '0;
    end else if (clear_i) begin
      clearing_q <= 1'b1;
      stamp_q <= stamp_q + 1'b1;
      valid_q <= 1'b0;
      climbing_q <= 1'b0;
      reached_q <= 1'b0;
      threshold_q <= '1;
      above_q <= '0;
      block_q <= '1;
      block_above_q <= '0;
      total_q <= '0;
    end else begin
      if (clearing_q) begin
        sweep_q <= sweep_q + 1'b1;
        clearing_q <= sweep_q[PartBits-1:0] != '1 || (resetting_q && sweep_q != '1);
        resetting_q <= resetting_q && sweep_q != '1;
      end
      valid_q <= add_valid_i;
      climbing_q <= climbs;
      if (climbing_q) begin
        threshold_q <= next_bin;
        above_q <= above_q - read_count;
      end else if (climbs_block) begin
        block_q <= next_block;
        block_above_q <= block_above_q - block_count;
        // All that lies in the next block or above it is above this block's last bin.
        threshold_q <= {block_q, {(BinBits - BlockBits) {1'b1}}};
        above_q <= block_above_q;
      end else if (valid_q) begin
        if (!reached_q && added_block < block_q) begin
          block_q <= added_block;
          block_above_q <= total_q;
        end else if (added_block > block_q) begin
          block_above_q <= block_above_q + 1'b1;
        end
        if (!reached_q) begin
          total_q <= total_q + 1'b1;
          reached_q <= total_q == k_less_one_q;
          // Before k have come, the threshold is the lowest bin of all.
          if (bin_q < threshold_q) begin
            threshold_q <= bin_q;
            above_q <= total_q;
          end else if (bin_q > threshold_q) begin
            above_q <= above_q + 1'b1;
          end
        end else if (bin_q > threshold_q) begin
          above_q <= above_q + 1'b1;
        end
      end
    end
  end

endmodule
