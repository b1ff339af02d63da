// Writes the sequences of an LZ4 block: token, lengths, literals, offset. A sequence takes a cycle
// each for its token, for 16 literals, and for its offset, and one for each further byte of a
// length; literals begin some 5 cycles after their sequence came.
//
// done_o stands for one cycle when the last sequence has been written.

module nkv_lz4_emit (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        valid_i,
  output logic        ready_o,
  input  logic        is_last_i,           // No match behind the literals.
  input  logic [16:0] place_of_literals_i,
  input  logic [16:0] literals_i,
  input  logic [16:0] match_bytes_i,
  input  logic [15:0] offset_i,

  output logic        request_o,           // A line of plain bytes, two cycles after its grant.
  output logic [13:0] request_line_o,
  input  logic        grant_i,
  input  logic [127:0] line_i,

  output logic        chunk_valid_o,       // To nkv_lz_history.
  input  logic        stall_i,
  output logic [4:0]  chunk_count_o,
  output logic [7:0]  chunk_bytes_o[16],
  output logic        done_o
);

  typedef enum logic [2:0] {
    Idle, Token, LiteralLength, Literals, Offset, MatchLength, Done
  } state_e;
  state_e state_q;
  logic is_last_q;
  logic [16:0] literals_q, match_q;        // Match: above 4.
  logic [15:0] offset_q;
  logic [16:0] length_q;                   // Of what is not said yet.

  assign ready_o = state_q == Idle;
  assign done_o = state_q == Done;
  wire takes = valid_i && ready_o;

  logic line_valid, line_ready;
  logic [127:0] line;
  nkv_word_reader #(.Width(128), .Downwards(0)) u_lines (
    .clk_i, .rst_ni, .begin_i(takes), .place_i({1'b0, place_of_literals_i}),
    .request_o, .request_line_o, .grant_i, .line_i,
    .valid_o(line_valid), .ready_i(line_ready), .word_o(line)
  );
  logic [7:0] bytes[16];
  logic [4:0] there;
  wire [4:0] wanted = literals_q < 17'd16 ? literals_q[4:0] : 5'd16;
  wire [4:0] given = there < wanted ? there : wanted;
  wire moves = chunk_valid_o && !stall_i;
  nkv_byte_window u_window (
    .clk_i, .rst_ni, .begin_i(takes), .skip_i(place_of_literals_i[3:0]),
    .in_valid_i(line_valid), .in_ready_o(line_ready), .in_data_i(line),
    .bytes_o(bytes), .count_o(there), .take_i(state_q == Literals && moves ? given : '0)
  );

  wire is_long_literals = literals_q >= 17'd15;
  wire is_long_match = match_q >= 17'd15;
  wire [3:0] literal_nibble = is_long_literals ? 4'd15 : literals_q[3:0];
  wire [3:0] match_nibble = is_last_q ? 4'd0 : is_long_match ? 4'd15 : match_q[3:0];
  wire [7:0] length_byte = length_q >= 17'd255 ? 8'd255 : length_q[7:0];

  always_comb begin
    for (int unsigned i = 0; i < 16; ++i) chunk_bytes_o[i] = bytes[i];
    chunk_count_o = 5'd1;
    unique case (state_q)
      Token: chunk_bytes_o[0] = {literal_nibble, match_nibble};
      LiteralLength, MatchLength: chunk_bytes_o[0] = length_byte;
      Literals: chunk_count_o = given;
      Offset: begin
        chunk_bytes_o[0] = offset_q[7:0];
        chunk_bytes_o[1] = offset_q[15:8];
        chunk_count_o = 5'd2;
      end
      default: ;
    endcase
    chunk_valid_o = !(state_q inside {Idle, Done}) && (state_q != Literals || given != '0);
  end

  // What follows the literals' length, and the literals.
  wire state_e behind_literals = is_last_q ? Done : Offset;
  wire state_e behind_length = literals_q != '0 ? Literals : behind_literals;

  always_ff @(posedge clk_i) begin
    if (takes) begin
      is_last_q <= is_last_i;
      literals_q <= literals_i;
      match_q <= match_bytes_i - 17'd4;
      offset_q <= offset_i;
    end else if (moves) begin
      if (state_q == Literals) literals_q <= literals_q - 17'(given);
      if (state_q == Token) length_q <= literals_q - 17'd15;
      else if (state_q == Offset) length_q <= match_q - 17'd15;
      else length_q <= length_q - 17'd255;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
    end else begin
      unique case (state_q)
        Idle: if (valid_i) state_q <= Token;
        Token: if (moves) state_q <= is_long_literals ? LiteralLength : behind_length;
        LiteralLength: if (moves && length_byte != 8'd255) state_q <= behind_length;
        Literals: if (moves && literals_q == 17'(given)) state_q <= behind_literals;
        Offset: if (moves) state_q <= is_long_match ? MatchLength : Idle;
        MatchLength: if (moves && length_byte != 8'd255) state_q <= Idle;
        default: state_q <= Idle;
      endcase
    end
  end

endmodule
