// Reads the literals section of a block (RFC 8878, 3.1.1.3.1) and gives its literals where they are
// not stored plain. After begin_i it takes the section's head from a window of bytes that stands at
// place_i; seek_o asks for another place. done_o stands for one cycle when the head is read;
// error_o does instead. From then on, until the next begin_i: literals_o of them, stored plain at
// plain_o if is_plain_o; the section ends before end_o.
//
// Coded literals are decoded from then on; streams_done_o when all are, failed_o where they are not
// what the section says.

module nkv_zstd_literals_section
  import nkv_zstd_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        forget_i,            // There is no Huffman tree to be used again.
  input  logic        begin_i,
  input  place_t      block_end_i,
  input  logic        cancel_i,

  input  logic        valid_i,             // bytes_i are there, the first from place_i.
  input  logic [7:0]  bytes_i[6],
  input  place_t      place_i,
  output logic [2:0]  take_o,
  output logic        seek_o,
  output place_t      seek_place_o,

  // A nkv_zstd_bits.
  output logic        bits_begin_o,
  output place_t      bits_end_o,
  output size_t       bits_size_o,
  input  logic        bits_valid_i,
  input  logic [127:0] bits_window_i,
  input  logic [5:0]  bits_place_i,
  output logic [5:0]  bits_take_o,
  input  logic signed [21:0] bits_left_i,
  input  logic        bits_has_no_mark_i,

  output logic [Streams-1:0] request_o,    // To nkv_zstd_source.
  output line_t       request_line_o[Streams],
  input  logic [Streams-1:0] grant_i,
  input  logic [127:0] line_i,

  output logic        done_o,
  output logic        error_o,
  output logic        is_plain_o,
  output size_t       literals_o,
  output place_t      plain_o,
  output place_t      end_o,

  output logic [7:0]  bytes_o[16],         // The next literals, unless is_plain_o,
  output logic [4:0]  count_o,             // as far as they are there.
  input  logic [4:0]  take_i,
  output logic        streams_done_o,
  output logic        failed_o
);

  typedef enum logic [1:0] {Plain, Repeated, Coded, Treeless} form_e;
  typedef enum logic [3:0] {
    Idle, Head, Sizes, Byte, Tree, Seek, Jumps, JumpSizes, Places, Start, Done
  } state_e;
  state_e state_q;
  form_e form_q;
  logic has_tree_q, is_single_q;
  logic is_read_q;                         // The section's head, and none since.
  size_t literals_q;
  place_t end_q;
  logic is_end_wrong_q;                    // Beyond the block.
  logic [7:0] byte_q;

  // ---- Head ------------------------------------------------------------------------------------
  wire form_e form = form_e'(bytes_i[0][1:0]);
  wire [1:0] size_form = bytes_i[0][3:2];
  wire is_coded = form[1];
  wire [39:3] head = {bytes_i[4], bytes_i[3], bytes_i[2], bytes_i[1], bytes_i[0][7:3]};
  logic [2:0] head_bytes;
  logic [19:0] literals;
  logic [17:0] coded_bytes;                // Behind the head.
  always_comb begin
    unique casez ({is_coded, size_form})
      3'b0?0: begin
        head_bytes = 3'd1;
        literals = {15'd0, head[7:3]};
        coded_bytes = '0;
      end
      3'b001: begin
        head_bytes = 3'd2;
        literals = {8'd0, head[15:4]};
        coded_bytes = '0;
      end
      3'b011: begin
        head_bytes = 3'd3;
        literals = head[23:4];
        coded_bytes = '0;
      end
      3'b10?: begin
        head_bytes = 3'd3;
        literals = {10'd0, head[13:4]};
        coded_bytes = {8'd0, head[23:14]};
      end
      3'b110: begin
        head_bytes = 3'd4;
        literals = {6'd0, head[17:4]};
        coded_bytes = {4'd0, head[31:18]};
      end
      default: begin
        head_bytes = 3'd5;
        literals = {2'd0, head[21:4]};
        coded_bytes = head[39:22];
      end
    endcase
  end

  logic [19:0] head_literals_q, section_bytes_q;   // section_bytes_q: behind the head.
  wire [20:0] section_end = {3'd0, place_i} + {1'b0, section_bytes_q};
  wire is_form_coded = form_q == Coded || form_q == Treeless;
  wire is_count_wrong = head_literals_q > 20'd65536 ||
                        (is_form_coded && head_literals_q < (is_single_q ? 20'd1 : 20'd6));

  // ---- Tree ------------------------------------------------------------------------------------
  logic tree_done, tree_error, write[2];
  logic [1:0] tree_take;
  logic [3:0] weight[2], max_bits;
  logic [SymbolsLog2-1:0] index[2], symbol[2];
  code_bound_t bound[MaxCodeBits+1];
  place_t tree_end;
  nkv_zstd_tree u_tree (
    .clk_i, .rst_ni, .begin_i(state_q == Sizes && form_q == Coded), .cancel_i,
    .valid_i(valid_i && state_q == Tree), .bytes_i(bytes_i[0:2]), .place_i, .take_o(tree_take),
    .bits_begin_o, .bits_end_o, .bits_size_o, .bits_valid_i, .bits_window_i, .bits_place_i,
    .bits_take_o, .bits_left_i, .bits_has_no_mark_i,
    .write_o(write), .weight_o(weight), .index_o(index), .symbol_o(symbol),
    .bound_o(bound), .max_bits_o(max_bits),
    .end_o(tree_end), .done_o(tree_done), .error_o(tree_error)
  );

  // ---- Streams ---------------------------------------------------------------------------------
  place_t streams_q;                       // Where they begin, or their jump table does.
  logic [15:0] jump_q[Streams-1];
  place_t stream_end_q[Streams];
  size_t stream_size_q[Streams];
  logic signed [19:0] last_size_q;
  wire starts = state_q == Start;
  wire is_size_wrong = stream_size_q[0] == '0 ||
                       (!is_single_q && (stream_size_q[1] == '0 || stream_size_q[2] == '0 ||
                                         last_size_q <= 0));

  always_ff @(posedge clk_i) begin
    if (state_q == Jumps) begin
      for (int unsigned s = 0; s < Streams - 1; ++s) jump_q[s] <= {bytes_i[2*s+1], bytes_i[2*s]};
    end
    if (state_q == JumpSizes) begin
      last_size_q <= $signed({2'b0, end_q}) - $signed({2'b0, streams_q}) - 20'sd6 -
                     20'(jump_q[0]) - 20'(jump_q[1]) - 20'(jump_q[2]);
      stream_end_q[0] <= is_single_q ? end_q : streams_q + 18'd6 + 18'(jump_q[0]);
      stream_size_q[0] <= is_single_q ? end_q - streams_q : 18'(jump_q[0]);
      for (int unsigned s = 1; s < Streams - 1; ++s) stream_size_q[s] <= 18'(jump_q[s]);
    end
    if (state_q == Places) begin
      stream_end_q[1] <= stream_end_q[0] + 18'(jump_q[1]);
      stream_end_q[2] <= stream_end_q[0] + 18'(jump_q[1]) + 18'(jump_q[2]);
      stream_end_q[3] <= end_q;
      stream_size_q[3] <= last_size_q[17:0];
    end
  end

  logic [7:0] coded_bytes_out[16];
  logic [4:0] coded_count;
  logic coded_done, coded_failed;
  nkv_zstd_literals u_literals (
    .clk_i, .rst_ni, .begin_i(starts && !is_size_wrong), .is_single_i(is_single_q),
    .literals_i(literals_q), .end_i(stream_end_q), .size_i(stream_size_q),
    .bound_i(bound), .max_bits_i(max_bits), .write_i(write), .weight_i(weight), .index_i(index),
    .symbol_i(symbol),
    .request_o, .request_line_o, .grant_i, .line_i,
    .bytes_o(coded_bytes_out), .count_o(coded_count),
    .take_i(is_form_coded ? take_i : '0),
    .done_o(coded_done), .failed_o(coded_failed)
  );

  always_comb begin
    for (int unsigned i = 0; i < 16; ++i) bytes_o[i] = is_form_coded ? coded_bytes_out[i] : byte_q;
  end
  assign count_o = is_form_coded ? coded_count : 5'd16;
  assign streams_done_o = !is_form_coded || coded_done;
  assign failed_o = is_form_coded && coded_failed && is_read_q;

  assign is_plain_o = form_q == Plain;
  assign literals_o = literals_q;
  assign end_o = end_q;
  assign done_o = state_q == Done;
  assign seek_o = state_q == Seek;
  assign seek_place_o = streams_q;

  always_comb begin
    unique case (state_q)
      Head: take_o = valid_i ? head_bytes : '0;
      Byte: take_o = {2'b0, valid_i};
      Tree: take_o = {1'b0, tree_take};
      default: take_o = '0;
    endcase
    unique case (state_q)
      Sizes: error_o = is_count_wrong || (form_q == Treeless && !has_tree_q);
      Byte: error_o = is_end_wrong_q;
      Tree: error_o = is_end_wrong_q || tree_error;
      Seek, JumpSizes: error_o = is_end_wrong_q || streams_q >= end_q;
      Start: error_o = is_size_wrong;
      Done: error_o = is_end_wrong_q;
      default: error_o = 1'b0;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Head) begin
      form_q <= form;
      is_single_q <= size_form == 2'd0;
      head_literals_q <= literals;
      section_bytes_q <= form == Plain ? literals : form == Repeated ? 20'd1 : 20'(coded_bytes);
    end
    if (state_q == Sizes) begin
      literals_q <= size_t'(head_literals_q);
      end_q <= section_end[17:0];
      is_end_wrong_q <= section_end > {3'd0, block_end_i};
      plain_o <= place_i;
      streams_q <= place_i;
    end
    if (state_q == Byte) byte_q <= bytes_i[0];
    if (state_q == Tree) streams_q <= tree_end;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      has_tree_q <= 1'b0;
      is_read_q <= 1'b0;
    end else begin
      unique case (state_q)
        Idle: if (begin_i) state_q <= Head;
        Head: if (valid_i) state_q <= Sizes;
        Sizes: begin
          unique case (form_q)
            Plain: state_q <= Done;
            Repeated: state_q <= Byte;
            Coded: state_q <= Tree;
            default: state_q <= is_single_q ? JumpSizes : Seek;
          endcase
        end
        Byte: if (valid_i) state_q <= Done;
        Tree: begin
          if (tree_done) begin
            has_tree_q <= 1'b1;
            state_q <= is_single_q ? JumpSizes : Seek;
          end
        end
        Seek: state_q <= Jumps;
        Jumps: if (valid_i) state_q <= JumpSizes;
        JumpSizes: state_q <= Places;
        Places: state_q <= Start;
        Start: state_q <= Done;
        default: state_q <= Idle;
      endcase
      if (cancel_i || error_o) state_q <= Idle;
      if (done_o) is_read_q <= 1'b1;
      if (begin_i || forget_i) is_read_q <= 1'b0;
      if (forget_i) has_tree_q <= 1'b0;
    end
  end

endmodule
