// Weights of pages on their way to the tables: folded from digests while the pages are scanned, 4 rows
// at a time; out of the store when a plane more is read of pages that stay, all rows at a time.

module nkv_weight_source
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages,
  localparam int unsigned QueryBits = nkv_abi_pkg::QueryBits,
  localparam int unsigned WordBits = $clog2(Words)
) (
  input  logic clk_i,
  input  logic rst_ni,

  // Steady while pages pass.
  input  logic [7:0] key_exponent_i,
  input  logic [2:0] words_i,             // Digest bursts of a page, 1..4
  input  logic       stored_i,            // Pages come out of the store,
  input  logic       keeps_i,             // or what is folded goes there too.

  input  logic                               query_valid_i,
  output logic                               query_ready_o,
  input  row_t                               query_row_i,
  input  logic [WordBits-1:0]                query_word_i,
  input  logic [WordChannels-1:0][QueryBits-1:0] query_data_i,
  input  logic                               digest_valid_i,
  output logic                               digest_ready_o,
  input  burst_t                             digest_data_i,

  // Pages, in order, and what their slots hold until they are done.
  input  logic               page_valid_i,
  output logic               page_ready_o,
  input  page_t              page_i,
  input  slot_t              page_slot_i,
  input  logic signed [15:0] page_step_exponent_i,
  input  page_t              page_of_i[Slots],

  // Weights of lanes' groups, of one half of the rows or of both. Room is taken before they begin.
  input  logic                room_i,
  output logic                begins_o,
  output logic [1:0]          weight_valid_o,  // Of rows 0..3, of rows 4..7.
  output logic [WordBits-1:0] weight_word_o,
  output logic [1:0]          weight_step_o,
  output logic                weight_last_o,
  output weight_t             weight_o[Rows][FoldLanes],

  output logic       terms_valid_o,       // Out of the store, only the sum of w.
  output row_terms_t terms_o
);

  logic fold_ready, fold_begins, fold_valid, fold_half, fold_last, fold_terms_valid;
  slot_t fold_slot;
  logic [WordBits-1:0] fold_word;
  logic [1:0] fold_step;
  weight_t fold_weight[HalfRows][FoldLanes];
  row_terms_t fold_terms;

  nkv_fold u_fold (
    .clk_i,
    .rst_ni,
    .key_exponent_i,
    .words_i,
    .query_valid_i,
    .query_ready_o,
    .query_row_i,
    .query_word_i,
    .query_data_i,
    .digest_valid_i,
    .digest_ready_o,
    .digest_data_i,
    .page_valid_i(page_valid_i && !stored_i),
    .page_ready_o(fold_ready),
    .page_slot_i,
    .page_step_exponent_i,
    .half_room_i(room_i),
    .half_begins_o(fold_begins),
    .weight_valid_o(fold_valid),
    .weight_half_o(fold_half),
    .weight_slot_o(fold_slot),
    .weight_word_o(fold_word),
    .weight_step_o(fold_step),
    .weight_last_o(fold_last),
    .weight_o(fold_weight),
    .terms_valid_o(fold_terms_valid),
    .terms_o(fold_terms)
  );

  logic store_ready, store_begins, store_valid, store_last, sum_valid;
  slot_t sum_slot;
  row_t sum_row;
  sum_t sum;
  logic [WordBits-1:0] store_word;
  logic [1:0] store_step;

  nkv_weight_store #(
    .KeptPages(KeptPages)
  ) u_store (
    .clk_i,
    .rst_ni,
    .words_i,
    .write_i(fold_valid && keeps_i),
    .write_page_i(page_of_i[fold_slot]),
    .write_half_i(fold_half),
    .write_word_i(fold_word),
    .write_step_i(fold_step),
    .write_weight_i(fold_weight),
    .pass_i(fold_valid),
    .sum_write_i(fold_terms_valid && keeps_i),
    .sum_page_i(page_of_i[fold_terms.slot]),
    .sum_row_i(fold_terms.row),
    .sum_i(fold_terms.sum),
    .page_valid_i(page_valid_i && stored_i),
    .page_ready_o(store_ready),
    .page_i,
    .page_slot_i,
    .room_i,
    .begins_o(store_begins),
    .weight_valid_o(store_valid),
    .weight_word_o(store_word),
    .weight_step_o(store_step),
    .weight_last_o(store_last),
    .weight_o,
    .sum_valid_o(sum_valid),
    .sum_slot_o(sum_slot),
    .sum_row_o(sum_row),
    .sum_o(sum)
  );

  assign page_ready_o = stored_i ? store_ready : fold_ready;
  assign begins_o = stored_i ? store_begins : fold_begins;
  // Of folded weights, which the store gives a cycle later.
  logic passed_q, passed_half_q, passed_last_q;
  logic [WordBits-1:0] passed_word_q;
  logic [1:0] passed_step_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) passed_q <= 1'b0;
    else passed_q <= fold_valid;
  end
  always_ff @(posedge clk_i) begin
    if (fold_valid) begin
      passed_half_q <= fold_half;
      passed_last_q <= fold_last;
      passed_word_q <= fold_word;
      passed_step_q <= fold_step;
    end
  end
  assign weight_valid_o = stored_i ? {2{store_valid}} : {passed_q && passed_half_q, passed_q && !passed_half_q};
  assign weight_word_o = stored_i ? store_word : passed_word_q;
  assign weight_step_o = stored_i ? store_step : passed_step_q;
  assign weight_last_o = stored_i ? store_last : passed_last_q;

  assign terms_valid_o = stored_i ? sum_valid : fold_terms_valid;
  always_comb begin
    terms_o = fold_terms;
    if (stored_i) begin
      terms_o.slot = sum_slot;
      terms_o.row = sum_row;
      terms_o.sum = sum;
    end
  end

endmodule
