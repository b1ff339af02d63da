// Decodes a ZSTD frame (RFC 8878) of at most 64 KiB of content, to exactly plain_bytes_i bytes. All
// kinds of blocks, literals and tables are taken, whatever window the frame says. It makes the
// bytes of a frame that libzstd makes, or ends with error_o. Whatever comes in, it ends.
//
// Refused, though libzstd takes them: a checksum; a dictionary's id, even zero; what is not one
// frame (skippable ones, several, or none); a compressed block of more than 65,472 bytes; Huffman
// codes of 12 bits; and what the RFC calls corrupted but libzstd 1.5.4 lets pass: bits of a stream
// that are left over or missing, an offset of zero, reserved bits, Huffman-coded literals or a long
// number of sequences that are none.
//
// The frame begins at byte skip_i of the first burst after start and lies without gaps. All bursts
// that it touches are taken and no others, after an error too. Bytes leave in bursts of 64, the
// last filled up with zeros (out_last_o; out_bytes_o of it count). done_o stands for one cycle when
// all is through. After an error a part of the bytes may have left already, none with out_last_o.
//
// Speed, while bursts come and are taken: Huffman-coded literals 8 per cycle in four streams, or 64
// bits of code, and 2 in one stream; plain and repeated ones 16. A sequence takes 2 cycles, or one
// for up to 16 bytes each of its literals and its match if that is more. Before the first literal,
// a Huffman tree takes about a cycle per two symbols and 130; beside literals, an FSE table two
// cycles per state and two per symbol.

