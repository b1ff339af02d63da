// 32-bit words, one after the other from an address on, as writes of bursts: a word per cycle while
// memory takes bursts at once. A last word ends its burst, which is written as far as it is filled; the
// next word begins the next burst.

`include "nkv_assert.svh"

module nkv_word_packer
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,

  input  logic           start_i,
  input  logic [63:0]    address_i,      // A multiple of 64.
  output logic           idle_o,         // Nothing is held: with the last word, all has been handed on.

  input  logic           word_valid_i,
  output logic           word_ready_o,
  input  logic [31:0]    word_i,
  input  logic           word_last_i,

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  localparam int unsigned Words = BurstBytes / 4;
  localparam int unsigned IndexBits = $clog2(Words);

  logic [31:0]        word_q[Words];
  logic [IndexBits:0] filled_q;
  logic               full_q;
  logic [63:0]        address_q;

  wire take = word_valid_i && word_ready_o;
  wire [IndexBits-1:0] place = full_q ? '0 : filled_q[IndexBits-1:0];
  assign word_ready_o = !full_q || write_ready_i;
  assign write_valid_o = full_q;
  assign idle_o = filled_q == '0;

  always_comb begin
    write_o.address = address_q;
    for (int unsigned i = 0; i < Words; i++) begin
      write_o.data[32*i+:32] = word_q[i];
      write_o.strobes[4*i+:4] = {4{(IndexBits + 1)'(i) < filled_q}};
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      filled_q <= '0;
      full_q <= 1'b0;
      address_q <= '0;
    end else if (start_i) begin
      filled_q <= '0;
      full_q <= 1'b0;
      address_q <= address_i;
    end else begin
      if (full_q && write_ready_i) begin
        filled_q <= '0;
        full_q <= 1'b0;
        address_q <= address_q + 64'(BurstBytes);
      end
      if (take) begin
        filled_q <= (IndexBits + 1)'(place) + 1'b1;
        full_q <= word_last_i || place == IndexBits'(Words - 1);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) word_q[place] <= word_i;
  end

  `NKV_ASSERT_STAYS(WriteStays_A, write_valid_o, write_ready_i, write_o, start_i)

endmodule
