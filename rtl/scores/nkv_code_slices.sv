// Planes of codes as they lie in bursts to slices: the bits of SliceTokens tokens of a plane, each in
// as many bits as the widest row has. A slice per cycle; a burst is taken whenever less than a slice is
// left of those before.

`include "nkv_assert.svh"

module nkv_code_slices
  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  dim_t         dim_i,           // Channels of a row. Held while anything is left of a burst.
  input  logic         valid_i,
  output logic         ready_o,
  input  burst_t       burst_i,         // Bit 0 first. Runs of them hold whole slices of one plane,
  input  logic         first_i,         // and with the first of a run comes
  input  slice_index_t slice_i,         // the slice that begins it,
  input  plane_t       plane_i,         // and the plane.

  output logic         valid_o,
  output slice_index_t slice_o,
  output plane_t       plane_o,
  output logic [SliceTokens-1:0][Channels-1:0] bits_o  // Zero beyond the row's end.
);

  // A slice of rows of ChunkChannels channels.
  localparam int unsigned UnitBits = SliceTokens * ChunkChannels;
  localparam int unsigned BurstUnits = BurstBits / UnitBits;
  localparam int unsigned CountBits = $clog2(2 * BurstUnits);
  typedef logic [CountBits-1:0] count_t;
  typedef logic [2*BurstUnits-2:0][UnitBits-1:0] units_t;

  units_t       left_q;                 // Of the bursts before, the next one first.
  count_t       count_q;                // Of its units; they are less than a burst's.
  slice_index_t slice_q;
  plane_t       plane_q;
  wire count_t  needs = count_t'(dim_i >> $clog2(ChunkChannels));
  wire has = count_q >= needs;
  wire takes = valid_i && ready_o;
  wire units_t here = takes ? left_q | (units_t'(burst_i) << (UnitBits * count_q)) : left_q;
  wire begins = takes && first_i;
  wire slice_index_t slice = begins ? slice_i : slice_q;

  assign ready_o = !has;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {count_q, left_q, valid_o} <= '0;
    end else if (clear_i) begin
      {count_q, left_q, valid_o} <= '0;
    end else begin
      valid_o <= has || takes;
      if (has || takes) begin
        count_q <= count_q + (takes ? count_t'(BurstUnits) : '0) - needs;
        left_q <= here >> (UnitBits * needs);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (has || takes) begin
      slice_q <= slice + 1'b1;
      if (begins) plane_q <= plane_i;
    end
    slice_o <= slice;
    plane_o <= begins ? plane_i : plane_q;
  end

  // ---- Each token's own bits: they lie a row behind the ones before ----
  for (genvar t = 0; t < SliceTokens; t++) begin : gen_tokens
    wire [Channels-1:0] row = Channels'(BurstBits'(here) >> (t * dim_i));
    always_ff @(posedge clk_i) begin
      for (int unsigned c = 0; c < Channels; c++) bits_o[t][c] <= row[c] && dim_t'(c) < dim_i;
    end
  end

  // A run begins when the one before is over.
  `NKV_ASSERT(BeginsWhenOver_A, clear_i || !begins || count_q == '0)

endmodule