`include "nkv_assert.svh"

module nkv_zstd_decode
  import nkv_zstd_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,

  input  logic         start_valid_i,
  output logic         start_ready_o,
  input  logic [5:0]   skip_i,
  input  logic [16:0]  in_bytes_i,
  input  logic [16:0]  plain_bytes_i,  // At most 65,536.

  input  logic         in_valid_i,
  output logic         in_ready_o,
  input  logic [511:0] in_data_i,

  output logic         out_valid_o,
  input  logic         out_ready_i,
  output logic [511:0] out_data_o,
  output logic         out_last_o,
  output logic [6:0]   out_bytes_o,

  output logic         done_o,
  output logic         error_o         // With done_o.
);

  localparam logic [20:0] MaxBlock = 21'd65472;  // Compressed: what nkv_zstd_source holds.

  typedef enum logic [4:0] {
    Idle, FrameHead, BlockHead, BlockSize, BlockByte, Literals, ToTables, HeadOfTables,
    AfterTables, ToSequences, Sequences, ToLiterals, LastLiterals, Run, AfterBlock, Drain, Flush,
    Finish
  } state_e;
  typedef enum logic [1:0] {RawBlock, RleBlock, CompressedBlock, ReservedBlock} block_e;

  state_e state_q;
  logic failed_q;
  wire starts = start_valid_i && start_ready_o;
  assign start_ready_o = state_q == Idle;

  // ---- The frame as it comes -------------------------------------------------------------------
  place_t place_q;                     // Of the next byte to be looked at.
  place_t end_q;                       // Behind the frame.
  logic [11:0] floor_q;                // No burst before it is looked at again.
  logic in_ready, has_all;
  logic [Readers-1:0] request, grant;
  line_t request_line[Readers];
  logic [127:0] line;
  wire [11:0] bursts = 12'((size_t'(in_bytes_i) + size_t'(skip_i) + 18'd63) >> 6);

  nkv_zstd_source u_source (
    .clk_i, .rst_ni,
    .begin_i(starts), .bursts_i(in_bytes_i == '0 ? '0 : bursts),
    .in_valid_i, .in_ready_o(in_ready), .in_data_i, .drop_i(failed_q), .has_all_o(has_all),
    .floor_i(floor_q),
    .request_i(request), .request_line_i(request_line), .grant_o(grant), .line_o(line)
  );
  assign in_ready_o = in_ready;

  // ---- Its bytes, onwards from some place ------------------------------------------------------
  logic seeks, line_valid, line_ready;
  place_t seek_place;
  logic [127:0] forward_line;
  nkv_word_reader #(.Width(128), .Downwards(0)) u_lines (
    .clk_i, .rst_ni, .begin_i(seeks), .place_i(seek_place),
    .request_o(request[ForwardReader]), .request_line_o(request_line[ForwardReader]),
    .grant_i(grant[ForwardReader]), .line_i(line),
    .valid_o(line_valid), .ready_i(line_ready), .word_o(forward_line)
  );
  logic [7:0] bytes[16];
  logic [4:0] there, take;
  nkv_byte_window u_window (
    .clk_i, .rst_ni, .begin_i(seeks), .skip_i(seek_place[3:0]),
    .in_valid_i(line_valid), .in_ready_o(line_ready), .in_data_i(forward_line),
    .bytes_o(bytes), .count_o(there), .take_i(take)
  );
  wire enough = there == 5'd16;

  // ---- Bits of FSE-coded weights, then of sequences --------------------------------------------
  logic bits_valid, has_no_mark, tree_bits_begin, tree_turn_q;
  logic [47:0] bits;
  logic [127:0] bits_window;
  logic [5:0] bits_place;
  logic [5:0] tree_bits_take, sequence_bits_take;
  logic signed [21:0] bits_left;
  place_t tree_bits_end, block_end_q;
  size_t tree_bits_size;
  wire sequences_begin = state_q == ToSequences;
  nkv_zstd_bits #(.Peek(48)) u_bits (
    .clk_i, .rst_ni,
    .begin_i(tree_bits_begin || sequences_begin),
    .end_i(sequences_begin ? block_end_q : tree_bits_end),
    .size_i(sequences_begin ? block_end_q - place_q : tree_bits_size),
    .request_o(request[StateReader]), .request_line_o(request_line[StateReader]),
    .grant_i(grant[StateReader]), .line_i(line),
    .valid_o(bits_valid), .bits_o(bits),
    .take_i(tree_turn_q ? tree_bits_take : sequence_bits_take),
    .window_o(bits_window), .place_o(bits_place), .left_o(bits_left), .has_no_mark_o(has_no_mark)
  );

  // ---- Blocks ----------------------------------------------------------------------------------
  block_e block_q;
  logic is_last_q;
  logic [20:0] block_size_q;
  logic [7:0] block_byte_q;
  wire is_compressed = block_q == CompressedBlock;

  logic literals_done, literals_error, literals_plain, literals_seek, streams_done, streams_failed;
  size_t literals;
  place_t literals_seek_place, plain_place, literals_end;
  logic [7:0] literal_bytes[16];
  logic [4:0] literal_count;
  logic [2:0] literals_take;
  logic [4:0] literal_take;
  line_t stream_line[Streams];
  wire cancels = failed_q;

  nkv_zstd_literals_section u_literals (
    .clk_i, .rst_ni,
    .forget_i(starts), .begin_i(state_q == BlockSize && is_compressed), .block_end_i(block_end_q),
    .cancel_i(cancels),
    .valid_i(enough), .bytes_i(bytes[0:5]), .place_i(place_q), .take_o(literals_take),
    .seek_o(literals_seek), .seek_place_o(literals_seek_place),
    .bits_begin_o(tree_bits_begin), .bits_end_o(tree_bits_end), .bits_size_o(tree_bits_size),
    .bits_valid_i(bits_valid && tree_turn_q), .bits_window_i(bits_window),
    .bits_place_i(bits_place), .bits_take_o(tree_bits_take), .bits_left_i(bits_left),
    .bits_has_no_mark_i(has_no_mark),
    .request_o(request[Streams-1:0]), .request_line_o(stream_line), .grant_i(grant[Streams-1:0]),
    .line_i(line),
    .done_o(literals_done), .error_o(literals_error), .is_plain_o(literals_plain),
    .literals_o(literals), .plain_o(plain_place), .end_o(literals_end),
    .bytes_o(literal_bytes), .count_o(literal_count),
    .take_i(is_compressed && !literals_plain ? literal_take : '0),
    .streams_done_o(streams_done), .failed_o(streams_failed)
  );
  always_comb begin
    for (int unsigned s = 0; s < Streams; ++s) request_line[s] = stream_line[s];
  end

  logic tables_done, tables_error, table_read;
  logic [1:0] tables_take;
  logic [16:0] sequences;
  fse_state_t table_state[Tables];
  logic [3:0] table_log[Tables];
  fse_entry_t table_entry[Tables];
  nkv_zstd_tables u_tables (
    .clk_i, .rst_ni,
    .forget_i(starts), .begin_i(state_q == ToTables), .cancel_i(cancels),
    .valid_i(enough), .bytes_i(bytes[0:2]), .take_o(tables_take),
    .sequences_o(sequences), .done_o(tables_done), .error_o(tables_error),
    .read_i(table_read), .state_i(table_state), .log_o(table_log), .entry_o(table_entry)
  );

  logic sequence_valid, sequences_done, sequences_error, steps_ready;
  sequence_t decoded;
  nkv_zstd_sequences u_sequences (
    .clk_i, .rst_ni,
    .forget_i(starts), .begin_i(sequences_begin), .cancel_i(cancels), .sequences_i(sequences),
    .bits_valid_i(bits_valid && !tree_turn_q), .bits_i(bits), .bits_window_i(bits_window),
    .bits_place_i(bits_place), .bits_take_o(sequence_bits_take),
    .bits_left_i(bits_left), .bits_has_no_mark_i(has_no_mark),
    .read_o(table_read), .state_o(table_state), .log_i(table_log), .entry_i(table_entry),
    .ready_i(steps_ready), .valid_o(sequence_valid), .sequence_o(decoded),
    .done_o(sequences_done), .error_o(sequences_error)
  );

  // ---- What becomes of them --------------------------------------------------------------------
  wire runs = state_q inside {Sequences, LastLiterals, Run};
  wire is_plain = is_compressed ? literals_plain : block_q == RawBlock;
  logic [7:0] given[16];
  logic [4:0] given_count;
  always_comb begin
    for (int unsigned i = 0; i < 16; ++i) begin
      if (is_plain) given[i] = bytes[i];
      else given[i] = is_compressed ? literal_bytes[i] : block_byte_q;
    end
    if (!runs) given_count = '0;
    else if (is_plain) given_count = there;
    else given_count = is_compressed ? literal_count : 5'd16;
  end

  size_t out_left_q;                   // Bytes that have not left.
  wire has_ended = state_q inside {Drain, Flush};
  wire is_out_last = out_left_q <= 18'd64;
  // The last burst waits for the frame's end.
  wire holds_out = is_out_last && !has_ended;
  logic block_done, execute_failed, history_busy, flush, out_valid;
  size_t plain_left, plain_q;
  wire ends_block = state_q == LastLiterals && steps_ready;
  nkv_zstd_execute u_execute (
    .clk_i, .rst_ni,
    .start_i(starts), .plain_i(size_t'(plain_bytes_i)),
    .begin_i(state_q == BlockByte || state_q == AfterTables),
    .literals_i(is_compressed ? literals : block_size_q[17:0]), .cancel_i(cancels),
    .valid_i(sequence_valid || ends_block), .sequence_i(decoded), .is_end_i(ends_block),
    .ready_o(steps_ready),
    .bytes_i(given), .count_i(given_count), .take_o(literal_take),
    .block_done_o(block_done), .failed_o(execute_failed), .plain_left_o(plain_left),
    .busy_o(history_busy),
    .flush_i(flush),
    .out_valid_o(out_valid), .out_ready_i(out_ready_i && !holds_out), .out_data_o
  );

  logic is_block_done_q;
  wire is_block_done = block_done || is_block_done_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) is_block_done_q <= 1'b0;
    else is_block_done_q <= state_q == Run && is_block_done;
  end

  // ---- Control ---------------------------------------------------------------------------------
  logic head_done, head_error;
  logic [3:0] head_take;
  nkv_zstd_frame_head u_head (
    .clk_i, .rst_ni, .begin_i(starts), .cancel_i(cancels), .plain_i(plain_q),
    .valid_i(enough), .bytes_i(bytes[0:8]), .take_o(head_take), .done_o(head_done),
    .error_o(head_error)
  );

  wire [21:0] block_end = {4'd0, place_q} + {1'b0, block_q == RleBlock ? 21'd1 : block_size_q};

  logic fails;
  always_comb begin
    take = '0;
    fails = head_error || literals_error || tables_error || sequences_error || execute_failed ||
            streams_failed;
    unique case (state_q)
      FrameHead: take = 5'(head_take);
      BlockHead: if (enough) take = 5'd3;
      BlockSize: begin
        if (block_end > {4'd0, end_q} || block_q == ReservedBlock ||
            (is_compressed ? block_size_q > MaxBlock : block_size_q > 21'd65536)) fails = 1'b1;
      end
      BlockByte: if (enough && block_q == RleBlock) take = 5'd1;
      Literals: take = 5'(literals_take);
      HeadOfTables: take = 5'(tables_take);
      AfterTables: begin
        if (sequences == '0 ? place_q != block_end_q : place_q >= block_end_q) fails = 1'b1;
      end
      Sequences, LastLiterals, Run: if (is_plain) take = literal_take;
      AfterBlock: begin
        if (is_last_q && (block_end_q != end_q || plain_left != '0)) fails = 1'b1;
      end
      default: ;
    endcase
    if (state_q inside {Idle, Drain, Flush, Finish}) fails = 1'b0;
  end

  always_comb begin
    seeks = 1'b1;
    seek_place = block_end_q;
    unique case (state_q)
      Idle: begin
        seeks = starts;
        seek_place = place_t'(skip_i);
      end
      Literals: begin
        seeks = literals_seek;
        seek_place = literals_seek_place;
      end
      ToTables: seek_place = literals_end;
      ToLiterals: seek_place = plain_place;
      AfterBlock: seeks = is_compressed;
      default: seeks = 1'b0;
    endcase
  end

  wire is_drained = state_q == Drain && !history_busy && has_all;
  assign flush = is_drained && !failed_q && plain_q[5:0] != '0;
  assign out_valid_o = out_valid && !holds_out;
  assign out_last_o = is_out_last && has_ended && !failed_q;
  assign out_bytes_o = out_left_q < 18'd64 ? out_left_q[6:0] : 7'd64;
  assign done_o = state_q == Finish;
  assign error_o = failed_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      failed_q <= 1'b0;
      place_q <= '0;
      end_q <= '0;
      floor_q <= '0;
      block_end_q <= '0;
      tree_turn_q <= 1'b0;
      block_q <= RawBlock;
      is_last_q <= 1'b0;
      block_size_q <= '0;
      block_byte_q <= '0;
      plain_q <= '0;
      out_left_q <= '0;
    end else begin
      if (out_valid_o && out_ready_i) out_left_q <= out_left_q - size_t'(out_bytes_o);
      place_q <= seeks ? seek_place : place_q + 18'(take);
      unique case (state_q)
        Idle: begin
          if (start_valid_i) state_q <= FrameHead;
          end_q <= place_t'(skip_i) + place_t'(in_bytes_i);
          floor_q <= '0;
          plain_q <= size_t'(plain_bytes_i);
          out_left_q <= size_t'(plain_bytes_i);
        end
        FrameHead: if (head_done) state_q <= BlockHead;
        BlockHead: begin
          is_last_q <= bytes[0][0];
          block_q <= block_e'(bytes[0][2:1]);
          block_size_q <= {bytes[2], bytes[1], bytes[0][7:3]};
          floor_q <= place_q[17:6];
          if (enough) state_q <= BlockSize;
        end
        BlockSize: begin
          block_end_q <= block_end[17:0];
          tree_turn_q <= 1'b1;
          state_q <= is_compressed ? Literals : BlockByte;
        end
        BlockByte: begin
          block_byte_q <= bytes[0];
          if (enough || block_q == RawBlock) state_q <= LastLiterals;
        end
        Literals: if (literals_done) state_q <= ToTables;
        ToTables: begin
          tree_turn_q <= 1'b0;
          state_q <= HeadOfTables;
        end
        HeadOfTables: if (tables_done) state_q <= AfterTables;
        AfterTables: begin
          if (sequences != '0) state_q <= ToSequences;
          else state_q <= literals_plain ? ToLiterals : LastLiterals;
        end
        ToSequences: state_q <= literals_plain ? ToLiterals : Sequences;
        ToLiterals: state_q <= sequences != '0 ? Sequences : LastLiterals;
        Sequences: if (sequences_done) state_q <= LastLiterals;
        LastLiterals: if (steps_ready) state_q <= Run;
        Run: begin
          if (!is_compressed) floor_q <= place_q[17:6];
          if (is_block_done && (!is_compressed || streams_done)) state_q <= AfterBlock;
        end
        AfterBlock: begin
          if (is_last_q) state_q <= Drain;
          else state_q <= BlockHead;
        end
        Drain: if (is_drained) state_q <= failed_q ? Finish : Flush;
        Flush: if (!history_busy && !flush) state_q <= Finish;
        default: begin
          failed_q <= 1'b0;
          state_q <= Idle;
        end
      endcase
      if (fails) begin
        failed_q <= 1'b1;
        state_q <= Drain;
      end
    end
  end

  `NKV_ASSERT_STAYS(OutStays_A, out_valid_o, out_ready_i, {out_data_o, out_last_o, out_bytes_o})

endmodule
