// Words of rows, one after the other without a gap, written as bursts. A word per cycle, always taken: whoever
// begins a row waits until there is room.

`include "nkv_assert.svh"

module nkv_row_write
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic           start_i,
  input  logic [63:0]    address_i,        // A multiple of 64.
  input  logic [31:0]    bytes_i,          // Of all rows.
  output logic           done_o,           // All have been handed on.

  output logic           room_o,           // For some words more than are on their way.
  input  logic           word_valid_i,
  input  logic           word_wide_i,      // Elements of two bytes; else of their low one.
  input  logic           word_half_i,      // Half as many.
  input  logic [15:0]    element_i[ExactLanes],

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  localparam int unsigned PieceBytes = 16;  // Rows are of whole ones.
  localparam int unsigned Pieces = BurstBytes / PieceBytes;
  localparam int unsigned WordsAhead = 8;   // Between a row's start and the queue of bursts.
  localparam int unsigned PieceBits = $clog2(Pieces) + 1;
  localparam int unsigned UsedBits = $clog2(2 * WordsAhead) + 1;

  logic [31:0] bytes_q, left_q;  // That come out of rows, and that are still to be handed on.
  logic [63:0] address_q;
  logic        fills_q;          // With anything, a burst that rows leave half full.
  wire [31:0]  word_bytes = 32'd64 >> (32'(!word_wide_i) + 32'(word_half_i));
  wire         ends = word_valid_i && bytes_q == word_bytes;

  logic [PieceBits-1:0] pieces;
  always_comb begin
    pieces = PieceBits'(word_bytes >> $clog2(PieceBytes));
    // Fewer than a burst are left, all of them in the packer.
    if (fills_q) pieces = PieceBits'(Pieces) - PieceBits'(left_q[5:4]);
  end

  logic   pack_valid, bursts_ready;
  burst_t pack_burst, burst;
  logic [UsedBits-1:0] bursts_used;

  nkv_element_pack u_pack (
    .clk_i,
    .rst_ni,
    .clear_i  (clear_i || start_i),
    .valid_i  (word_valid_i || fills_q),
    .is_wide_i(word_wide_i),
    .count_i  (pieces),
    .element_i,
    .valid_o  (pack_valid),
    .burst_o  (pack_burst)
  );

  nkv_fifo #(
    .T(burst_t),
    .Depth(2 * WordsAhead)
  ) u_bursts (
    .clk_i,
    .rst_ni,
    .clear_i    (clear_i || start_i),
    .in_valid_i (pack_valid),
    .in_ready_o (bursts_ready),
    .in_data_i  (pack_burst),
    .out_valid_o(write_valid_o),
    .out_ready_i(write_ready_i),
    .out_data_o (burst),
    .used_o     (bursts_used)
  );
  assign room_o = bursts_used < UsedBits'(WordsAhead);

  wire is_last = left_q <= 32'(BurstBytes);
  assign write_o = '{
      address: address_q,
      strobes: is_last ? ~({BurstBytes{1'b1}} << left_q[$clog2(BurstBytes):0]) : '1,
      data: burst
  };
  assign done_o = left_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {fills_q, bytes_q, left_q, address_q} <= '0;
    end else if (clear_i) begin
      {fills_q, bytes_q, left_q} <= '0;
    end else begin
      fills_q <= ends && left_q[5:4] != '0;
      if (word_valid_i) bytes_q <= bytes_q - word_bytes;
      if (write_valid_o && write_ready_i) begin
        address_q <= address_q + 64'(BurstBytes);
        left_q <= is_last ? '0 : left_q - 32'(BurstBytes);
      end
      if (start_i) begin
        bytes_q <= bytes_i;
        left_q <= bytes_i;
        address_q <= address_i;
      end
    end
  end

  `NKV_ASSERT_ROOM(BurstsHaveRoom_A, pack_valid, bursts_ready)

endmodule
