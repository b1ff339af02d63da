// What of a page is made of its values' numbers: V_SUM, v_exponent and v_residual. The numbers come
// twice, the second time after replay_o. From ready_o on, until taken_i, bursts of V_SUM can be
// read, in the cycle in which they are asked for; the next page's numbers may come meanwhile, but
// not a second time.

module nkv_page_sums
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  localparam int unsigned SumBursts = 4 * Channels / BurstBytes,
  localparam int unsigned IndexBits = $clog2(SumBursts)
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  logic                  clear_i,

  input  dim_t                  dim_i,           // Held; 0: no values, nothing to sum.
  input  logic                  begin_i,
  input  logic                  number_valid_i,
  input  logic [ExactLanes-1:0] negative_i,
  input  exponent_t             exponent_i[ExactLanes],
  input  significand_t          significand_i[ExactLanes],
  output logic                  replay_o,
  output logic                  busy_o,          // Between begin_i and the end of the sums.

  output logic                  ready_o,
  input  logic                  taken_i,
  input  logic [IndexBits-1:0]  index_i,
  output burst_t                sum_o,
  output exponent_t             v_exponent_o,    // From ready_o to that of the next page.
  output logic [31:0]           v_residual_o
);

  localparam int unsigned WordBursts = ExactLanes * 32 / BurstBits;
  localparam int unsigned BurstSums = BurstBits / 32;

  logic sums_valid, done;
  word_index_t sums_index;
  logic signed [31:0] sum[ExactLanes];
  exponent_t exponent;
  logic [31:0] residual;
  burst_t sums[RowWords][WordBursts];
  wire has_values = dim_i != '0;
  wire ends = busy_o && done;

  nkv_value_statistics u_statistics (
    .clk_i,
    .rst_ni,
    .start_i      (begin_i),
    .dim_i,
    .word_valid_i (number_valid_i),
    .negative_i,
    .exponent_i,
    .significand_i,
    .replay_o,
    .sums_valid_o (sums_valid),
    .sums_index_o (sums_index),
    .sum_o        (sum),
    .done_o       (done),
    .v_exponent_o (exponent),
    .v_residual_o (residual)
  );

  always_ff @(posedge clk_i) begin
    if (sums_valid) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        sums[sums_index][i/BurstSums][32*(i%BurstSums)+:32] <= sum[i];
      end
    end
    if (!has_values || ends) begin
      v_exponent_o <= has_values ? exponent : '0;
      v_residual_o <= has_values ? residual : '0;
    end
  end
  assign sum_o = sums[index_i[IndexBits-1:1]][index_i[0]];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {busy_o, ready_o} <= '0;
    end else if (clear_i) begin
      {busy_o, ready_o} <= '0;
    end else begin
      if (begin_i) busy_o <= has_values;
      else if (done) busy_o <= 1'b0;
      if (taken_i) ready_o <= 1'b0;
      else if (ends) ready_o <= 1'b1;
    end
  end

endmodule
