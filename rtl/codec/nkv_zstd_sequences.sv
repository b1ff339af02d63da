// Decodes the sequences of a block: from three FSE tables and a stream of bits that is read from
// its end, literal and match lengths and offsets, repeated offsets resolved. A sequence in two
// cycles.
//
// begin_i when the tables are ready and nkv_zstd_bits has begun; repeated offsets are kept from
// block to block, and are the format's first ones after forget_i. done_o stands for one cycle,
// after the last sequence; error_o does instead where the bits are not exactly what the sequences
// take, or an offset is zero or above 2^17 - 4.

module nkv_zstd_sequences
  import nkv_zstd_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        forget_i,
  input  logic        begin_i,
  input  logic        cancel_i,
  input  logic [16:0] sequences_i,         // At least 1.

  // A nkv_zstd_bits of 48.
  input  logic        bits_valid_i,
  input  logic [47:0] bits_i,
  input  logic [127:0] bits_window_i,
  input  logic [5:0]  bits_place_i,
  output logic [5:0]  bits_take_o,
  input  logic signed [21:0] bits_left_i,
  input  logic        bits_has_no_mark_i,

  output logic        read_o,              // Of the tables, by table_e.
  output fse_state_t  state_o[Tables],
  input  logic [3:0]  log_i[Tables],
  input  fse_entry_t  entry_i[Tables],

  input  logic        ready_i,             // Room for four sequences.
  output logic        valid_o,
  output sequence_t   sequence_o,
  output logic        done_o,
  output logic        error_o
);

  // First finds where the first states' bits end, States takes bits of states and looks these up,
  // Lengths takes the bits of offset and lengths and finds where those of the next states end.
  typedef enum logic [2:0] {Idle, First, States, Lengths, End} state_e;
  state_e state_q;
  logic [16:0] left_q;                     // Sequences, the present one too.
  wire is_last = left_q == 17'd1;
  wire is_first = state_q == First;
  wire takes_lengths = state_q == Lengths && bits_valid_i && ready_i;

  // ---- Next states -----------------------------------------------------------------------------
  // The bits of a state end at a place of the window as it is one cycle later.
  logic [5:0] lengths_bits;                // That go before them.
  wire [5:0] taken = bits_place_i + lengths_bits;
  logic [3:0] wanted[Tables];
  logic [6:0] end_of[Tables];
  logic [5:0] state_bits;
  always_comb begin
    for (int unsigned t = 0; t < Tables; ++t) wanted[t] = is_first ? log_i[t] : entry_i[t].bits;
    state_bits = 6'(wanted[0]) + 6'(wanted[1]) + 6'(wanted[2]);
    // Literal lengths come first, then match lengths; of the first states, offsets.
    end_of[LiteralLengths] = {1'b0, taken} + 7'(wanted[LiteralLengths]);
    end_of[MatchLengths] = end_of[LiteralLengths] + 7'(wanted[MatchLengths]) +
                           (is_first ? 7'(wanted[Offsets]) : 7'd0);
    end_of[Offsets] = end_of[LiteralLengths] + 7'(wanted[Offsets]) +
                      (is_first ? 7'd0 : 7'(wanted[MatchLengths]));
  end

  fse_state_t base_q[Tables], mask_q[Tables];
  logic [6:0] end_q[Tables];
  logic [5:0] state_bits_q;
  wire finds_ends = (is_first && bits_valid_i) || takes_lengths;
  always_ff @(posedge clk_i) begin
    if (finds_ends) begin
      state_bits_q <= state_bits;
      for (int unsigned t = 0; t < Tables; ++t) begin
        end_q[t] <= end_of[t];
        base_q[t] <= is_first ? '0 : entry_i[t].base;
        mask_q[t] <= ~({MaxTableLog{1'b1}} << wanted[t]);
      end
    end
  end

  // A state's base has zeros where its bits go.
  always_comb begin
    for (int unsigned t = 0; t < Tables; ++t) begin
      state_o[t] = base_q[t] |
                   (fse_state_t'(bits_window_i >> (8'd128 - {1'b0, end_q[t]})) & mask_q[t]);
    end
  end
  assign read_o = state_q == States && bits_valid_i;

  // ---- Bits ------------------------------------------------------------------------------------
  wire [5:0] offset_code = entry_i[Offsets].symbol;
  wire [4:0] literal_extra = literal_bits(entry_i[LiteralLengths].symbol);
  wire [4:0] match_extra = match_bits(entry_i[MatchLengths].symbol);
  wire is_offset_wrong = offset_code > 6'd16;
  assign lengths_bits = is_first ? '0 : offset_code + 6'(match_extra) + 6'(literal_extra);
  always_comb begin
    bits_take_o = '0;
    if (takes_lengths) bits_take_o = lengths_bits;
    if (read_o) bits_take_o = state_bits_q;
  end

  logic [2:0] valid_q;                     // Sequences on their way.
  wire is_busy = valid_q != '0;
  logic is_zero_offset;
  assign done_o = state_q == End && bits_left_i == '0 && !is_busy;
  assign error_o = state_q != Idle &&
                   (bits_has_no_mark_i || (bits_valid_i && bits_left_i[21]) ||
                    (takes_lengths && is_offset_wrong) || (state_q == End && bits_left_i != '0) ||
                    is_zero_offset);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      left_q <= '0;
    end else begin
      unique case (state_q)
        Idle: begin
          left_q <= sequences_i;
          if (begin_i) state_q <= First;
        end
        First: if (bits_valid_i) state_q <= States;
        States: if (bits_valid_i) state_q <= Lengths;
        Lengths: begin
          if (takes_lengths) begin
            left_q <= left_q - 1'b1;
            state_q <= is_last ? End : States;
          end
        end
        default: if (done_o) state_q <= Idle;
      endcase
      if (cancel_i || error_o) state_q <= Idle;
    end
  end

  // ---- What the extra bits say: offset, match length, literals, one after the other -------------
  logic [47:0] extra_q;
  logic [31:0] late_extra_q;
  logic [15:0] last_extra_q;
  logic [5:0] offset_code_q, match_code_q[2], literal_code_q[3];
  logic [17:0] offset_q, late_offset_q;    // Offsets, or what repeats one, as they are coded.
  size_t match_q;

  function automatic size_t extra_of(logic [15:0] extra, logic [4:0] count);
    return size_t'(extra) >> (5'd16 - count);
  endfunction

  always_ff @(posedge clk_i) begin
    if (takes_lengths) begin
      extra_q <= bits_i;
      offset_code_q <= offset_code;
      match_code_q[0] <= entry_i[MatchLengths].symbol;
      literal_code_q[0] <= entry_i[LiteralLengths].symbol;
    end
    offset_q <= (18'd1 << offset_code_q) + extra_of(extra_q[47-:16], offset_code_q[4:0]);
    late_extra_q <= 32'({extra_q << offset_code_q} >> 16);
    match_code_q[1] <= match_code_q[0];
    literal_code_q[1] <= literal_code_q[0];
    match_q <= match_base(match_code_q[1]) +
               extra_of(late_extra_q[31-:16], match_bits(match_code_q[1]));
    last_extra_q <= 16'({late_extra_q << match_bits(match_code_q[1])} >> 16);
    late_offset_q <= offset_q;
    literal_code_q[2] <= literal_code_q[1];
  end

  // ---- Repeated offsets ------------------------------------------------------------------------
  wire size_t literals = literal_base(literal_code_q[2]) +
                         extra_of(last_extra_q, literal_bits(literal_code_q[2]));
  logic [16:0] repeat_q[3];
  wire has_literals = literal_code_q[2] != '0;
  wire is_new = late_offset_q > 18'd3;
  // 1, 2, 3 mean the last offsets; without literals they mean the second, the third, and the last
  // less one.
  wire [1:0] chosen = late_offset_q[1:0] - 2'(has_literals);
  wire [16:0] again = chosen == 2'd3 ? repeat_q[0] - 1'b1 : repeat_q[chosen];
  wire [16:0] offset = is_new ? 17'(late_offset_q - 18'd3) : again;
  assign is_zero_offset = valid_q[2] && offset == '0;

  assign valid_o = valid_q[2];
  assign sequence_o = '{literals, match_q, offset};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      repeat_q <= '{17'd1, 17'd4, 17'd8};
    end else begin
      valid_q <= cancel_i || error_o ? '0 : {valid_q[1:0], takes_lengths};
      if (forget_i) begin
        repeat_q <= '{17'd1, 17'd4, 17'd8};
      end else if (valid_q[2] && (is_new || chosen != 2'd0)) begin
        repeat_q[0] <= offset;
        repeat_q[1] <= repeat_q[0];
        if (is_new || chosen != 2'd1) repeat_q[2] <= repeat_q[1];
      end
    end
  end

endmodule
