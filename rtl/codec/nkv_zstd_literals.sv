// Decodes the Huffman-coded literals of a block, in one stream or in four side by side, and gives
// them in order, up to 16 per cycle, as far as they are there: bytes_o, count_o of them; take_i
// moves on. Four memories of 16 KiB.
//
// begin_i with what the streams are; then literals come, from the first stream's on. failed_o
// stands where a stream was found wrong, done_o when all were found right, until the next begin_i.

module nkv_zstd_literals
  import nkv_zstd_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        begin_i,
  input  logic        is_single_i,
  input  size_t       literals_i,          // At most 65,536; in four streams at least 6.
  input  place_t      end_i[Streams],      // Behind the last byte of each stream.
  input  size_t       size_i[Streams],

  input  code_bound_t bound_i[MaxCodeBits+1],
  input  logic [3:0]  max_bits_i,
  input  logic        write_i[2],
  input  logic [3:0]  weight_i[2],
  input  logic [SymbolsLog2-1:0] index_i[2],
  input  logic [SymbolsLog2-1:0] symbol_i[2],

  output logic [Streams-1:0] request_o,
  output line_t       request_line_o[Streams],
  input  logic [Streams-1:0] grant_i,
  input  logic [127:0] line_i,

  output logic [7:0]  bytes_o[16],
  output logic [4:0]  count_o,
  input  logic [4:0]  take_i,
  output logic        done_o,
  output logic        failed_o
);

  localparam int unsigned LineBits = 10;
  localparam int unsigned StreamBits = $clog2(Streams);
  typedef logic [14:0] literals_t;

  wire size_t each = is_single_i ? literals_i : (literals_i + 18'd3) >> 2;
  wire size_t last_one = literals_i - (each << 1) - each;
  logic [Streams-1:0] used_q, done, failed;
  literals_t each_q, last_one_q;
  assign done_o = (done | ~used_q) == '1;
  assign failed_o = (failed & used_q) != '0;

  logic [LineBits:0] written_q[Streams];
  logic [LineBits-1:0] read_line_q;
  logic reads;
  logic [127:0] read_q[Streams];

  for (genvar s = 0; s < Streams; ++s) begin : gen_stream
    logic pair_valid, is_pair, is_last;
    logic [7:0] literal[2];
    nkv_zstd_huffman_stream u_stream (
      .clk_i, .rst_ni,
      .begin_i(begin_i && (s == 0 || !is_single_i)), .end_i(end_i[s]), .size_i(size_i[s]),
      .literals_i(literals_t'(s == Streams - 1 ? last_one : each)),
      .bound_i, .max_bits_i, .write_i, .weight_i, .index_i, .symbol_i,
      .request_o(request_o[s]), .request_line_o(request_line_o[s]), .grant_i(grant_i[s]), .line_i,
      .valid_o(pair_valid), .is_pair_o(is_pair), .is_last_o(is_last), .literal_o(literal),
      .done_o(done[s]), .error_o(failed[s])
    );

    logic [15:0] pair_q[8];
    logic [2:0] slot_q;
    logic writes_q;
    logic [127:0] line;
    always_comb begin
      for (int unsigned i = 0; i < 8; ++i) line[16*i+:16] = pair_q[i];
    end

    always_ff @(posedge clk_i) begin
      if (pair_valid) pair_q[slot_q] <= {is_pair ? literal[1] : 8'd0, literal[0]};
    end

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        slot_q <= '0;
        writes_q <= 1'b0;
        written_q[s] <= '0;
      end else if (begin_i) begin
        slot_q <= '0;
        writes_q <= 1'b0;
        written_q[s] <= '0;
      end else begin
        writes_q <= pair_valid && (slot_q == 3'd7 || is_last);
        if (pair_valid) slot_q <= slot_q + 1'b1;
        if (writes_q) written_q[s] <= written_q[s] + 1'b1;
      end
    end

    (* ram_style = "block" *) logic [127:0] memory[2**LineBits];
    always_ff @(posedge clk_i) begin
      if (writes_q) memory[written_q[s][LineBits-1:0]] <= line;
      if (reads) read_q[s] <= memory[read_line_q];
    end
  end

  // ---- Stream after stream ---------------------------------------------------------------------
  logic [StreamBits-1:0] stream_q;
  literals_t left_q;               // Of the stream.
  logic line_valid_q, turns_q;     // turns_q: the window begins again, at a new stream.
  logic window_ready;
  logic [4:0] window_count;
  wire ends = left_q == literals_t'(take_i) && !turns_q && left_q != '0;
  wire is_available = {1'b0, read_line_q} < written_q[stream_q];
  assign reads = is_available && !turns_q && (!line_valid_q || window_ready);

  nkv_byte_window u_window (
    .clk_i, .rst_ni, .begin_i(turns_q || begin_i), .skip_i('0),
    .in_valid_i(line_valid_q), .in_ready_o(window_ready), .in_data_i(read_q[stream_q]),
    .bytes_o, .count_o(window_count), .take_i
  );
  wire is_short = left_q < literals_t'(window_count);
  assign count_o = turns_q ? '0 : is_short ? left_q[4:0] : window_count;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      used_q <= '0;
      each_q <= '0;
      last_one_q <= '0;
      stream_q <= '0;
      left_q <= '0;
      line_valid_q <= 1'b0;
      turns_q <= 1'b0;
      read_line_q <= '0;
    end else if (begin_i) begin
      used_q <= is_single_i ? Streams'(1) : '1;
      each_q <= literals_t'(each);
      last_one_q <= literals_t'(last_one);
      stream_q <= '0;
      left_q <= literals_t'(each);
      line_valid_q <= 1'b0;
      turns_q <= 1'b0;
      read_line_q <= '0;
    end else begin
      turns_q <= 1'b0;
      left_q <= left_q - literals_t'(take_i);
      if (reads) read_line_q <= read_line_q + 1'b1;
      line_valid_q <= reads || (line_valid_q && !window_ready);
      if (ends && used_q[Streams-1] && stream_q != StreamBits'(Streams - 1)) begin
        stream_q <= stream_q + 1'b1;
        left_q <= stream_q == StreamBits'(Streams - 2) ? last_one_q : each_q;
        turns_q <= 1'b1;
        line_valid_q <= 1'b0;
        read_line_q <= '0;
      end
    end
  end

endmodule
