// Factors of a page's rows: ARITHMETIC.md 11.6. Takes of PageTokens rows, in their order, first how
// long the residual is, then what its cells have to be multiplied by; when all have come, gives
// the factors, PageTokens + 5 cycles later.

`include "nkv_assert.svh"

module nkv_code_factors
  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
  import nkv_codes_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  code_job_t    job_i,             // Held from a cycle before the first row's length on.
  input  logic         length_valid_i,
  input  length_bits_t length_bits_i,
  input  logic         fit_valid_i,       // Of a row whose length has come.
  input  logic         fit_any_i,
  input  logic [8:0]   fit_log2_i,

  output logic         done_o,            // For one cycle: from then on till the next one these stand.
  output logic signed [15:0] top_o,       // Lambda + 1, or 0 if no row has a residual.
  output logic [4*PageTokens-1:0] factors_o
);

  // Half the length that residuals are scaled to, and what of a fit is no factor: 16 * (4 - 8).
  localparam int unsigned ScaledBits = 14;
  localparam int unsigned FitOffset = 64;

  typedef struct packed {
    logic        any;
    sixteenths_t log2;
  } row_t;

  (* ram_style = "distributed" *) length_bits_t bits[PageTokens];
  (* ram_style = "distributed" *) row_t rows[PageTokens];

  // ---- A row's logarithm ----
  token_t      length_row_q, fit_row_q, row_q;
  sixteenths_t base_q, octaves_q, log2_q;
  logic        known_q, known_late_q, known_any_q, known_any_late_q;
  logic [8:0]  fit_q;

  always_ff @(posedge clk_i) begin
    // X - 140 - log2 S - n, n = 14 - bits.
    base_q <= sixteenths_t'(job_i.top) - sixteenths_t'(FixedUnit + ScaledBits) -
        sixteenths_t'(last_block_log2(job_i.dim));
    if (length_valid_i) bits[length_row_q] <= length_bits_i;
    octaves_q <= base_q + sixteenths_t'(bits[fit_row_q]);
    fit_q <= fit_log2_i;
    known_any_q <= fit_any_i;
    log2_q <= (octaves_q <<< 4) + sixteenths_t'(fit_q) - sixteenths_t'(FitOffset);
    known_any_late_q <= known_any_q;
    if (known_late_q) rows[row_q] <= '{any: known_any_late_q, log2: log2_q};
  end

  // ---- The longest row's, and by how much the others are shorter ----
  localparam int unsigned GiveSteps = 3;
  logic        any_q, giving_q;
  sixteenths_t largest_q;
  token_t      out_row_q;
  row_t        give_q;
  logic        below_any_q;
  sixteenths_t below_q;                   // In steps of factors, rounded.
  code_factor_t     factor_q;
  logic [GiveSteps-1:0] gives_q, last_q;
  wire sixteenths_t less = largest_q - give_q.log2;

  always_ff @(posedge clk_i) begin
    give_q <= rows[out_row_q];
    below_q <= job_i.is_value ? (less + sixteenths_t'(2)) >>> 2 : (less + sixteenths_t'(1)) >>> 1;
    below_any_q <= give_q.any;
    factor_q <= below_any_q && below_q < sixteenths_t'(15) ? code_factor_t'(sixteenths_t'(15) - below_q) : '0;
    if (gives_q[GiveSteps-1]) begin
      factors_o <= {factor_q, factors_o[4*PageTokens-1:4]};
      top_o <= any_q ? 16'(largest_q) + 16'sd1 : '0;
    end
  end

  // ---- Order of things ----
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {length_row_q, fit_row_q, row_q, out_row_q, known_q, known_late_q} <= '0;
      {any_q, largest_q, giving_q, gives_q, last_q, done_o} <= '0;
    end else if (clear_i) begin
      {length_row_q, fit_row_q, row_q, out_row_q, known_q, known_late_q} <= '0;
      {any_q, giving_q, gives_q, done_o} <= '0;
    end else begin
      if (length_valid_i) length_row_q <= length_row_q + 1'b1;
      if (fit_valid_i) fit_row_q <= fit_row_q + 1'b1;
      known_q <= fit_valid_i;
      known_late_q <= known_q;
      if (known_late_q) begin
        row_q <= row_q + 1'b1;
        if (row_q == '1) giving_q <= 1'b1;
        if (known_any_late_q) begin
          any_q <= 1'b1;
          if (!any_q || log2_q > largest_q) largest_q <= log2_q;
        end
      end
      if (giving_q) begin
        out_row_q <= out_row_q + 1'b1;
        if (out_row_q == '1) giving_q <= 1'b0;
      end
      gives_q <= {gives_q[GiveSteps-2:0], giving_q};
      last_q <= {last_q[GiveSteps-2:0], out_row_q == '1};
      done_o <= gives_q[GiveSteps-1] && last_q[GiveSteps-1];
      if (done_o) any_q <= 1'b0;
    end
  end

  // No row comes while the factors of the tensor before are given.
  `NKV_ASSERT(ComesAfterGiven_A, clear_i || !length_valid_i || !(giving_q || gives_q != '0))

  wire unused = ^job_i;

endmodule
