// Thresholds of all rows (ARITHMETIC.md, 5.3): histograms that fill while midpoints are written,
// and a walk from the top that takes 142 cycles whatever n is.
//
// 4 tokens come every other cycle, so two lanes of a row take one per cycle. Bins carry the
// stamp of their command; each command refreshes some of them in free cycles, so that none lives
// until its stamp comes round again.

module nkv_threshold
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,

  // A new command. Ready again 300 free cycles later (4,200 after reset); midpoints may come as
  // soon as the coarse bins are clear, 64 cycles later.
  input  logic      start_i,
  output logic      ready_o,
  output logic      clearing_o,

  // Midpoints as they are written, every other cycle at the most.
  input  logic      valid_i,
  input  midpoint_t midpoint_i[Rows][PlaneTokens],
  input  logic      visible_i[PlaneTokens],

  // T(n); the walk begins once all midpoints are in.
  input  logic        walk_i,
  input  logic [13:0] count_i,   // n
  output logic        walking_o,
  output bin_t        threshold_o[Rows]
);

  localparam int unsigned Lanes = 2;
  localparam int unsigned Stamps = 16;
  localparam int unsigned Bins = nkv_abi_pkg::HistogramBins;
  // What lies above a bin counts only while it is less than is asked for.
  typedef logic [ListTokensLog2+1:0] sum_count_t;
  // Every bin is refreshed at least once in Stamps - 1 commands.
  localparam int unsigned Refreshed = (Bins + Stamps - 2) / (Stamps - 1);

  // verilator lint_off UNUSEDSIGNAL
  function automatic bin_t bin_of(midpoint_t midpoint);
    return {~midpoint[15], midpoint[14:4]};
  endfunction
  // verilator lint_on UNUSEDSIGNAL

  // ---- Refreshing and clearing ------------------------------------------------------------
  logic [3:0] stamp_q;
  bin_t refresh_q;
  logic [12:0] refresh_left_q;
  logic forget_q, clearing_q;
  logic [5:0] clear_q;
  logic later_q;  // A second token waits
  logic [4:0] passing_q;  // Tokens on their way into their bins: with the stamp that holds as they arrive.
  wire busy = valid_i || later_q || walking_o;
  wire refresh = refresh_left_q != '0 && !busy;
  assign clearing_o = clearing_q;
  assign ready_o = refresh_left_q == '0 && !clearing_q && !busy && passing_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      stamp_q <= '0;
      refresh_q <= '0;
      refresh_left_q <= 13'(Bins);
      forget_q <= 1'b1;
      clearing_q <= 1'b0;
      clear_q <= '0;
    end else begin
      if (start_i) begin
        stamp_q <= stamp_q + 1'b1;
        refresh_left_q <= 13'(Refreshed);
        forget_q <= 1'b0;
        clearing_q <= 1'b1;
      end else begin
        if (refresh) begin
          refresh_q <= refresh_q + 1'b1;
          refresh_left_q <= refresh_left_q - 1'b1;
        end
        if (clearing_q) begin
          clear_q <= clear_q + 1'b1;
          if (clear_q == '1) clearing_q <= 1'b0;
        end
      end
    end
  end

  // ---- The walk: coarse bins from the top, then the bins of the one that reaches n ---------
  logic fine_q;
  logic [6:0] walk_q;            // Steps of this phase
  logic issue, issue_1, issue_2, issue_3;
  logic [5:0] at_1, at_2, at_3;
  wire [5:0] at = ~walk_q[5:0];
  assign issue = walking_o && !walk_q[6];
  wire phase_ends = walking_o && walk_q == 7'd68;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      walking_o <= 1'b0;
      fine_q <= 1'b0;
      walk_q <= '0;
      issue_1 <= 1'b0;
      issue_2 <= 1'b0;
      issue_3 <= 1'b0;
    end else begin
      issue_1 <= issue;
      issue_2 <= issue_1;
      issue_3 <= issue_2;
      if (walk_i) begin
        walking_o <= 1'b1;
        fine_q <= 1'b0;
        walk_q <= '0;
      end else if (walking_o) begin
        walk_q <= phase_ends ? '0 : walk_q + 1'b1;
        if (phase_ends) begin
          fine_q <= 1'b1;
          walking_o <= !fine_q;
        end
      end
    end
  end
  always_ff @(posedge clk_i) begin
    if (walking_o) begin
      at_1 <= at;
      at_2 <= at_1;
      at_3 <= at_2;
    end
  end
  // Coarse counts are there one cycle after their step, counts of bins three.
  wire arrives = fine_q ? issue_3 : issue_1;
  wire [5:0] arriving = fine_q ? at_3 : at_1;

  logic later_visible[Lanes];
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      later_q <= 1'b0;
      passing_q <= '0;
    end else begin
      later_q <= valid_i;
      passing_q <= {passing_q[3:0], valid_i || later_q};
    end
  end
  always_ff @(posedge clk_i) begin
    if (valid_i) for (int l = 0; l < int'(Lanes); l++) later_visible[l] <= visible_i[2*l+1];
  end

  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    // Tokens 0 and 2 go at once, 1 and 3 in the next cycle.
    bin_t later_bin[Lanes];
    always_ff @(posedge clk_i) begin
      if (valid_i) begin
        for (int l = 0; l < int'(Lanes); l++) later_bin[l] <= bin_of(midpoint_i[r][2*l+1]);
      end
    end

    logic [13:0] count[Lanes];
    coarse_count_t coarse[Lanes];
    logic [5:0] coarse_q;
    for (genvar l = 0; l < Lanes; l++) begin : gen_lanes
      wire token = valid_i ? visible_i[2*l] : later_q && later_visible[l];
      nkv_histogram u_histogram (
        .clk_i,
        .rst_ni,
        .stamp_i(stamp_q),
        .valid_i(token || refresh),
        .bin_i(valid_i ? bin_of(midpoint_i[r][2*l]) : later_q ? later_bin[l] : refresh_q),
        .counts_i(token),
        .forget_i(forget_q && !token),
        .clear_i(clearing_q),
        .clear_bin_i(clear_q),
        .read_i(issue && fine_q),
        .read_bin_i({coarse_q, at}),
        .count_o(count[l]),
        .read_coarse_i(issue && !fine_q),
        .read_coarse_bin_i(at),
        .coarse_o(coarse[l])
      );
    end

    logic found_q;
    sum_count_t above_q;
    wire sum_count_t here = fine_q ? sum_count_t'(count[0]) + sum_count_t'(count[1])
        : sum_count_t'(coarse[0]) + sum_count_t'(coarse[1]);
    wire sum_count_t reached = above_q + here;
    wire reaches = reached >= sum_count_t'(count_i) || arriving == '0;

    always_ff @(posedge clk_i) begin
      if (walk_i) begin
        found_q <= 1'b0;
        above_q <= '0;
      end else if (phase_ends) begin
        found_q <= 1'b0;
      end else if (arrives && !found_q) begin
        if (reaches) begin
          found_q <= 1'b1;
          if (fine_q) threshold_o[r] <= {coarse_q, arriving};
          else coarse_q <= arriving;
        end else begin
          above_q <= reached;
        end
      end
    end
  end

endmodule
