// Logits of coded tokens along all query rows (12.3), and which tokens may yet be among the best ones
// (14.3). A page's factors are made before its tokens are scored, while those of the page before still
// are; then a slice goes per cycle.

`include "nkv_assert.svh"

module nkv_code_logits
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,

  // Of the command; held.
  input  group_t        rows_i,
  input  code_row_t [Rows-1:0] row_i,
  input  logic [7:0]    z_i,              // As TOPK has it.
  input  logic          ranked_i,         // There are thresholds: without, no token is alive.
  input  threshold_t    threshold_i[Rows],
  input  plane_t        last_plane_i,     // Planes that tokens are scored by, less one.

  // Of a page, held from make_i until made_o.
  input  logic          make_i,           // Not while a page's factors are being made.
  input  logic          make_bank_i,
  input  logic signed [15:0] top_i,       // k_top
  input  logic          any_i,            // A token has a residual.
  input  weight_power_t weight_power_i[Rows],
  input  code_logit_t   mean_i[Rows],
  output logic          made_o,           // For one cycle: tokens may come in the next one.

  // Of the page that bank_i is of.
  input  logic          bank_i,           // Held while slices are under way.
  input  logic [4*PageTokens-1:0] factors_i,
  input  token_mask_t   tokens_i,         // That count.
  input  logic          valid_i,
  input  slice_index_t  slice_i,
  input  code_sum_t     sum_i[Rows][SliceTokens],

  output logic          valid_o,          // Latency cycles later.
  output slice_index_t  slice_o,
  output code_above_t   above_o[Rows][SliceTokens],  // R
  output logic [SliceTokens-1:0] alive_o,
  output logic          loud_o            // One of its tokens is.
);

  localparam int unsigned MakeCycles = 4;         // Of one factor.
  localparam int unsigned Latency = 4;
  localparam int unsigned Log2E = 185;            // 2^7 * log2 e, rounded up.
  localparam int unsigned PowerOffset = 26;       // Of 27 - b, b one more than the last plane.
  localparam int unsigned FactorStepLog2 = 1;     // A factor's sixteenths.
  localparam code_variance_t NoFactorVariance = 22'sd13;

  // ---- A page's factors, from 0 on ----
  logic         making_q;
  code_factor_t factor_q, write_factor;
  logic [MakeCycles:0] making_late_q, last_late_q;
  wire logic signed [17:0] sixteenths = 18'(top_i) -
      18'({1'b0, code_factor_t'(~factor_q), FactorStepLog2'(0)});
  factor_step_t step_q;
  always_ff @(posedge clk_i) begin
    step_q <= '{
        none: factor_q == '0,
        least: factor_q == '0 && !any_i,
        product: multiplied_t'(octave(sixteenths[3:0])) * multiplied_t'(KeyRatios[last_plane_i]),
        power: 15'(sixteenths >>> 4) + 15'(PowerOffset) - 15'({1'b0, last_plane_i}),
        variance: (code_variance_t'(sixteenths) <<< 1) +
            (factor_q == '0 ? NoFactorVariance : code_variance_t'(signed'(KeyVariances[last_plane_i]))),
        deviations: (z_i == '0 ? 16'(UsualSearchZ) : 16'(z_i)) * 16'(Log2E)
    };
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {making_q, factor_q, making_late_q, last_late_q} <= '0;
    end else if (clear_i) begin
      {making_q, factor_q, making_late_q, last_late_q} <= '0;
    end else begin
      if (make_i) making_q <= 1'b1;
      else if (factor_q == '1) making_q <= 1'b0;
      if (making_q) factor_q <= factor_q + 1'b1;
      making_late_q <= {making_late_q[MakeCycles-1:0], making_q};
      last_late_q <= {last_late_q[MakeCycles-1:0], factor_q == '1};
    end
  end
  nkv_delay #(
    .Width($bits(code_factor_t)),
    .Cycles(MakeCycles + 1)
  ) u_factor (
    .clk_i,
    .data_i(factor_q),
    .data_o(write_factor)
  );
  wire write = making_late_q[MakeCycles];
  assign made_o = last_late_q[MakeCycles];

  // ---- Tokens: their factors a cycle ahead of their sums ----
  typedef logic [$clog2(SliceTokens)-1:0] place_t;
  code_factor_t factor[SliceTokens];
  code_sum_t    sum_q[Rows][SliceTokens];
  logic [Latency-1:0] valid_q;
  logic [SliceTokens-1:0] counts, counts_late;
  for (genvar t = 0; t < SliceTokens; t++) begin : gen_factors
    assign factor[t] = factors_i[4*{slice_i, place_t'(t)}+:4];
    assign counts[t] = tokens_i[{slice_i, place_t'(t)}];
  end
  always_ff @(posedge clk_i) sum_q <= sum_i;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], valid_i};
  end
  nkv_delay #(
    .Width($bits(slice_index_t) + SliceTokens),
    .Cycles(Latency)
  ) u_slice (
    .clk_i,
    .data_i({slice_i, counts}),
    .data_o({slice_o, counts_late})
  );
  assign valid_o = valid_q[Latency-1];

  logic loud[Rows][SliceTokens], alive[Rows][SliceTokens];
  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    nkv_code_row_logits u_row (
      .clk_i,
      .row_i         (row_i[r]),
      .used_i        (group_t'(r) < rows_i && ranked_i),
      .weight_power_i(weight_power_i[r]),
      .mean_i        (mean_i[r]),
      .threshold_i   (threshold_i[r]),
      .write_bank_i  (make_bank_i),
      .write_i       (write),
      .write_factor_i(write_factor),
      .step_i        (step_q),
      .bank_i,
      .factor_i      (factor),
      .sum_i         (sum_q[r]),
      .above_o       (above_o[r]),
      .loud_o        (loud[r]),
      .alive_o       (alive[r])
    );
  end
  always_comb begin
    loud_o = 1'b0;
    alive_o = '0;
    for (int unsigned r = 0; r < Rows; r++) begin
      for (int unsigned t = 0; t < SliceTokens; t++) begin
        if (counts_late[t] && group_t'(r) < rows_i) begin
          loud_o |= loud[r][t];
          alive_o[t] |= alive[r][t];
        end
      end
    end
  end

  // A page comes when another one's factors are made, and no factors are written that tokens use.
  `NKV_ASSERT(MakesOneByOne_A, clear_i || !make_i || !(making_q || making_late_q != '0))
  `NKV_ASSERT(OtherBank_A, clear_i || !write || !valid_i || bank_i != make_bank_i)

endmodule
