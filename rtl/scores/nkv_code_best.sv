// The tokens that score best by codes: ARITHMETIC.md 14.1. The same slices come three times: the
// largest logit of each row is found, then tokens are counted by their distance from it, then those are
// told that are among the best in a row. A slice per cycle; nothing waits but between these.

`include "nkv_assert.svh"

module nkv_code_best
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
#(
  localparam int unsigned CountBits = $clog2(2 * MaxTopK + 1)
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,              // Before each command: no logit has come yet.

  input  group_t      rows_i,               // Held, as is the count.
  input  logic [CountBits-1:0] count_i,     // n, at least 1.
  input  best_pass_e  pass_i,               // Held from a slice until Latency cycles later.
  input  logic        valid_i,
  input  logic [SliceTokens-1:0] tokens_i,  // That count.
  input  threshold_t  logit_i[Rows][SliceTokens],

  output logic        ready_o,              // Tokens may be counted: as many cycles after clear_i or
                                            // found_o as there are bins, or earlier.
  input  logic        find_i,               // All have been counted, Latency cycles ago or more.
  output logic        found_o,              // For one cycle: the best may be told.
  output logic        valid_o,              // Latency cycles after a slice of the pass that tells.
  output logic [SliceTokens-1:0] best_o
);

  localparam int unsigned BinBits = 12;
  localparam int unsigned BinLogit = 4;             // Bits of a logit that share a bin.
  localparam int unsigned LaneBits = $clog2(MaxTokens / SliceTokens + 1);
  localparam int unsigned TotalBits = $clog2(MaxTokens + 1);
  localparam int unsigned Latency = 3;
  typedef logic [BinBits-1:0] bin_t;
  typedef logic [LaneBits-1:0] lane_count_t;
  typedef logic [TotalBits-1:0] total_t;
  localparam threshold_t Least = {1'b1, {$bits(threshold_t) - 1{1'b0}}};

  typedef enum logic [1:0] {
    StClear,     // Bins, one after the other.
    StCount,     // They are clear, or count.
    StFind,      // They are read.
    StFound      // For the last one.
  } state_e;
  state_e state_q;
  bin_t   walk_q;
  logic   dirty_q;                          // A bin has counted since they were clear.
  logic [Latency-1:0] valid_q;
  logic [SliceTokens-1:0] tokens_q[2];
  logic [Rows-1:0] found;
  logic   reads_q;                          // A bin was read in the cycle before.
  bin_t   read_q;

  assign ready_o = state_q == StCount;
  wire clears = state_q == StClear;
  wire counts = valid_q[1] && pass_i == BestCount;

  always_ff @(posedge clk_i) begin
    tokens_q[0] <= tokens_i;
    tokens_q[1] <= tokens_q[0];
    read_q <= walk_q;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StClear;
      {walk_q, dirty_q, valid_q, reads_q, found_o} <= '0;
    end else begin
      valid_q <= clear_i ? '0 : {valid_q[Latency-2:0], valid_i};
      found_o <= 1'b0;
      reads_q <= state_q == StFind && !clear_i;
      if (counts) dirty_q <= 1'b1;
      unique case (state_q)
        StClear: begin
          walk_q <= walk_q + 1'b1;
          dirty_q <= 1'b0;
          if (walk_q == '1) state_q <= StCount;
        end
        StCount: begin
          walk_q <= '0;
          if (clear_i && (dirty_q || counts)) state_q <= StClear;
          else if (find_i) state_q <= StFind;
        end
        StFind: begin
          walk_q <= walk_q + 1'b1;
          if (clear_i || found == '1 || walk_q == '1) begin
            walk_q <= '0;
            state_q <= clear_i ? StClear : StFound;
          end
        end
        StFound: begin
          walk_q <= '0;
          found_o <= !clear_i;
          state_q <= StClear;
        end
        default: state_q <= StClear;
      endcase
    end
  end

  // ---- Rows ----
  logic [Rows-1:0][SliceTokens-1:0] among;
  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    wire used = group_t'(r) < rows_i;
    threshold_t  most_q, most;
    bin_t        last_q;                    // Of the best ones.
    logic        found_q;
    total_t      total_q, total;
    lane_count_t lane_count[SliceTokens];

    // The largest logit
    always_comb begin
      most = most_q;
      for (int unsigned t = 0; t < SliceTokens; t++) begin
        if (tokens_i[t] && logit_i[r][t] > most) most = logit_i[r][t];
      end
    end
    always_ff @(posedge clk_i) begin
      if (clear_i) most_q <= Least;
      else if (valid_i && pass_i == BestMeasure) most_q <= most;
    end

    // Its distance by bins, and how many tokens each has
    for (genvar t = 0; t < SliceTokens; t++) begin : gen_tokens
      localparam int unsigned DistanceBits = $bits(threshold_t) + 1;
      logic [DistanceBits-1:0] distance_q;
      bin_t        bin_q, late_bin_q, address;
      (* ram_style = "block" *) lane_count_t counts_of[1 << BinBits];
      lane_count_t count_q, sum_q;
      logic        adds_q, again_q;         // The bin is that of the slice before, which added.
      wire unused = ^distance_q[BinLogit-1:0];
      wire is_far = distance_q[DistanceBits-1:BinBits+BinLogit] != '0;
      wire adds = counts && tokens_q[1][t] && used;
      assign address = state_q == StCount ? bin_q : walk_q;
      wire lane_count_t sum = (again_q ? sum_q : count_q) + 1'b1;
      assign lane_count[t] = count_q;
      always_ff @(posedge clk_i) begin
        distance_q <= DistanceBits'(most_q) - DistanceBits'(logit_i[r][t]);
        bin_q <= is_far ? '1 : distance_q[BinLogit+:BinBits];
        among[r][t] <= used && bin_q <= last_q && tokens_q[1][t];

        count_q <= counts_of[address];
        late_bin_q <= bin_q;
        adds_q <= adds;
        again_q <= adds_q && late_bin_q == bin_q;
        sum_q <= sum;
        if (clears || adds_q) counts_of[clears ? walk_q : late_bin_q] <= clears ? '0 : sum;
      end
    end

    // The least bin such that enough tokens lie in it or below
    always_comb begin
      total = total_q;
      for (int unsigned t = 0; t < SliceTokens; t++) total += total_t'(lane_count[t]);
    end
    assign found[r] = found_q || !used;
    always_ff @(posedge clk_i) begin
      if (state_q == StCount) begin
        {found_q, total_q} <= '0;
      end else if (reads_q && !found_q) begin
        total_q <= total;
        last_q <= read_q;
        found_q <= total >= total_t'(count_i);
      end
    end
  end

  always_comb begin
    best_o = '0;
    for (int unsigned r = 0; r < Rows; r++) best_o |= among[r];
  end
  assign valid_o = valid_q[Latency-1] && pass_i == BestTell;

  // A token is counted while the bins are clear.
  `NKV_ASSERT(CountsWhenClear_A, clear_i || !counts || state_q == StCount)

endmodule
