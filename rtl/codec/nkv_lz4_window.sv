// The next 16 bytes of a byte stream that comes in bursts of 64, from any byte on. count_o says how
// many of bytes_o are there; take_i (at most that many) moves on. 16 bytes per cycle are sustained
// as long as bursts come. begin_i drops what is held; the stream then begins at byte
// skip_i of the next burst.

module nkv_lz4_window (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         begin_i,
  input  logic [5:0]   skip_i,

  input  logic         in_valid_i,
  output logic         in_ready_o,
  input  logic [511:0] in_data_i,

  output logic [7:0]   bytes_o[16],
  output logic [4:0]   count_o,      // 0..16.
  input  logic [4:0]   take_i
);

  logic [127:0] burst_q[4];
  logic burst_valid_q;
  logic [1:0] word_q;        // The burst's next 16 bytes.
  logic [1:0] first_word_q;  // Where the first burst begins.
  logic line_ready;

  nkv_byte_window u_window (
    .clk_i, .rst_ni,
    .begin_i, .skip_i(skip_i[3:0]),
    .in_valid_i(burst_valid_q), .in_ready_o(line_ready), .in_data_i(burst_q[word_q]),
    .bytes_o, .count_o, .take_i
  );

  wire fills = burst_valid_q && line_ready;
  wire is_last_word = word_q == 2'd3;

  assign in_ready_o = !begin_i && (!burst_valid_q || (fills && is_last_word));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      burst_valid_q <= 1'b0;
      word_q <= '0;
      first_word_q <= '0;
    end else if (begin_i) begin
      burst_valid_q <= 1'b0;
      first_word_q <= skip_i[5:4];
    end else begin
      if (fills) begin
        word_q <= word_q + 1'b1;
        if (is_last_word) burst_valid_q <= 1'b0;
      end
      if (in_valid_i && in_ready_o) begin
        burst_valid_q <= 1'b1;
        word_q <= first_word_q;
        first_word_q <= '0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (in_valid_i && in_ready_o) begin
      for (int unsigned i = 0; i < 4; ++i) burst_q[i] <= in_data_i[128*i+:128];
    end
  end

endmodule
