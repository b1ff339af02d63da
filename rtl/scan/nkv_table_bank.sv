// Tables of all rows, and what loads them: weights in, bits of 4 tokens in, their sums over the set bits
// of each row out, 5 cycles later.

module nkv_table_bank
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  localparam int unsigned WordBits = $clog2(Words)
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic                all_rows_i,     // Weights of all rows come together; held.
  output logic                room_o,         // For weights, taken by begins_i.
  input  logic                begins_i,
  input  logic [1:0]          weight_valid_i, // Of rows 0..3, of rows 4..7.
  input  logic [WordBits-1:0] weight_word_i,
  input  logic [1:0]          weight_step_i,
  input  logic                weight_last_i,
  input  weight_t             weight_i[Rows][FoldLanes],

  output logic page_ready_o,                  // There are tables to use, in bank page_bank_o.
  output logic page_bank_o,
  input  logic page_done_i,                   // Their last beat has been issued,
  input  logic page_free_i,                   // and has read them.

  input  logic                beat_valid_i,
  input  logic                beat_bank_i,
  input  logic [Channels-1:0] beat_bits_i[PlaneTokens],
  output logic                sum_valid_o,
  output sum_t                sum_o[Rows][PlaneTokens]
);

  logic weight_bank, step_valid, step_bank, step_adds;
  logic [1:0] step_half, step_channel;
  logic [3:0] step_entry;

  nkv_table_loader u_loader (
    .clk_i,
    .rst_ni,
    .all_rows_i,
    .half_room_o(room_o),
    .half_begins_i(begins_i),
    .half_whole_i(weight_valid_i != '0 && weight_last_i),
    .weight_bank_o(weight_bank),
    .step_valid_o(step_valid),
    .step_bank_o(step_bank),
    .step_half_o(step_half),
    .step_channel_o(step_channel),
    .step_adds_o(step_adds),
    .step_entry_o(step_entry),
    .page_ready_o,
    .page_bank_o,
    .page_done_i,
    .page_free_i
  );

  logic [HalfRows-1:0] pair_valid;
  for (genvar p = 0; p < HalfRows; p++) begin : gen_pairs
    weight_t pair_weight[2][FoldLanes];
    sum_t pair_sum[2][PlaneTokens];
    assign pair_weight[0] = weight_i[p];
    assign pair_weight[1] = weight_i[p+HalfRows];

    nkv_plane_tables u_tables (
      .clk_i,
      .rst_ni,
      .weight_valid_i,
      .weight_bank_i(weight_bank),
      .weight_word_i,
      .weight_step_i,
      .weight_i(pair_weight),
      .step_valid_i(step_valid),
      .step_bank_i(step_bank),
      .step_half_i(step_half),
      .step_channel_i(step_channel),
      .step_adds_i(step_adds),
      .step_entry_i(step_entry),
      .beat_valid_i,
      .beat_bank_i,
      .beat_bits_i,
      .sum_valid_o(pair_valid[p]),
      .sum_o(pair_sum)
    );
    for (genvar t = 0; t < PlaneTokens; t++) begin : gen_tokens
      assign sum_o[p][t] = pair_sum[0][t];
      assign sum_o[p+HalfRows][t] = pair_sum[1][t];
    end
  end
  assign sum_valid_o = pair_valid[0];

  // verilator lint_off UNUSEDSIGNAL
  wire unused = &{1'b0, pair_valid};
  // verilator lint_on UNUSEDSIGNAL

endmodule
