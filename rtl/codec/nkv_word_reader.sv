// Words of Width bits, one after the other, upwards or downwards, from a memory of lines of 16
// bytes that gives a line two cycles after its grant. After begin_i the first word is the one in
// which byte place_i lies; what was under way is dropped. Lines are asked for ahead of their use,
// up to four.

`include "nkv_assert.svh"

module nkv_word_reader #(
  parameter int unsigned Width = 16,  // 16, 32, 64 or 128.
  parameter bit Downwards = 1
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             begin_i,
  input  logic [17:0]      place_i,

  output logic             request_o,
  output logic [13:0]      request_line_o,
  input  logic             grant_i,
  input  logic [127:0]     line_i,

  output logic             valid_o,
  input  logic             ready_i,
  output logic [Width-1:0] word_o
);

  localparam int unsigned Ahead = 4;
  localparam int unsigned Words = 128 / Width;
  localparam int unsigned IndexBits = Words > 1 ? $clog2(Words) : 1;
  localparam int unsigned ByteBits = $clog2(Width / 8);

  logic reads_q;
  logic [13:0] line_q;
  logic [2:0] held_q;      // Lines that were asked for and are not used up.
  logic [1:0] coming_q;    // Granted one cycle ago, two cycles ago.
  logic [IndexBits-1:0] index_q;

  assign request_o = reads_q && held_q != 3'(Ahead);
  assign request_line_o = line_q;

  logic line_valid, line_ready;
  logic [$clog2(Ahead):0] unused_used;
  logic [127:0] line;
  wire is_last = index_q == (Downwards ? IndexBits'(0) : IndexBits'(Words - 1));
  wire uses_up = line_valid && ready_i && is_last;

  nkv_fifo #(.T(logic [127:0]), .Depth(Ahead)) u_lines (
    .clk_i, .rst_ni, .clear_i(begin_i),
    .in_valid_i(coming_q[1]), .in_ready_o(line_ready), .in_data_i(line_i),
    .out_valid_o(line_valid), .out_ready_i(uses_up), .out_data_o(line),
    .used_o(unused_used)
  );

  assign valid_o = line_valid;
  logic [Width-1:0] words[Words];
  always_comb begin
    for (int unsigned i = 0; i < Words; ++i) words[i] = line[i*Width+:Width];
  end
  assign word_o = words[index_q];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      reads_q <= 1'b0;
      line_q <= '0;
      held_q <= '0;
      coming_q <= '0;
      index_q <= '0;
    end else if (begin_i) begin
      reads_q <= 1'b1;
      line_q <= place_i[17:4];
      held_q <= '0;
      coming_q <= '0;
      index_q <= Words > 1 ? IndexBits'(place_i[3:0] >> ByteBits) : '0;
    end else begin
      coming_q <= {coming_q[0], grant_i};
      held_q <= held_q + 3'(grant_i) - 3'(uses_up);
      if (grant_i) line_q <= Downwards ? line_q - 1'b1 : line_q + 1'b1;
      if (line_valid && ready_i && Words > 1) begin
        index_q <= Downwards ? index_q - 1'b1 : index_q + 1'b1;
      end
    end
  end

  `NKV_ASSERT_ROOM(LinesHaveRoom_A, coming_q[1], line_ready)

endmodule
