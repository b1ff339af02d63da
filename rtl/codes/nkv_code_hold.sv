// Words of rows wait for what is to be known of the whole row, and then leave with it, a word per
// cycle and row after row, from two cycles after it is known.

`include "nkv_assert.svh"

module nkv_code_hold
  import nkv_exact_pkg::*;
#(
  parameter int unsigned Width = 512,   // Of a word.
  parameter int unsigned Depth = 16,    // Words that wait at the most; a power of two.
  parameter int unsigned KnownBits = 8
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,

  input  logic                 valid_i,
  input  logic [Width-1:0]     word_i,

  input  word_index_t          last_index_i,  // Of a row's words; held.
  input  logic                 known_valid_i, // Not before the row's last word, nor more often than
  input  logic [KnownBits-1:0] known_i,       // once in as many cycles as a row has words.

  output logic                 valid_o,
  output word_index_t          index_o,
  output logic [Width-1:0]     word_o,
  output logic [KnownBits-1:0] known_o        // Of the word's row.
);

  localparam int unsigned PlaceBits = $clog2(Depth);

  (* ram_style = "distributed" *) logic [Width-1:0] memory[Depth];
  logic [PlaceBits-1:0] write_q, read_q;
  logic                 leaves_q;
  word_index_t          index_q;
  logic [KnownBits-1:0] known_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {write_q, read_q, leaves_q, index_q, valid_o} <= '0;
    end else if (clear_i) begin
      {write_q, read_q, leaves_q, index_q, valid_o} <= '0;
    end else begin
      valid_o <= leaves_q;
      if (valid_i) write_q <= write_q + 1'b1;
      if (leaves_q) read_q <= read_q + 1'b1;
      if (known_valid_i) begin
        leaves_q <= 1'b1;
        index_q <= '0;
      end else if (leaves_q) begin
        leaves_q <= index_q != last_index_i;
        index_q <= index_q + 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) memory[write_q] <= word_i;
    if (known_valid_i) known_q <= known_i;
    word_o <= memory[read_q];
    index_o <= index_q;
    known_o <= known_q;
  end

  // A row that is known while the one before still leaves would be lost.
  `NKV_ASSERT(KnownAfterLeft_A, clear_i || !known_valid_i || !leaves_q || index_q == last_index_i)
  `NKV_ASSERT(LeavesAfterCome_A, clear_i || !leaves_q || write_q != read_q)

endmodule
