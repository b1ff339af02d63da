// The mean of a page's rows, channel by channel: ARITHMETIC.md 11.4. Takes the words of PageTokens
// rows, row after row, one per cycle at the most; then, 9 cycles after the last one, gives the
// means, a word per cycle. The next tensor's words may come when the last mean has been given.

`include "nkv_assert.svh"

module nkv_code_mean
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
  import nkv_codes_pkg::*;
#(
  parameter int unsigned Lanes = ExactLanes
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  word_index_t last_index_i,       // Of a row's words; held.
  input  logic        valid_i,
  input  logic        first_row_i,
  input  logic        last_row_i,
  input  word_index_t index_i,            // Of the word in its row.
  input  fixed_t      fixed_i[Lanes],

  output logic        valid_o,
  output logic        last_o,             // Word of the mean.
  output word_index_t index_o,
  output mean_t       mean_o[Lanes],
  output mean_shift_t shift_o             // p: means are in units of 2^p. Held till the next ones.
);

  localparam int unsigned MeanBits = FixedBits;
  localparam int unsigned Settle = 4;     // Cycles from the last sum to p.
  typedef logic signed [SumBits-1:0] sum_t;
  typedef logic signed [MeanBits-1:0] wide_t;
  typedef logic signed [MeanBits:0] doubled_t;
  typedef logic [MeanBits-2:0] magnitude_t;

  // ---- Words come; then the sums are read again ----
  logic        coming_q, first_row_q, last_row_q, going_q;
  word_index_t index_q, going_index_q, going_index_late_q[2];
  logic [1:0]  going_late_q;
  logic [Settle-1:0] ended_q;
  logic [Settle-2:0] counts_q;            // The word is of the last row.
  wire word_index_t place = going_q ? going_index_q : index_q;
  wire ends = coming_q && last_row_q && index_q == last_index_i;

  // ---- Lanes ----
  magnitude_t magnitude_q[Lanes];
  for (genvar i = 0; i < Lanes; i++) begin : gen_lanes
    (* ram_style = "distributed" *) sum_t sums[RowWords];
    fixed_t   fixed_q;
    wide_t    wide_q;                     // Before it is scaled.
    doubled_t doubled_q;                  // Scaled, and one bit below the last place.
    wire sum_t kept = sums[place];
    wire sum_t sum = (first_row_q ? '0 : kept) + sum_t'(fixed_q);
    wire sum_t rounded = (going_q ? kept : sum) + sum_t'(1 << (TokenBits - 1));
    wire doubled_t scaled = (doubled_q + doubled_t'(1)) >>> 1;
    always_ff @(posedge clk_i) begin
      fixed_q <= fixed_i[i];
      if (coming_q) sums[place] <= sum;
      wide_q <= wide_t'(rounded >>> TokenBits);
      magnitude_q[i] <= magnitude_t'(wide_q[MeanBits-1] ? -wide_q : wide_q);
      doubled_q <= doubled_t'({wide_q, 1'b0}) >>> shift_o;
      mean_o[i] <= scaled > doubled_t'(127) ? mean_t'(127) : mean_t'(scaled);
    end
  end

  // ---- p: bits that any magnitude has tell the largest one's length ----
  magnitude_t any, any_q, all_q;
  mean_shift_t shift;
  always_comb begin
    any = '0;
    for (int unsigned i = 0; i < Lanes; i++) any |= magnitude_q[i];
    shift = '0;
    for (int unsigned i = 1; i <= 7; i++) if (all_q[6+i]) shift = mean_shift_t'(i);
  end

  always_ff @(posedge clk_i) begin
    first_row_q <= first_row_i;
    last_row_q <= last_row_i;
    index_q <= index_i;
    any_q <= any;
    if (coming_q && first_row_q) all_q <= '0;
    else if (counts_q[Settle-2]) all_q <= all_q | any_q;
    if (ended_q[Settle-1]) shift_o <= shift;
    going_index_late_q[0] <= going_index_q;
    going_index_late_q[1] <= going_index_late_q[0];
    index_o <= going_index_late_q[1];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {coming_q, going_q, going_index_q, going_late_q, ended_q, counts_q, valid_o} <= '0;
    end else if (clear_i) begin
      {coming_q, going_q, going_late_q, ended_q, counts_q, valid_o} <= '0;
    end else begin
      coming_q <= valid_i;
      ended_q <= {ended_q[Settle-2:0], ends};
      counts_q <= {counts_q[Settle-3:0], coming_q && last_row_q};
      if (ended_q[Settle-1]) begin
        going_q <= 1'b1;
        going_index_q <= '0;
      end else if (going_q) begin
        going_q <= going_index_q != last_index_i;
        going_index_q <= going_index_q + 1'b1;
      end
      going_late_q <= {going_late_q[0], going_q};
      valid_o <= going_late_q[1];
    end
  end

  assign last_o = index_o == last_index_i;

  // No word comes while the means of the tensor before are given.
  `NKV_ASSERT(ComesAfterGiven_A, clear_i || !coming_q || !going_q)

endmodule
