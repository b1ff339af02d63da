// The ids of a GATHER, one per cycle, in order. Asks for a burst of them only when there is room for it, so
// that they never keep the bursts that come behind them.

`include "nkv_assert.svh"

module nkv_gather_ids
  import nkv_pkg::*;
#(
  parameter int unsigned Ahead = 4          // Bursts.
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,

  input  logic          start_i,
  input  logic [63:0]   address_i,          // A multiple of 4.
  input  logic [31:0]   count_i,            // At least 1.
  output logic          poisoned_o,         // Since start_i.

  output logic          request_valid_o,
  input  logic          request_ready_i,
  output read_request_t request_o,
  input  logic          beat_valid_i,       // Beats for SinkIds; always taken.
  input  read_beat_t    beat_i,

  output logic          id_valid_o,
  input  logic          id_ready_i,
  output logic [31:0]   id_o,
  output logic          id_last_o
);

  localparam int unsigned Ids = BurstBits / 32;
  localparam int unsigned IdBits = $clog2(Ids);

  typedef logic [$clog2(Ahead):0] count_t;

  logic [63:0]       address_q;
  burst_count_t      bursts_q;  // To be asked for.
  count_t            held_q;    // Asked for, and not used up.
  logic [31:0]       left_q;
  logic [IdBits-1:0] index_q;
  logic              poisoned_q, has_room;
  count_t            unused_used;
  burst_t            ids;

  wire sent = request_valid_o && request_ready_i;
  wire take = id_valid_o && id_ready_i;
  wire used_up = take && (id_last_o || index_q == '1);

  assign request_valid_o = bursts_q != '0 && held_q < count_t'(Ahead);
  assign request_o = '{
      tag: '{sink: SinkIds, last_bytes: 7'(nkv_abi_pkg::BurstBytes), default: '0},
      bursts: burst_count_t'(1),
      address: address_q
  };
  assign id_o = ids[32*index_q+:32];
  assign id_last_o = left_q == 32'd1;
  assign poisoned_o = poisoned_q;

  nkv_fifo #(
    .T(burst_t),
    .Depth(Ahead)
  ) u_bursts (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (beat_valid_i),
    .in_ready_o (has_room),
    .in_data_i  (beat_i.data),
    .out_valid_o(id_valid_o),
    .out_ready_i(used_up),
    .out_data_o (ids),
    .used_o     (unused_used)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {address_q, bursts_q, held_q, left_q, index_q, poisoned_q} <= '0;
    end else if (clear_i) begin
      bursts_q <= '0;
      held_q <= '0;
    end else if (start_i) begin
      address_q <= {address_i[63:6], 6'd0};
      bursts_q <= bursts_of((count_i << 2) + 32'(address_i[5:0]));
      left_q <= count_i;
      index_q <= address_i[5:2];
      poisoned_q <= 1'b0;
    end else begin
      held_q <= held_q + count_t'(sent) - count_t'(used_up);
      if (sent) begin
        address_q <= address_q + 64'(nkv_abi_pkg::BurstBytes);
        bursts_q <= bursts_q - 1'b1;
      end
      if (take) begin
        left_q <= left_q - 1'b1;
        index_q <= index_q + 1'b1;
      end
      if (beat_valid_i && beat_i.poison) poisoned_q <= 1'b1;
    end
  end

  wire unused = ^{address_i[1:0], beat_i};

  `NKV_ASSERT_STAYS(IdStays_A, id_valid_o, id_ready_i, {id_o, id_last_o}, clear_i || start_i)
  `NKV_ASSERT_ROOM(BurstsHaveRoom_A, beat_valid_i, has_room)

endmodule
