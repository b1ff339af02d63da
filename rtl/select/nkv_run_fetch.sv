// Reads one pass of a 4-way merge sort from memory: sorted runs of 4^power_i entries, of which 4
// neighbours go to streams 0..3, entry by entry, over and over; entries at count_i and above are
// pads. One entry per cycle. Each stream may have up to 8 items that taken_i has not told of yet.
// The pass begins when clear_i falls, and ends when it rises: items that are under way are lost.
// The entry that is read at read_address_o belongs to the item that comes two cycles later.

module nkv_run_fetch #(
  parameter int unsigned IndexBits = 12,
  localparam type index_t = logic [IndexBits-1:0],
  // Of entries that are read: the last group of runs may reach past the memory.
  localparam type position_t = logic [IndexBits+1:0]
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,
  input  logic [IndexBits:0] count_i,
  input  logic [2:0]         power_i,
  input  logic [3:0]         taken_i,

  output logic               read_valid_o,
  output index_t             read_address_o,
  output logic               item_valid_o,
  output logic [1:0]         item_stream_o,
  output logic               item_pad_o,
  output logic               item_last_o
);

  localparam int unsigned Room = 8;

  // Which stream is next: the first in turn that has room.
  logic [3:0] room_q[4];
  logic [3:0] able;
  logic [1:0] stream, stream_q;
  logic picked_q;
  always_comb begin
    for (int unsigned i = 0; i < 4; ++i) able[i] = room_q[i] != '0;
    stream = stream_q;
    for (int unsigned i = 4; i > 0; --i) begin
      if (able[stream_q+2'(i)]) stream = stream_q + 2'(i);
    end
  end
  wire picks = able != '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      picked_q <= 1'b0;
      stream_q <= '0;
      for (int unsigned i = 0; i < 4; ++i) room_q[i] <= '0;
    end else if (clear_i) begin
      picked_q <= 1'b0;
      for (int unsigned i = 0; i < 4; ++i) room_q[i] <= 4'(Room);
    end else begin
      picked_q <= picks;
      if (picks) stream_q <= stream;
      for (int unsigned i = 0; i < 4; ++i) begin
        if (taken_i[i] != (picks && stream == 2'(i))) begin
          room_q[i] <= taken_i[i] ? room_q[i] + 1'b1 : room_q[i] - 1'b1;
        end
      end
    end
  end

  // A stream's entries are numbered through; its number stands at 2 * power within the position.
  position_t number_q[4];
  wire position_t number = number_q[stream_q];
  position_t position, below;
  always_comb begin
    below = '0;
    for (int unsigned i = 0; i < IndexBits + 2; ++i) below[i] = i / 2 < 32'(power_i);
    position = number & below;
    for (int unsigned i = 0; i < IndexBits + 2; ++i) begin
      if (i / 2 == 32'(power_i)) position[i] = stream_q[i%2];
      else if (i / 2 > 32'(power_i)) position[i] = number[i-2];
    end
  end

  position_t position_q;
  logic read_q, last_q;
  logic [1:0] number_stream_q;
  assign read_valid_o = read_q;
  assign read_address_o = position_q[IndexBits-1:0];

  logic [1:0] item_valid_q, item_last_q, item_pad_q;
  logic [1:0] item_stream_q[2];
  assign item_valid_o = item_valid_q[1];
  assign item_stream_o = item_stream_q[1];
  assign item_pad_o = item_pad_q[1];
  assign item_last_o = item_last_q[1];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_q <= 1'b0;
      item_valid_q <= '0;
      for (int unsigned i = 0; i < 4; ++i) number_q[i] <= '0;
    end else if (clear_i) begin
      read_q <= 1'b0;
      item_valid_q <= '0;
      for (int unsigned i = 0; i < 4; ++i) number_q[i] <= '0;
    end else begin
      read_q <= picked_q;
      item_valid_q <= {item_valid_q[0], read_q};
      if (picked_q) number_q[stream_q] <= number + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (picked_q) begin
      position_q <= position;
      last_q <= (number | ~below) == '1;
      number_stream_q <= stream_q;
    end
    if (read_q) begin
      item_stream_q[0] <= number_stream_q;
      item_last_q[0] <= last_q;
      item_pad_q[0] <= position_q >= position_t'(count_i);
    end
    item_stream_q[1] <= item_stream_q[0];
    item_last_q[1] <= item_last_q[0];
    item_pad_q[1] <= item_pad_q[0];
  end

endmodule
