// Encodes plain bytes as an LZ4 block that liblz4 decodes, of at most LZ4_compressBound bytes. The
// ends are those that the format asks for.
//
// The bytes begin at byte skip_i of the first burst after start and lie without gaps; all bursts
// that they touch are taken and no others. The block leaves in bursts of 64, the last filled up
// with zeros (out_last_o; out_bytes_o of it count). done_o stands for one cycle when all is
// through, with the block's size.
//
// Speed: bursts are taken first, one per cycle; then the search goes 2 bytes per cycle, 16 after
// many without a match, and takes some 7 cycles for a match (nkv_lz4_find). Sequences are written
// beside that.

module nkv_lz4_encode #(
  parameter int unsigned HashBits = 13
) (
  input  logic         clk_i,
  input  logic         rst_ni,

  input  logic         start_valid_i,
  output logic         start_ready_o,
  input  logic [5:0]   skip_i,
  input  logic [16:0]  plain_bytes_i,  // With skip_i at most 65,536.

  input  logic         in_valid_i,
  output logic         in_ready_o,
  input  logic [511:0] in_data_i,

  output logic         out_valid_o,
  input  logic         out_ready_i,
  output logic [511:0] out_data_o,
  output logic         out_last_o,
  output logic [6:0]   out_bytes_o,

  output logic         done_o,
  output logic [16:0]  bytes_o         // With done_o.
);

  typedef enum logic [2:0] {Idle, Load, Begin, Encode, Drain, Flush, Finish} state_e;
  state_e state_q;
  logic [16:0] first_q, end_q;         // Places of the plain bytes.
  logic [10:0] burst_q, bursts_q;      // Taken, and to be taken.
  logic [16:0] written_q, out_q;       // Bytes of the block; those that have left.

  wire starts = start_valid_i && start_ready_o;
  assign start_ready_o = state_q == Idle;
  wire has_all = burst_q == bursts_q;
  assign in_ready_o = state_q == Load && !has_all;
  wire loads = in_valid_i && in_ready_o;

  // ---- Sequences, found and written ------------------------------------------------------------
  logic [15:0] find_place[2], place[2];
  logic [7:0] read[2][16];
  logic finds_second, wants_line;
  logic [13:0] line;
  wire unused_line = ^line[13:12];     // Lines are those of 64 KiB.
  nkv_plain_memory u_memory (
    .clk_i, .write_i(loads), .burst_i(burst_q[9:0]), .data_i(in_data_i),
    .place_i(place), .read_o(read)
  );
  assign place[0] = find_place[0];
  assign place[1] = finds_second ? find_place[1] : {line[11:0], 4'd0};

  typedef struct packed {
    logic        is_last;
    logic [16:0] place_of_literals;
    logic [16:0] literals;
    logic [16:0] match_bytes;
    logic [15:0] offset;
  } sequence_t;
  sequence_t found, next;
  logic found_valid, found_ready, next_valid, next_ready;

  nkv_lz4_find #(.HashBits(HashBits)) u_find (
    .clk_i, .rst_ni, .begin_i(state_q == Begin), .first_i(first_q), .end_i(end_q),
    .place_o(find_place), .uses_second_o(finds_second), .read_i(read),
    .valid_o(found_valid), .ready_i(found_ready), .is_last_o(found.is_last),
    .place_of_literals_o(found.place_of_literals), .literals_o(found.literals),
    .match_bytes_o(found.match_bytes), .offset_o(found.offset)
  );

  logic [3:0] unused_used;
  nkv_fifo #(.T(sequence_t), .Depth(8)) u_sequences (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .in_valid_i(found_valid), .in_ready_o(found_ready), .in_data_i(found),
    .out_valid_o(next_valid), .out_ready_i(next_ready), .out_data_o(next), .used_o(unused_used)
  );

  logic [127:0] read_line;
  always_comb begin
    for (int unsigned i = 0; i < 16; ++i) read_line[8*i+:8] = read[1][i];
  end
  logic chunk_valid, stall, is_written, history_busy, flush;
  logic [4:0] chunk_count;
  logic [7:0] chunk_bytes[16];
  nkv_lz4_emit u_emit (
    .clk_i, .rst_ni,
    .valid_i(next_valid), .ready_o(next_ready), .is_last_i(next.is_last),
    .place_of_literals_i(next.place_of_literals), .literals_i(next.literals),
    .match_bytes_i(next.match_bytes), .offset_i(next.offset),
    .request_o(wants_line), .request_line_o(line), .grant_i(wants_line && !finds_second),
    .line_i(read_line),
    .chunk_valid_o(chunk_valid), .stall_i(stall), .chunk_count_o(chunk_count),
    .chunk_bytes_o(chunk_bytes), .done_o(is_written)
  );

  // It only packs bytes here; nothing is copied from what was written.
  nkv_lz_history u_pack (
    .clk_i, .rst_ni, .begin_i(starts), .cancel_i(1'b0),
    .chunk_valid_i(chunk_valid && !stall), .stall_o(stall),
    .chunk_count_i(chunk_count), .chunk_is_match_i(1'b0), .chunk_bytes_i(chunk_bytes),
    .chunk_offset_i('0),
    .busy_o(history_busy), .flush_i(flush),
    .out_valid_o, .out_ready_i, .out_data_o
  );

  // ---- What leaves: the last burst some cycles after the last chunk, and so after Encode ------
  wire [16:0] out_left = written_q - out_q;
  wire has_ended = state_q == Drain || state_q == Flush;
  wire is_out_last = out_left <= 17'd64;
  wire is_drained = state_q == Drain && !history_busy;
  assign flush = is_drained && written_q[5:0] != '0;
  assign out_last_o = is_out_last && has_ended;
  assign out_bytes_o = is_out_last ? out_left[6:0] : 7'd64;
  assign done_o = state_q == Finish;
  assign bytes_o = written_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      first_q <= '0;
      end_q <= '0;
      burst_q <= '0;
      bursts_q <= '0;
      written_q <= '0;
      out_q <= '0;
    end else begin
      if (out_valid_o && out_ready_i) out_q <= out_q + 17'(out_bytes_o);
      if (chunk_valid && !stall) written_q <= written_q + 17'(chunk_count);
      if (loads) burst_q <= burst_q + 1'b1;
      unique case (state_q)
        Idle: begin
          if (start_valid_i) state_q <= Load;
          first_q <= 17'(skip_i);
          end_q <= 17'(skip_i) + plain_bytes_i;
          burst_q <= '0;
          bursts_q <= plain_bytes_i == '0 ? '0
                                          : 11'((18'(plain_bytes_i) + 18'(skip_i) + 18'd63) >> 6);
          written_q <= '0;
          out_q <= '0;
        end
        Load: if (has_all) state_q <= Begin;
        Begin: state_q <= Encode;
        Encode: if (is_written) state_q <= Drain;
        Drain: if (is_drained) state_q <= Flush;
        Flush: if (!history_busy && !flush) state_q <= Finish;
        default: state_q <= Idle;
      endcase
    end
  end

endmodule
