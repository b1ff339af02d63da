// The next 16 bytes of a byte stream that comes in lines of 16, from any byte on. count_o says how
// many of bytes_o are there; take_i (at most that many) moves on. 16 bytes per cycle are sustained
// as long as lines come. begin_i drops what is held; the stream then begins at byte skip_i of the
// next line.

module nkv_byte_window (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         begin_i,
  input  logic [3:0]   skip_i,

  input  logic         in_valid_i,
  output logic         in_ready_o,   // Also in the cycle of begin_i; nothing is taken then.
  input  logic [127:0] in_data_i,

  output logic [7:0]   bytes_o[16],
  output logic [4:0]   count_o,      // 0..16.
  input  logic [4:0]   take_i
);

  // Two lines, filled in turn.
  logic [7:0] line_q[32];
  logic [1:0] full_q;
  logic [4:0] place_q;       // Of the next byte, in both lines.
  logic fill_q;              // The line that is filled next.

  wire is_other_full = full_q[!place_q[4]];
  always_comb begin
    if (!full_q[place_q[4]]) count_o = '0;
    else if (is_other_full || place_q[3:0] == '0) count_o = 5'd16;
    else count_o = 5'd16 - {1'b0, place_q[3:0]};
  end

  // Turned by the place, a bit of it at a time.
  logic [7:0] by_16[31];
  logic [7:0] by_8[23];
  logic [7:0] by_4[19];
  logic [7:0] by_2[17];
  always_comb begin
    for (int unsigned i = 0; i < 31; ++i) by_16[i] = line_q[{place_q[4], 4'b0}^5'(i)];
    for (int unsigned i = 0; i < 23; ++i) by_8[i] = by_16[place_q[3]?i+8 : i];
    for (int unsigned i = 0; i < 19; ++i) by_4[i] = by_8[place_q[2]?i+4 : i];
    for (int unsigned i = 0; i < 17; ++i) by_2[i] = by_4[place_q[1]?i+2 : i];
    for (int unsigned i = 0; i < 16; ++i) bytes_o[i] = by_2[place_q[0]?i+1 : i];
  end

  wire [4:0] next_place = place_q + take_i;
  wire leaves = next_place[4] != place_q[4];  // The line of place_q is used up.
  logic [1:0] kept;
  always_comb begin
    kept = full_q;
    if (leaves) kept[place_q[4]] = 1'b0;
  end
  assign in_ready_o = !kept[fill_q];
  wire fills = in_valid_i && in_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      full_q <= '0;
      place_q <= '0;
      fill_q <= 1'b0;
    end else if (begin_i) begin
      full_q <= '0;
      place_q <= {1'b0, skip_i};
      fill_q <= 1'b0;
    end else begin
      place_q <= next_place;
      full_q <= kept;
      if (fills) begin
        full_q[fill_q] <= 1'b1;
        fill_q <= !fill_q;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (fills) begin
      for (int unsigned i = 0; i < 16; ++i) line_q[{fill_q, 4'(i)}] <= in_data_i[8*i+:8];
    end
  end

endmodule
