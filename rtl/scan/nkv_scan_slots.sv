// Pages between fold and midpoints: each has a slot, which holds what its record said until it is done. Slots
// go round; there is room while one is free.
//
// Pages to refine whose weights were kept come first; those whose weights are folded again wait until the
// others are through.

module nkv_scan_slots
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages
) (
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       begins_i,       // An operation.
  input  logic       open_i,         // It takes records,
  input  logic       refining_i,     // as one that refines.
  input  logic       record_valid_i,
  output logic       room_o,
  input  logic       taken_i,
  input  scan_page_t record_i,
  input  logic       done_i,         // With the page that was taken first.

  output logic       kept_o,         // Weights of pages to refine were kept.
  output slot_t      slot_o,         // Of the next page.
  output page_t      page_o[Slots],
  output tokens_t    tokens_o[Slots],
  output logic       first_o[Slots]
);

  logic [SlotBits:0] used_q;
  wire turns = kept_o && refining_i && record_valid_i && !stays(record_i.page, KeptPages);
  assign room_o = open_i && !turns && used_q != (SlotBits + 1)'(Slots);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      slot_o <= '0;
      used_q <= '0;
      kept_o <= 1'b1;
    end else begin
      if (begins_i) kept_o <= 1'b1;
      else if (turns && used_q == '0) kept_o <= 1'b0;
      if (taken_i) slot_o <= slot_o + 1'b1;
      used_q <= used_q + (SlotBits + 1)'(taken_i) - (SlotBits + 1)'(done_i);
    end
  end
  always_ff @(posedge clk_i) begin
    if (taken_i) begin
      page_o[slot_o] <= record_i.page;
      tokens_o[slot_o] <= record_i.tokens;
      first_o[slot_o] <= record_i.first;
    end
  end

  wire unused = ^record_i.step_exponent;

endmodule
