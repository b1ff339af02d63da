// Bytes that begin inside a burst, moved to the start of bursts: drops what comes before the first
// byte and gives out ceil(bytes / 64) bursts. Offsets are multiples of 4 bytes. One burst per cycle,
// valid/ready; the last one needs no further input if its bytes have come.

`include "nkv_assert.svh"

module nkv_burst_align
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        start_i,        // While nothing is on its way.
  input  logic [3:0]  offset_i,       // Of the first byte in its burst, in 4 bytes.
  input  logic [15:0] in_bursts_i,    // That come in,
  input  logic [15:0] out_bursts_i,   // and that go out: as many or one less.

  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  burst_t      in_i,
  output logic        out_valid_o,
  input  logic        out_ready_i,
  output burst_t      out_o
);

  logic [3:0]  offset_q;
  logic [15:0] in_left_q, out_left_q;
  logic        held_q;  // held_data_q is the burst before.
  burst_t      held_data_q;

  wire aligned = offset_q == '0;
  wire in_ended = in_left_q == '0;
  wire moves = out_valid_o && out_ready_i;
  wire takes = in_valid_i && in_ready_o;

  assign out_valid_o = out_left_q != '0 &&
      (aligned ? in_valid_i : held_q && (in_valid_i || in_ended));
  assign in_ready_o = !in_ended && (aligned ? out_ready_i : !held_q || moves);

  wire [2*BurstBits-1:0] pair = {in_i, held_data_q};
  assign out_o = aligned ? in_i : burst_t'(pair >> {offset_q, 5'b0});

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      offset_q <= '0;
      in_left_q <= '0;
      out_left_q <= '0;
      held_q <= 1'b0;
    end else if (start_i) begin
      offset_q <= offset_i;
      in_left_q <= in_bursts_i;
      out_left_q <= out_bursts_i;
      held_q <= 1'b0;
    end else begin
      if (moves) out_left_q <= out_left_q - 16'd1;
      if (takes) begin
        in_left_q <= in_left_q - 16'd1;
        held_q <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (takes) held_data_q <= in_i;
  end

  // As long as what comes in does.
  `NKV_ASSERT_STAYS(OutStays_A, out_valid_o, out_ready_i, out_o, start_i || !in_valid_i)

endmodule
