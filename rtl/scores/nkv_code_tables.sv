// Sums of weights by the bits that they meet: of each four channels of a row the 16 sums of w with the
// signs that four bits say, + where a bit is set. An entry of all of a row's channels per cycle, in
// Gray's order, 16 cycles from the one after the row's last word.

`include "nkv_assert.svh"

module nkv_code_tables
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
#(
  localparam int unsigned Groups = Channels / GroupChannels
) (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  word_index_t  last_index_i,    // Of a row's words; held.
  input  logic         valid_i,         // Not while entries are written.
  input  word_index_t  index_i,
  input  code_weight_t weight_i[ExactLanes],

  output logic         write_o,
  output group_bits_t  entry_o,
  output code_weight_t sum_o[Groups],
  output logic         last_o           // Entry of the row.
);

  localparam int unsigned WordGroups = ExactLanes / GroupChannels;
  localparam int unsigned Entries = 1 << GroupChannels;
  typedef logic [$clog2(GroupChannels)-1:0] place_t;

  group_bits_t step_q;
  logic        begins_q;                // The first step is next.
  wire group_bits_t next = step_q + 1'b1;
  // Which bit differs from the entry before, and whether it is set.
  wire group_bits_t next_gray = next ^ (next >> 1);
  wire group_bits_t changes = next_gray ^ entry_o;
  wire rises = (changes & next_gray) != '0;
  place_t place;
  always_comb begin
    place = '0;
    for (int unsigned i = 0; i < GroupChannels; i++) if (changes[i]) place = place_t'(i);
  end

  assign entry_o = step_q ^ (step_q >> 1);
  assign last_o = write_o && step_q == group_bits_t'(Entries - 1);

  for (genvar g = 0; g < Groups; g++) begin : gen_groups
    localparam int unsigned Word = g / WordGroups;
    code_weight_t weight_q[GroupChannels], sum_q;
    wire code_weight_t twice = weight_q[place] <<< 1;
    always_ff @(posedge clk_i) begin
      for (int unsigned i = 0; i < GroupChannels; i++) begin
        if (valid_i && index_i == word_index_t'(Word)) begin
          weight_q[i] <= weight_i[g%WordGroups*GroupChannels+i];
        end else if (valid_i && index_i == '0) begin
          weight_q[i] <= '0;            // What an earlier row had there.
        end
      end
      if (begins_q) sum_q <= -(weight_q[0] + weight_q[1] + weight_q[2] + weight_q[3]);
      else sum_q <= rises ? sum_q + twice : sum_q - twice;
    end
    assign sum_o[g] = sum_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {begins_q, write_o, step_q} <= '0;
    end else if (clear_i) begin
      {begins_q, write_o, step_q} <= '0;
    end else begin
      begins_q <= valid_i && index_i == last_index_i;
      if (begins_q) {write_o, step_q} <= {1'b1, group_bits_t'(0)};
      else if (write_o) {write_o, step_q} <= {!last_o, next};
    end
  end

  // A row comes when the one before it is written.
  `NKV_ASSERT(OneByOne_A, clear_i || !valid_i || (!begins_q && !(write_o && !last_o)))

endmodule
