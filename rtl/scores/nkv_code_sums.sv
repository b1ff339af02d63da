// The array that scores planes of codes: what they say of four keys along all query rows per cycle, by
// tables of the rows' weights. Tables of one sign set are made while those of another are looked up.

`include "nkv_assert.svh"

module nkv_code_sums
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  // Weights of the rows, in their order, as nkv_code_weights gives them: a row's words come when the
  // entries of the one before have been written.
  input  word_index_t  last_index_i,    // Of a row's words; held.
  input  logic         load_i,          // Before the first row: they go to this bank.
  input  logic         load_bank_i,
  input  logic         weight_valid_i,
  input  word_index_t  weight_index_i,
  input  code_weight_t weight_i[ExactLanes],
  output logic         loaded_o,        // For one cycle per row: its tables are there.

  input  logic         bank_i,          // Held while slices are under way.
  input  plane_t       last_plane_i,    // So is this: the planes that count, less one.
  input  logic         valid_i,
  input  slice_index_t slice_i,
  input  plane_t       plane_i,         // From 0 on, each behind the one before of its slice.
  input  logic [SliceTokens-1:0][Channels-1:0] bits_i,

  output logic         valid_o,         // With the last plane: Latency cycles behind it.
  output slice_index_t slice_o,
  output code_sum_t    sum_o[Rows][SliceTokens]
);

  localparam int unsigned Groups = Channels / GroupChannels;
  localparam int unsigned Latency = 5;

  // ---- Tables, row after row ----
  logic         write, last_entry, bank_q;
  group_bits_t  entry;
  code_weight_t entry_sum[Groups];
  row_index_t   row_q;
  nkv_code_tables u_tables (
    .clk_i,
    .rst_ni,
    .clear_i,
    .last_index_i,
    .valid_i (weight_valid_i),
    .index_i (weight_index_i),
    .weight_i,
    .write_o (write),
    .entry_o (entry),
    .sum_o   (entry_sum),
    .last_o  (last_entry)
  );
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {bank_q, row_q, loaded_o} <= '0;
    end else if (clear_i) begin
      {row_q, loaded_o} <= '0;
    end else begin
      loaded_o <= last_entry;
      if (load_i) {bank_q, row_q} <= {load_bank_i, row_index_t'(0)};
      else if (last_entry) row_q <= row_q + 1'b1;
    end
  end

  // ---- Slices ----
  typedef struct packed {
    logic         valid;
    slice_index_t slice;
    plane_t       plane;
  } tag_t;
  tag_t tag_q[Latency-1];
  wire tag_t late = tag_q[Latency-2];
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i < Latency - 1; i++) tag_q[i] <= '0;
      valid_o <= 1'b0;
    end else if (clear_i) begin
      for (int unsigned i = 0; i < Latency - 1; i++) tag_q[i] <= '0;
      valid_o <= 1'b0;
    end else begin
      tag_q[0] <= '{valid: valid_i, slice: slice_i, plane: plane_i};
      for (int unsigned i = 1; i < Latency - 1; i++) tag_q[i] <= tag_q[i-1];
      valid_o <= late.valid && late.plane == last_plane_i;
    end
  end
  always_ff @(posedge clk_i) slice_o <= late.slice;

  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    nkv_code_lookup u_row (
      .clk_i,
      .write_i     (write && row_q == row_index_t'(r)),
      .write_bank_i(bank_q),
      .entry_i     (entry),
      .entry_sum_i (entry_sum),
      .bank_i,
      .bits_i,
      .late_valid_i(late.valid),
      .late_slice_i(late.slice),
      .late_first_i(late.plane == '0),
      .sum_o       (sum_o[r])
    );
  end

  // No tables are written that are looked up.
  `NKV_ASSERT(OtherBank_A, clear_i || !write || !valid_i || bank_i != bank_q)

endmodule
