// Weights of a list's first KeptPages pages, kept from their scan, so that a plane more (ARITHMETIC.md
// 5.2) needs neither their digests nor the fold: 8 channels of 4 rows are written per cycle, 8 channels of
// all rows are given per cycle. With each page go its sums of w, a row per cycle.
//
// A page takes 4 cycles a digest burst, 8 at the least. Weights and sums leave 2 cycles after they were
// begun. Folded weights leave through the same registers, in the cycle after they came.

module nkv_weight_store
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages,  // A power of two.
  localparam int unsigned WordBits = $clog2(Words)
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic [2:0] words_i,   // Digest bursts of a page, 1..4; held.

  // While pages are scanned: weights as they are folded, and what the fold knows of them. Of pages that do
  // not stay nothing is written.
  input  logic                write_i,
  input  page_t               write_page_i,
  input  logic                write_half_i,
  input  logic [WordBits-1:0] write_word_i,
  input  logic [1:0]          write_step_i,
  input  weight_t             write_weight_i[HalfRows][FoldLanes],
  input  logic                pass_i,          // They leave for both halves of the rows; no page is given.
  input  logic                sum_write_i,
  input  page_t               sum_page_i,
  input  row_t                sum_row_i,
  input  sum_t                sum_i,

  // Pages that stay and are wanted again, in order. Room for a page's weights is taken as it begins.
  input  logic                page_valid_i,
  output logic                page_ready_o,
  input  page_t               page_i,
  input  slot_t               page_slot_i,
  input  logic                room_i,
  output logic                begins_o,

  output logic                weight_valid_o,
  output logic [WordBits-1:0] weight_word_o,
  output logic [1:0]          weight_step_o,
  output logic                weight_last_o,
  output weight_t             weight_o[Rows][FoldLanes],
  output logic                sum_valid_o,
  output slot_t               sum_slot_o,
  output row_t                sum_row_o,
  output sum_t                sum_o
);

  localparam int unsigned Steps = Words * FoldSteps;
  localparam int unsigned StepBits = $clog2(Steps);
  localparam int unsigned KeptBits = $clog2(KeptPages);
  typedef logic [StepBits-1:0] step_t;
  typedef logic [KeptBits-1:0] place_t;     // Of a page's.
  typedef logic [HalfRows-1:0][FoldLanes-1:0][$bits(weight_t)-1:0] half_t;

  // ---- The page that is given -------------------------------------------------------------
  logic  running_q;
  place_t page_q;
  slot_t slot_q;
  step_t step_q;
  wire [StepBits:0] weight_steps = (StepBits + 1)'(words_i) << $clog2(FoldSteps);
  wire issue = running_q && (step_q != '0 || room_i);
  wire weights_now = issue && {1'b0, step_q} < weight_steps;
  wire weights_end = {1'b0, step_q} + 1'b1 == weight_steps;
  wire sums_now = issue && 32'(step_q) < Rows;
  wire page_ends = issue && (StepBits + 1)'(step_q) + 1'b1 >= weight_steps && 32'(step_q) + 1 >= Rows;
  assign begins_o = issue && step_q == '0;
  assign page_ready_o = !running_q || page_ends;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      running_q <= 1'b0;
      step_q <= '0;
    end else begin
      if (issue) step_q <= page_ends ? '0 : step_q + 1'b1;
      if (page_ready_o) running_q <= page_valid_i;
    end
  end
  always_ff @(posedge clk_i) begin
    if (page_valid_i && page_ready_o) begin
      page_q <= place_t'(page_i);
      slot_q <= page_slot_i;
    end
  end

  // ---- Memories ---------------------------------------------------------------------------
  (* ram_style = "ultra" *) half_t low_rows[KeptPages*Steps];
  (* ram_style = "ultra" *) half_t high_rows[KeptPages*Steps];
  (* ram_style = "block" *) sum_t  sums[KeptPages*Rows];
  half_t written, low_1, high_1, low_2, high_2;
  sum_t sum_1, sum_2;
  logic [2:1] weights_q, sums_q, last_q;
  step_t step_1, step_2;
  slot_t slot_1, slot_2;
  wire [KeptBits+StepBits-1:0] write_at = {place_t'(write_page_i), write_word_i, write_step_i};
  wire [KeptBits+StepBits-1:0] read_at = {page_q, step_q};
  wire write = write_i && stays(write_page_i, KeptPages);
  wire sum_write = sum_write_i && stays(sum_page_i, KeptPages);

  always_comb begin
    for (int unsigned r = 0; r < HalfRows; r++) begin
      for (int unsigned k = 0; k < FoldLanes; k++) written[r][k] = write_weight_i[r][k];
    end
  end

  always_ff @(posedge clk_i) begin
    if (write && !write_half_i) low_rows[write_at] <= written;
    if (write && write_half_i) high_rows[write_at] <= written;
    if (weights_now) begin
      low_1 <= low_rows[read_at];
      high_1 <= high_rows[read_at];
    end
    if (weights_q[1]) begin
      low_2 <= low_1;
      high_2 <= high_1;
    end else if (pass_i) begin
      low_2 <= written;
      high_2 <= written;
    end
    if (sum_write) sums[{place_t'(sum_page_i), sum_row_i}] <= sum_i;
    if (sums_now) sum_1 <= sums[{page_q, step_q[RowBits-1:0]}];
    if (sums_q[1]) sum_2 <= sum_1;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      weights_q <= '0;
      sums_q <= '0;
    end else begin
      weights_q <= {weights_q[1], weights_now};
      sums_q <= {sums_q[1], sums_now};
    end
  end
  always_ff @(posedge clk_i) begin
    if (issue) begin
      step_1 <= step_q;
      slot_1 <= slot_q;
      last_q[1] <= weights_end;
    end
    if (weights_q[1] || sums_q[1]) begin
      step_2 <= step_1;
      slot_2 <= slot_1;
      last_q[2] <= last_q[1];
    end
  end

  assign weight_valid_o = weights_q[2];
  assign {weight_word_o, weight_step_o} = step_2;
  assign weight_last_o = last_q[2];
  always_comb begin
    for (int unsigned r = 0; r < HalfRows; r++) begin
      for (int unsigned k = 0; k < FoldLanes; k++) begin
        weight_o[r][k] = low_2[r][k];
        weight_o[r+HalfRows][k] = high_2[r][k];
      end
    end
  end
  assign sum_valid_o = sums_q[2];
  assign sum_slot_o = slot_2;
  assign sum_row_o = step_2[RowBits-1:0];
  assign sum_o = sum_2;

  wire unused = ^page_i;

endmodule
