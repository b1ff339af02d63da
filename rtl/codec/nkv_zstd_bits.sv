// The bits of a stream that is read from its end: bits_o are the next Peek of them, the first at
// the top, while valid_o; take_i moves on. After begin_i the stream is the size_i bytes that end
// before end_i. Its last byte's highest set bit is the mark behind its first bit.
//
// window_o, place_o: where bits_o come from, for who takes bits from elsewhere: place_o bits of the
// window are taken.
//
// left_o: bits that are left, from valid_o on; below zero where more were taken than there were.
// has_no_mark_o: the last byte is zero; nothing else holds then.

module nkv_zstd_bits
  import nkv_zstd_pkg::*;
#(
  parameter int unsigned Peek = 48    // At most 64.
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic              begin_i,
  input  place_t            end_i,
  input  size_t             size_i,         // At least 1.

  output logic              request_o,
  output line_t             request_line_o,
  input  logic              grant_i,
  input  logic [127:0]      line_i,

  output logic              valid_o,
  output logic [Peek-1:0]   bits_o,
  input  logic [5:0]        take_i,         // At most Peek; 0 unless valid_o.
  output logic [127:0]      window_o,
  output logic [5:0]        place_o,
  output logic signed [21:0] left_o,
  output logic              has_no_mark_o
);

  localparam int unsigned Word = 64;
  wire place_t last = end_i - 1'b1;

  logic word_valid, shifts;
  logic [Word-1:0] word;
  nkv_word_reader #(.Width(Word), .Downwards(1)) u_words (
    .clk_i, .rst_ni, .begin_i, .place_i(last),
    .request_o, .request_line_o, .grant_i, .line_i,
    .valid_o(word_valid), .ready_i(shifts), .word_o(word)
  );

  typedef enum logic [1:0] {Idle, First, Mark, Serve} state_e;
  state_e state_q;
  logic [2:0] last_byte_q;     // Within its word.
  logic [Word-1:0] now_q, next_q;
  logic next_valid_q;
  logic [6:0] place_q;         // Of the next bit, from the top of now_q; 64: it is next_q's first.

  logic [7:0] top_byte;
  logic [3:0] above;           // Bits of the last byte down to its mark.
  always_comb begin
    top_byte = now_q[8*last_byte_q+:8];
    above = 4'd8;
    for (int unsigned i = 0; i < 8; ++i) if (top_byte[i]) above = 4'(8 - i);
  end

  wire [6:0] next_place = place_q + {1'b0, take_i};
  wire leaves = next_valid_q && next_place[6];
  assign shifts = state_q == First || (state_q == Serve && (!next_valid_q || leaves));

  assign valid_o = state_q == Serve && next_valid_q && !place_q[6];
  assign window_o = {now_q, next_q};
  assign place_o = place_q[5:0];
  assign bits_o = Peek'({window_o << place_o} >> (2 * Word - Peek));

  always_ff @(posedge clk_i) begin
    if (state_q == First) now_q <= word;
    else if (leaves) now_q <= next_q;
    if (shifts && word_valid) next_q <= word;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      last_byte_q <= '0;
      next_valid_q <= 1'b0;
      place_q <= '0;
      left_o <= '0;
      has_no_mark_o <= 1'b0;
    end else if (begin_i) begin
      state_q <= First;
      last_byte_q <= last[2:0];
      next_valid_q <= 1'b0;
      left_o <= $signed({1'b0, size_i, 3'b0});
      has_no_mark_o <= 1'b0;
    end else begin
      unique case (state_q)
        First: if (word_valid) state_q <= Mark;
        Mark: begin
          has_no_mark_o <= top_byte == '0;
          left_o <= left_o - 22'(above);
          place_q <= {1'b0, 3'd7 - last_byte_q, 3'd0} + 7'(above);
          state_q <= Serve;
        end
        Serve: begin
          if (shifts) next_valid_q <= word_valid;
          place_q <= {next_place[6] && !leaves, next_place[5:0]};
          left_o <= left_o - 22'(take_i);
        end
        default: ;
      endcase
    end
  end

endmodule
