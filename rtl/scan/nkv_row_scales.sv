// What a row's midpoints are stored in (ARITHMETIC.md, 5.1): the reference and the shift X, taken
// from the first page of a scan; and per page and row the offset that its plane sums are added to.
//
// SCAN: offset = K - ref - (128 - 2^(7-L0)) * sum of w, so that a midpoint less its reference is
// the offset plus the Horner sum times 2^(8-L0); without planes K - ref + 2^7 * W. REFINE: offset = -2^(7-L) * sum of w, so that what
// plane L adds is the offset plus the sum over its set bits times 2^(8-L). Terms to offset: 3
// cycles, a row per cycle.

module nkv_row_scales
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       refining_i,
  input  planes_t    planes_i,       // L0, or the plane that refines
  input  logic       terms_valid_i,
  input  logic       terms_first_i,  // Of the page that is the reference
  input  row_terms_t terms_i,

  output constant_t  reference_o[Rows],
  output shift_t     shift_o[Rows],

  // Offsets of a page in use; they stand in the next cycle.
  input  logic       read_i,
  input  slot_t      read_slot_i,
  output offset_t    offset_o[Rows]
);

  // X = max(0, bits(max(W, 1)) + 10 - 15).
  function automatic shift_t shift_of(norm_t norm);
    shift_t shift;
    shift = '0;
    for (int i = 5; i < $bits(norm_t); i++) if (norm[i]) shift = shift_t'(i - 4);
    return shift;
  endfunction

  logic valid_1, valid_2;
  row_t row_1, row_2;
  slot_t slot_1, slot_2;
  constant_t constant_1;
  sum_t sum_1;
  norm_t norm_1;
  offset_t base_2, correction_2;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_1 <= 1'b0;
      valid_2 <= 1'b0;
    end else begin
      valid_1 <= terms_valid_i;
      valid_2 <= valid_1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (terms_valid_i) begin
      row_1 <= terms_i.row;
      slot_1 <= terms_i.slot;
      constant_1 <= terms_i.constant;
      sum_1 <= terms_i.sum;
      norm_1 <= terms_i.norm;
      if (terms_first_i && !refining_i) begin
        reference_o[terms_i.row] <= terms_i.constant;
        shift_o[terms_i.row] <= shift_of(terms_i.norm);
      end
    end
    if (valid_1) begin
      row_2 <= row_1;
      slot_2 <= slot_1;
      base_2 <= (refining_i ? '0 : offset_t'(constant_1) - offset_t'(reference_o[row_1]));
      correction_2 <= planes_i == '0 ? -offset_t'({norm_1, 7'b0}) :
          (refining_i ? '0 : offset_t'(sum_1) <<< 7) - (offset_t'(sum_1) <<< (3'd7 - planes_i));
    end
  end

  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    (* ram_style = "distributed" *) offset_t offsets[Slots];
    always_ff @(posedge clk_i) begin
      if (valid_2 && row_2 == row_t'(r)) begin
        offsets[slot_2] <= refining_i ? base_2 + correction_2 : base_2 - correction_2;
      end
      if (read_i) offset_o[r] <= offsets[read_slot_i];
    end
  end

  // verilator lint_off UNUSEDSIGNAL
  wire unused = &{1'b0, terms_i.squares, terms_i.slack};
  // verilator lint_on UNUSEDSIGNAL

endmodule
