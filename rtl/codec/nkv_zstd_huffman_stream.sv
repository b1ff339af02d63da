// Decodes a stream of Huffman-coded literals, up to two per cycle and up to 16 bits of code per
// cycle. Where code words begin depends on the ones before; so the length of the word that begins
// at a bit, and of that and the next together, are found for every bit ahead, 16 bits at a time,
// and the walk from pair to pair only adds. Which symbols they are follows behind the walk.
//
// begin_i with the stream's place, and the number of literals. Pairs (the last may be single) leave
// in order, from about 15 cycles later on. Then done_o or error_o stands, until the next begin_i;
// error_o where the literals are not exactly what the stream has.

module nkv_zstd_huffman_stream
  import nkv_zstd_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        begin_i,
  input  place_t      end_i,               // Behind its last byte.
  input  size_t       size_i,              // At least 1.
  input  logic [14:0] literals_i,

  input  code_bound_t bound_i[MaxCodeBits+1],  // Of nkv_zstd_tree, held.
  input  logic [3:0]  max_bits_i,
  input  logic        write_i[2],
  input  logic [3:0]  weight_i[2],
  input  logic [SymbolsLog2-1:0] index_i[2],
  input  logic [SymbolsLog2-1:0] symbol_i[2],

  output logic        request_o,           // To nkv_zstd_source.
  output line_t       request_line_o,
  input  logic        grant_i,
  input  logic [127:0] line_i,

  output logic        valid_o,
  output logic        is_pair_o,
  output logic        is_last_o,
  output logic [7:0]  literal_o[2],
  output logic        done_o,
  output logic        error_o
);

  localparam int unsigned Group = 16;
  typedef logic [Group-1:0] group_t;
  typedef logic [3:0] length_t;
  typedef logic [4:0] pair_length_t;
  typedef logic [MaxCodeBits-1:0] code_t;

  logic word_valid, word_ready;
  group_t word;
  nkv_word_reader #(.Width(Group), .Downwards(1)) u_words (
    .clk_i, .rst_ni, .begin_i, .place_i(end_i - 1'b1),
    .request_o, .request_line_o, .grant_i, .line_i,
    .valid_o(word_valid), .ready_i(word_ready), .word_o(word)
  );

  // Bits down to the mark behind the first bit of the stream; nothing but zeros: 8.
  function automatic logic [3:0] above_mark(logic [7:0] last_byte);
    above_mark = 4'd8;
    for (int unsigned i = 0; i < 8; ++i) if (last_byte[i]) above_mark = 4'(8 - i);
  endfunction

  // The length of the word that begins the bits. Words of a length are above all longer ones.
  function automatic length_t length_of(code_t bits, code_bound_t bound[MaxCodeBits+1]);
    length_of = length_t'(MaxCodeBits);
    for (int unsigned i = MaxCodeBits - 1; i >= 1; --i) begin
      if ({1'b0, bits} >> (MaxCodeBits - i) >= bound[i] >> (MaxCodeBits - i)) begin
        length_of = length_t'(i);
      end
    end
  endfunction

  typedef enum logic [2:0] {Idle, First, Mark, Fill, Walk, Drain, Done, Failed} state_e;
  state_e state_q;
  logic [1:0] filled_q;
  logic is_high_q;            // The stream ends with the upper byte of its first group.
  logic [5:0] place_q;        // Of the next bit, from group_q[0]'s first.
  logic [14:0] literals_q;    // Left.
  logic signed [21:0] left_q; // Bits, likewise.

  // ---- Lengths ahead ---------------------------------------------------------------------------
  group_t group_q[4];         // [0] is walked; the others follow.
  length_t length_q[3][Group];
  pair_length_t pair_length_q[Group];

  wire [3:0] above = above_mark(is_high_q ? group_q[3][15:8] : group_q[3][7:0]);
  wire has_mark = (is_high_q ? group_q[3][15:8] : group_q[3][7:0]) != '0;

  logic advances;
  wire [2*Group-1:0] coming = {group_q[3], word};
  always_ff @(posedge clk_i) begin
    if (advances) begin
      group_q[3] <= word;
      for (int unsigned i = 0; i < 3; ++i) group_q[i] <= group_q[i+1];
      for (int unsigned p = 0; p < Group; ++p) begin
        length_q[2][p] <= length_of(coming[2*Group-1-p-:MaxCodeBits], bound_i);
        length_q[1][p] <= length_q[2][p];
        length_q[0][p] <= length_q[1][p];
      end
    end
  end

  length_t both_lengths[2*Group];
  always_comb begin
    for (int unsigned p = 0; p < Group; ++p) begin
      both_lengths[p] = length_q[1][p];
      both_lengths[p+Group] = length_q[2][p];
    end
  end
  always_ff @(posedge clk_i) begin
    if (advances) begin
      for (int unsigned p = 0; p < Group; ++p) begin
        pair_length_q[p] <= 5'(length_q[1][p]) + 5'(both_lengths[5'(p)+5'(length_q[1][p])]);
      end
    end
  end

  // ---- The walk --------------------------------------------------------------------------------
  wire looks = state_q == Walk && place_q < 6'(Group);
  wire is_pair = literals_q != 15'd1;
  wire length_t one = length_q[0][place_q[3:0]];
  wire pair_length_t two = pair_length_q[place_q[3:0]];
  wire pair_length_t walked_bits = is_pair ? two : pair_length_t'(one);
  wire [5:0] next_place = looks ? place_q + 6'(walked_bits) : place_q;
  wire leaves = next_place >= 6'(Group);
  wire is_last = literals_q <= 15'd2;

  always_comb begin
    unique case (state_q)
      First: word_ready = 1'b1;
      Fill: word_ready = 1'b1;
      Walk: word_ready = leaves;
      default: word_ready = 1'b0;
    endcase
  end
  assign advances = word_valid && word_ready;

  logic [3:0] valid_q;        // Behind the walk by 1 to 4 cycles.
  logic is_pair_q[4], is_last_q[4];
  assign done_o = state_q == Done;
  assign error_o = state_q == Failed;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      filled_q <= '0;
      is_high_q <= 1'b0;
      place_q <= '0;
      literals_q <= '0;
      left_q <= '0;
      valid_q <= '0;
    end else if (begin_i) begin
      state_q <= First;
      filled_q <= '0;
      is_high_q <= !end_i[0];
      literals_q <= literals_i;
      left_q <= $signed({1'b0, size_i, 3'b0});
      valid_q <= '0;
    end else begin
      valid_q <= {valid_q[2:0], looks};
      unique case (state_q)
        First: if (word_valid) state_q <= Mark;
        Mark: begin
          place_q <= 6'(above) + (is_high_q ? 6'd0 : 6'd8);
          left_q <= left_q - 22'(above);
          state_q <= has_mark ? Fill : Failed;
        end
        Fill: begin
          if (word_valid) filled_q <= filled_q + 1'b1;
          if (word_valid && filled_q == 2'd2) state_q <= literals_q == '0 ? Drain : Walk;
        end
        Walk: begin
          place_q <= advances ? next_place - 6'(Group) : next_place;
          if (looks) begin
            left_q <= left_q - 22'(walked_bits);
            literals_q <= literals_q - (is_pair ? 15'd2 : 15'd1);
            if (is_last) state_q <= Drain;
          end
          if (left_q[21]) state_q <= Failed;
        end
        Drain: if (valid_q == '0) state_q <= left_q == '0 ? Done : Failed;
        default: ;
      endcase
    end
  end

  // ---- Which symbols they are ------------------------------------------------------------------
  wire [3*Group-1:0] walked = {group_q[0], group_q[1], group_q[2]};
  logic [2*MaxCodeBits-1:0] words_q;
  length_t length_one_q, length_two_q, length_late_q[2];
  code_t code_q[2];
  logic [11:0] address_q[2];
  wire code_t behind = code_t'({words_q << length_one_q} >> MaxCodeBits);

  // The number of a word among those of its length, and so of its weight.
  function automatic logic [11:0] address_of(code_t code, length_t length,
                                             code_bound_t bound[MaxCodeBits+1],
                                             logic [3:0] max_bits);
    automatic code_bound_t distance = {1'b0, code} - bound[length];
    return {max_bits + 4'd1 - length,
            SymbolsLog2'(distance >> (length_t'(MaxCodeBits) - length))};
  endfunction

  always_ff @(posedge clk_i) begin
    words_q <= walked[6'(3*Group-1)-6'(place_q[3:0])-:2*MaxCodeBits];
    length_one_q <= one;
    length_two_q <= length_t'(two - pair_length_t'(one));
    code_q[0] <= words_q[2*MaxCodeBits-1-:MaxCodeBits];
    code_q[1] <= behind;
    length_late_q[0] <= length_one_q;
    length_late_q[1] <= length_two_q;
    for (int unsigned i = 0; i < 2; ++i) begin
      address_q[i] <= address_of(code_q[i], length_late_q[i], bound_i, max_bits_i);
    end
    is_pair_q[0] <= is_pair;
    is_last_q[0] <= is_last;
    for (int unsigned i = 1; i < 4; ++i) begin
      is_pair_q[i] <= is_pair_q[i-1];
      is_last_q[i] <= is_last_q[i-1];
    end
  end

  (* ram_style = "block" *) logic [7:0] symbols[4096];
  logic [7:0] symbol_q[2];
  for (genvar k = 0; k < 2; ++k) begin : gen_port
    wire [11:0] address = write_i[k] ? {weight_i[k], index_i[k]} : address_q[k];
    always_ff @(posedge clk_i) begin
      if (write_i[k]) symbols[address] <= symbol_i[k];
      symbol_q[k] <= symbols[address];
    end
  end

  assign valid_o = valid_q[3];
  assign is_pair_o = is_pair_q[3];
  assign is_last_o = is_last_q[3];
  assign literal_o = symbol_q;

endmodule
