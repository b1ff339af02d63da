// What the parts of the ZSTD decoder share: places, tables of RFC 8878, and what passes between
// them.

package nkv_zstd_pkg;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // Byte of the bursts that hold the frame, and line of 16 bytes of them.
  typedef logic [17:0] place_t;
  typedef logic [13:0] line_t;
  // Bytes of a frame or of its content, and one more than either.
  typedef logic [17:0] size_t;

  localparam int unsigned Streams = 4;        // Of Huffman-coded literals.
  localparam int unsigned MaxCodeBits = 11;   // Of a literal,
  localparam int unsigned SymbolsLog2 = 8;    // of so many.

  // Who reads lines of the frame.
  localparam int unsigned Readers = Streams + 2;
  localparam int unsigned ForwardReader = Streams;
  localparam int unsigned StateReader = Streams + 1;

  // A state of an FSE table: its symbol, and the state that follows: base + so many bits.
  localparam int unsigned MaxTableLog = 9;
  typedef logic [MaxTableLog-1:0] fse_state_t;
  typedef struct packed {
    logic [5:0] symbol;
    logic [3:0] bits;
    fse_state_t base;
  } fse_entry_t;

  // A symbol's share of an FSE table; -1: one state, which takes all bits.
  typedef logic signed [10:0] fse_count_t;

  // How an FSE table comes to be.
  typedef enum logic [1:0] {
    TablePredefined = 2'd0, TableRle = 2'd1, TableDescribed = 2'd2, TableRepeated = 2'd3
  } table_mode_e;

  // In the order in which a block describes them.
  typedef enum logic [1:0] {LiteralLengths = 2'd0, Offsets = 2'd1, MatchLengths = 2'd2} table_e;
  localparam int unsigned Tables = 3;

  // The smallest code word of each length, to the left of MaxCodeBits bits; 2048 where there is
  // none and none shorter. Lengths from 1 on.
  typedef logic [MaxCodeBits:0] code_bound_t;

  typedef struct packed {
    size_t       literals;
    size_t       match_bytes;  // 0 if nothing follows the literals.
    logic [16:0] offset;
  } sequence_t;

  // verilator lint_on UNUSEDPARAM

  // Extra bits of a length's code, and the length without them.
  function automatic logic [4:0] literal_bits(logic [5:0] code);
    if (code < 6'd16) return 5'd0;
    if (code < 6'd20) return 5'd1;
    if (code < 6'd22) return 5'd2;
    if (code < 6'd24) return 5'd3;
    if (code == 6'd24) return 5'd4;
    return 5'(code - 6'd19);
  endfunction

  function automatic size_t literal_base(logic [5:0] code);
    if (code < 6'd16) return size_t'(code);
    if (code < 6'd20) return 18'd16 + size_t'({code[1:0], 1'b0});
    if (code < 6'd22) return 18'd24 + size_t'({code[0], 2'b0});
    if (code < 6'd24) return 18'd32 + size_t'({code[0], 3'b0});
    if (code == 6'd24) return 18'd48;
    return 18'd1 << (code - 6'd19);
  endfunction

  function automatic logic [4:0] match_bits(logic [5:0] code);
    if (code < 6'd32) return 5'd0;
    if (code < 6'd36) return 5'd1;
    if (code < 6'd38) return 5'd2;
    if (code < 6'd40) return 5'd3;
    if (code < 6'd42) return 5'd4;
    if (code == 6'd42) return 5'd5;
    return 5'(code - 6'd36);
  endfunction

  function automatic size_t match_base(logic [5:0] code);
    if (code < 6'd32) return size_t'(code) + 18'd3;
    if (code < 6'd36) return 18'd35 + size_t'({code[1:0], 1'b0});
    if (code < 6'd38) return 18'd43 + size_t'({code[0], 2'b0});
    if (code < 6'd40) return 18'd51 + size_t'({code[0], 3'b0});
    if (code < 6'd42) return 18'd67 + size_t'({code[0], 4'b0});
    if (code == 6'd42) return 18'd99;
    return (18'd1 << (code - 6'd36)) + 18'd3;
  endfunction

  // Last symbol, and log of the states, of the predefined tables.
  function automatic logic [3:0] predefined_log(table_e which);
    return which == Offsets ? 4'd5 : 4'd6;
  endfunction

  function automatic logic [5:0] last_symbol(table_e which);
    unique case (which)
      LiteralLengths: return 6'd35;
      Offsets: return 6'd28;
      default: return 6'd52;
    endcase
  endfunction

  function automatic fse_count_t predefined_count(table_e which, logic [5:0] symbol);
    unique case (which)
      LiteralLengths: begin
        if (symbol >= 6'd32) return -11'sd1;
        if (symbol == 6'd0) return 11'sd4;
        if (symbol == 6'd1 || symbol == 6'd25) return 11'sd3;
        return (symbol inside {[6'd13 : 6'd15], [6'd27 : 6'd31]}) ? 11'sd1 : 11'sd2;
      end
      Offsets: begin
        if (symbol >= 6'd24) return -11'sd1;
        return (symbol inside {[6'd6 : 6'd8]}) ? 11'sd2 : 11'sd1;
      end
      default: begin
        if (symbol >= 6'd46) return -11'sd1;
        if (symbol == 6'd1) return 11'sd4;
        if (symbol == 6'd2) return 11'sd3;
        return (symbol inside {[6'd3 : 6'd8]}) ? 11'sd2 : 11'sd1;
      end
    endcase
  endfunction

  // The predefined tables as nkv_zstd_fse_table would build them.
  localparam int unsigned PredefinedStates = 64;
  typedef fse_entry_t [PredefinedStates-1:0] predefined_t;
  function automatic predefined_t predefined_table(table_e which);
    predefined_t entries;
    logic [PredefinedStates-1:0][5:0] symbols;
    logic [PredefinedStates-1:0][6:0] numbers;   // Of the next state of each symbol.
    logic [6:0] states, high, place, step, number;
    logic [3:0] bits;
    fse_count_t count;
    states = 7'd1 << predefined_log(which);
    step = (states >> 1) + (states >> 3) + 7'd3;
    high = states - 7'd1;
    place = '0;
    entries = '0;
    symbols = '0;
    numbers = '0;
    for (int unsigned s = 0; s < PredefinedStates; ++s) begin
      if (6'(s) <= last_symbol(which)) begin
        count = predefined_count(which, 6'(s));
        numbers[s] = count[10] ? 7'd1 : 7'(count);
        if (count[10]) begin
          symbols[high[5:0]] = 6'(s);
          high = high - 7'd1;
        end
      end
    end
    for (int unsigned s = 0; s < PredefinedStates; ++s) begin
      for (int unsigned i = 0; i < 4; ++i) begin
        count = predefined_count(which, 6'(s));
        if (6'(s) <= last_symbol(which) && !count[10] && 11'(i) < count) begin
          symbols[place[5:0]] = 6'(s);
          place = (place + step) & (states - 7'd1);
          for (int unsigned k = 0; k < 4; ++k) begin
            if (place > high) place = (place + step) & (states - 7'd1);
          end
        end
      end
    end
    for (int unsigned u = 0; u < PredefinedStates; ++u) begin
      if (7'(u) < states) begin
        number = numbers[symbols[u]];
        numbers[symbols[u]] = number + 7'd1;
        bits = predefined_log(which);
        for (int unsigned k = 1; k < 7; ++k) if (number[k]) bits = predefined_log(which) - 4'(k);
        entries[u] = '{symbols[u], bits, fse_state_t'((9'(number) << bits) - 9'(states))};
      end
    end
    return entries;
  endfunction

endpackage
