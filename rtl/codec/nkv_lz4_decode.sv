// Decodes an LZ4 block of at most 64 KiB, to exactly plain_bytes_i bytes. It takes what liblz4's
// LZ4_decompress_safe takes with that capacity and that result, and makes the same bytes of it; a
// block that is anything else, or has an offset of zero, ends with error_o. Whatever comes in, it
// ends: reads stay within what was written, and within in_bytes_i.
//
// The block begins at byte skip_i of the first burst after start and lies without gaps. All bursts
// that it touches are taken and no others, after an error too. Bytes leave in bursts of 64, the
// last filled up with zeros (out_last_o; out_bytes_o of it count). done_o stands for one cycle when
// all is through. After an error a part of the bytes may have left already, none with out_last_o.
//
// Speed, while bursts come and are taken: literals 16 bytes per cycle; matches 16, or the largest
// multiple of an offset below 16 that is not above 16 (9 at least). A sequence takes a cycle for
// its token, offset and up to 13 literals together, and one for up to 16 bytes of its match; with
// more literals, one cycle for the token, one for the offset; a byte of a length, a cycle.

`include "nkv_assert.svh"

module nkv_lz4_decode
  import nkv_lz_pkg::*;
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

  typedef logic [17:0] size_t;         // Room for a byte more than any size.
  typedef logic signed [18:0] room_t;
  localparam room_t LastLiterals = 19'sd5;  // Of the format: a block ends with so many literals,
  localparam room_t MatchLimit = 19'sd12;   // and its last match begins so far from the end.
  // Behind literals that are not the last: an offset, a token and the last literals.
  localparam room_t Following = 19'sd8;

  typedef enum logic [3:0] {
    Idle, Token, LiteralLength, Literals, Offset, MatchLength, Match, Drain, Flush, Finish
  } state_e;

  state_e state_q;
  logic failed_q;
  size_t in_left_q;                    // Bytes of the block that were not looked at,
  size_t plain_left_q;                 // and bytes that it must still become.
  room_t match_room_q;                 // The same less LastLiterals,
  room_t literal_room_q;               // less MatchLimit,
  room_t in_room_q;                    // and in_left_q less Following.
  size_t written_q;                    // Bytes that it has become.
  size_t length_q;                     // Left of the present literals or match.
  logic match_is_long_q;               // Its length goes on in further bytes.
  logic [3:0] match_nibble_q;
  logic [15:0] offset_q;
  size_t out_left_q;                   // Bytes that have not left.
  logic [11:0] bursts_left_q;          // Bursts of the block that have not come.

  // ---- Bytes of the block ---------------------------------------------------------------------
  logic [7:0] bytes[16];
  logic [4:0] there, take;
  logic window_ready;
  wire has_bursts = bursts_left_q != '0;
  // Bursts from the one in which the block begins to the one in which it ends.
  wire [11:0] bursts = 12'((size_t'(in_bytes_i) + size_t'(skip_i) + 18'd63) >> 6);
  wire starts = start_valid_i && start_ready_o;

  nkv_lz4_window u_window (
    .clk_i, .rst_ni,
    .begin_i(starts), .skip_i,
    .in_valid_i(in_valid_i && has_bursts), .in_ready_o(window_ready), .in_data_i,
    .bytes_o(bytes), .count_o(there), .take_i(take)
  );
  assign in_ready_o = (window_ready || failed_q) && has_bursts;

  // A token is looked at a cycle after the bytes before it were taken: that is the cycle of its
  // predecessor's match, and parts the place of the bytes from what they say.
  logic [7:0] held_q[16];
  logic [4:0] held_count_q;
  logic is_held_q;
  always_ff @(posedge clk_i) begin
    if (state_q != Idle) begin
      held_q <= bytes;
      held_count_q <= there;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) is_held_q <= 1'b0;
    else is_held_q <= take == '0 && state_q != Idle;
  end

  // All that there will be, or as much as one cycle looks at.
  wire is_token = state_q == Token;
  wire [4:0] seen = is_token ? held_count_q : there;
  wire enough = (is_held_q || !is_token) && (seen == 5'd16 || size_t'(seen) >= in_left_q);
  wire exhausted = in_left_q == '0;

  // ---- The history takes chunks ---------------------------------------------------------------
  logic chunk_valid, chunk_is_match, stall, history_busy, flush;
  logic [4:0] chunk_count;
  logic [7:0] chunk_bytes[16];

  nkv_lz_history u_history (
    .clk_i, .rst_ni,
    .begin_i(starts), .cancel_i(failed_q),
    .chunk_valid_i(chunk_valid && !stall), .stall_o(stall),
    .chunk_count_i(chunk_count), .chunk_is_match_i(chunk_is_match),
    .chunk_bytes_i(chunk_bytes), .chunk_offset_i(offset_q),
    .busy_o(history_busy),
    .flush_i(flush),
    .out_valid_o, .out_ready_i, .out_data_o
  );

  // ---- What the present bytes say -------------------------------------------------------------
  wire [3:0] literal_nibble = held_q[0][7:4];
  wire has_all_literals = literal_nibble != 4'd15;   // They stand in this cycle's bytes.
  wire has_offset = literal_nibble <= 4'd13;         // So does the offset.
  // Literals that are looked at: the token's in its own cycle, else those of length_q.
  wire size_t literals = is_token ? size_t'(literal_nibble) : length_q;
  wire is_token_final = in_left_q[17:4] == '0 && in_left_q[3:0] == literal_nibble + 4'd1;
  wire is_final = is_token ? is_token_final : length_q == in_left_q;
  wire room_t wanted = room_t'(literals);
  wire room_t wanted_in = is_token ? room_t'(literals) + 19'sd1 : room_t'(length_q);
  wire are_wrong = is_final ? literals != plain_left_q
                            : wanted > literal_room_q || wanted_in > in_room_q;
  wire is_match_wrong = offset_q == '0 || size_t'(offset_q) > written_q ||
                        room_t'(length_q) > match_room_q;
  wire [4:0] match_stride = stride_of(offset_q);

  // Literals are handed on even where the block turns out to be wrong, and cancelled then.
  logic fails;
  always_comb begin
    chunk_valid = 1'b0;
    chunk_is_match = state_q == Match;
    chunk_count = length_q < 18'd16 ? length_q[4:0] : 5'd16;
    take = '0;
    fails = 1'b0;
    for (int unsigned i = 0; i < 16; ++i) chunk_bytes[i] = is_token ? held_q[(i+1)%16] : bytes[i];
    unique case (state_q)
      Token: begin
        if (enough) begin
          fails = exhausted || (has_all_literals && are_wrong);
          chunk_count = {1'b0, literal_nibble};
          chunk_valid = has_all_literals && literal_nibble != '0;
          take = has_all_literals ? 5'd1 + {1'b0, literal_nibble} : 5'd1;
          if (has_offset && !is_final) take = 5'd3 + {1'b0, literal_nibble};
        end
      end
      LiteralLength, MatchLength: begin
        if (enough) begin
          fails = exhausted || length_q > plain_left_q;
          take = 5'd1;
        end
      end
      Literals: begin
        if (enough) begin
          fails = are_wrong;
          chunk_valid = 1'b1;
          take = chunk_count;
        end
      end
      Offset: if (enough) take = 5'd2;
      Match: begin
        fails = is_match_wrong;
        chunk_valid = !fails;
        chunk_count = length_q < size_t'(match_stride) ? length_q[4:0] : match_stride;
      end
      default: ;
    endcase
    if (stall) take = '0;
  end

  wire size_t chunk_size = size_t'(chunk_count);
  wire appends = chunk_valid && !stall;
  wire is_chunk_last = length_q == chunk_size;

  // A match's length, as far as its token has it.
  wire [3:0] token_match = held_q[0][3:0];
  // What would stand behind the token's literals, by their number.
  logic [7:0] low_behind[16], high_behind[16];
  always_comb begin
    for (int unsigned i = 0; i < 16; ++i) begin
      low_behind[i] = held_q[(i+1)%16];
      high_behind[i] = held_q[(i+2)%16];
    end
  end
  wire [7:0] offset_low = state_q == Offset ? bytes[0] : low_behind[literal_nibble];
  wire [7:0] offset_high = state_q == Offset ? bytes[1] : high_behind[literal_nibble];

  assign start_ready_o = state_q == Idle;
  wire is_drained = state_q == Drain && !history_busy && !has_bursts;
  assign flush = is_drained && !failed_q && written_q[5:0] != '0;
  assign out_last_o = out_left_q <= 18'd64 && !failed_q && (state_q == Drain || state_q == Flush);
  assign out_bytes_o = out_left_q < 18'd64 ? out_left_q[6:0] : 7'd64;
  assign done_o = state_q == Finish;
  assign error_o = failed_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      failed_q <= 1'b0;
      in_left_q <= '0;
      plain_left_q <= '0;
      in_room_q <= '0;
      match_room_q <= '0;
      literal_room_q <= '0;
      written_q <= '0;
      length_q <= '0;
      match_is_long_q <= 1'b0;
      match_nibble_q <= '0;
      offset_q <= '0;
      out_left_q <= '0;
      bursts_left_q <= '0;
    end else begin
      if (out_valid_o && out_ready_i) out_left_q <= out_left_q - size_t'(out_bytes_o);
      if (in_valid_i && in_ready_o) bursts_left_q <= bursts_left_q - 1'b1;
      in_left_q <= in_left_q - size_t'(take);
      in_room_q <= in_room_q - room_t'(take);
      if (appends) begin
        plain_left_q <= plain_left_q - chunk_size;
        match_room_q <= match_room_q - room_t'(chunk_count);
        literal_room_q <= literal_room_q - room_t'(chunk_count);
        written_q <= written_q + chunk_size;
        length_q <= length_q - chunk_size;
      end
      unique case (state_q)
        Idle: begin
          if (start_valid_i) begin
            state_q <= Token;
            failed_q <= 1'b0;
            in_left_q <= size_t'(in_bytes_i);
            plain_left_q <= size_t'(plain_bytes_i);
            in_room_q <= room_t'(in_bytes_i) - Following;
            match_room_q <= room_t'(plain_bytes_i) - LastLiterals;
            literal_room_q <= room_t'(plain_bytes_i) - MatchLimit;
            out_left_q <= size_t'(plain_bytes_i);
            written_q <= '0;
            bursts_left_q <= in_bytes_i == '0 ? '0 : bursts;
          end
        end
        Token: begin
          if (take != '0) begin
            match_nibble_q <= token_match;
            match_is_long_q <= token_match == 4'd15;
            offset_q <= {offset_high, offset_low};
            if (!has_all_literals) begin
              length_q <= 18'd15;
              state_q <= LiteralLength;
            end else if (is_final) begin
              state_q <= Drain;
            end else begin
              length_q <= size_t'(token_match) + 18'd4;
              if (!has_offset) state_q <= Offset;
              else state_q <= token_match == 4'd15 ? MatchLength : Match;
            end
          end
        end
        LiteralLength, MatchLength: begin
          if (take != '0) begin
            length_q <= length_q + size_t'(bytes[0]);
            if (bytes[0] != 8'hff) state_q <= state_q == LiteralLength ? Literals : Match;
          end
        end
        Literals: begin
          if (appends && is_chunk_last) state_q <= is_final ? Drain : Offset;
        end
        Offset: begin
          if (take != '0) begin
            offset_q <= {offset_high, offset_low};
            length_q <= size_t'(match_nibble_q) + 18'd4;
            state_q <= match_is_long_q ? MatchLength : Match;
          end
        end
        Match: if (appends && is_chunk_last) state_q <= Token;
        Drain: if (is_drained) state_q <= failed_q ? Finish : Flush;
        Flush: if (!history_busy && !flush) state_q <= Finish;
        Finish: state_q <= Idle;
        default: state_q <= Idle;
      endcase
      if (fails && !stall) begin
        failed_q <= 1'b1;
        state_q <= Drain;
      end
    end
  end

  `NKV_ASSERT_STAYS(OutStays_A, out_valid_o, out_ready_i, {out_data_o, out_last_o, out_bytes_o})

endmodule
