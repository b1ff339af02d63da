// Reads the description of a Huffman tree (RFC 8878, 4.2.1), weights as they are or FSE-coded, and
// makes of it what decoders of streams need: the symbols of each weight in order, written two at a
// time, and the smallest code word of each length. Two weights per cycle; coded ones follow the
// description of their table, about two cycles per count and state.
//
// After begin_i it takes the description from a window of bytes that stands at place_i. done_o
// stands for one cycle; error_o does instead where there is no such tree, or one of more than 11
// bits. The description then ends before end_o, wherever the window stands.

module nkv_zstd_tree
  import nkv_zstd_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        begin_i,
  input  logic        cancel_i,

  input  logic        valid_i,             // bytes_i are there, the first from place_i.
  input  logic [7:0]  bytes_i[3],
  input  place_t      place_i,
  output logic [1:0]  take_o,

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

  output logic        write_o[2],          // Symbol `symbol_o` is number index_o of its weight.
  output logic [3:0]  weight_o[2],
  output logic [SymbolsLog2-1:0] index_o[2],
  output logic [SymbolsLog2-1:0] symbol_o[2],
  output code_bound_t bound_o[MaxCodeBits+1],  // By length; [0] is unused.
  output logic [3:0]  max_bits_o,

  output place_t      end_o,
  output logic        done_o,
  output logic        error_o
);

  localparam int unsigned MaxLog = 6;

  typedef enum logic [3:0] {
    Idle, Size, Direct, Counts, Build, Decode, Last, Settle, Total, Rest, Implied,
    Clear, Bounds, Done
  } state_e;
  state_e state_q;
  place_t end_q;
  logic [7:0] weights_left_q;        // Given ones.
  assign end_o = end_q;

  // ---- The table of coded weights -------------------------------------------------------------
  logic [1:0] counts_take;
  logic log_valid, count_valid, counts_done, counts_error, steps;
  logic table_ready[2];
  logic [3:0] log, table_log[2];
  logic [5:0] count_symbol;
  fse_count_t count;
  fse_entry_t entry[2];
  logic [MaxLog-1:0] next_state[2];

  nkv_zstd_fse_counts u_counts (
    .clk_i, .rst_ni,
    .begin_i(state_q == Size), .max_log_i(4'(MaxLog)), .last_symbol_i(6'(MaxCodeBits)), .cancel_i,
    .valid_i(valid_i && state_q == Counts), .bytes_i, .take_o(counts_take),
    .log_valid_o(log_valid), .log_o(log),
    .count_valid_o(count_valid), .symbol_o(count_symbol), .count_o(count),
    .done_o(counts_done), .error_o(counts_error)
  );

  // The same table for each of the two states.
  for (genvar k = 0; k < 2; ++k) begin : gen_table
    nkv_zstd_fse_table #(.MaxLog(MaxLog)) u_table (
      .clk_i, .rst_ni,
      .begin_i(log_valid), .log_i(log), .is_rle_i(1'b0),
      .count_valid_i(count_valid), .symbol_i(count_symbol), .count_i(count), .end_i(counts_done),
      .ready_o(table_ready[k]), .log_o(table_log[k]),
      .read_i(steps), .state_i(next_state[k]), .entry_o(entry[k])
    );
  end

  // ---- Coded weights: a step of both states per cycle ------------------------------------------
  // The first step only looks at the bits, the second takes the states themselves.
  logic [1:0] started_q;
  logic [2*MaxLog-1:0] ahead_q;            // The next bits.
  wire has_bits = started_q != 2'd0;
  wire has_entry = started_q == 2'd2;
  assign steps = state_q == Decode && bits_valid_i;
  logic [3:0] step_bits[2];
  logic [5:0] both_bits;
  always_comb begin
    for (int unsigned k = 0; k < 2; ++k) begin
      step_bits[k] = !has_bits ? 4'd0 : has_entry ? entry[k].bits : table_log[k];
    end
    both_bits = 6'(step_bits[0]) + 6'(step_bits[1]);
  end
  wire [MaxLog-1:0] behind_first = MaxLog'({ahead_q << step_bits[0]} >> MaxLog);
  function automatic logic [MaxLog-1:0] high_bits(logic [MaxLog-1:0] bits, logic [3:0] used);
    return bits >> (4'(MaxLog) - used);
  endfunction
  // A state's base has zeros where its bits go.
  assign next_state[0] = (has_entry ? entry[0].base[MaxLog-1:0] : '0) |
                         high_bits(ahead_q[2*MaxLog-1-:MaxLog], step_bits[0]);
  assign next_state[1] = (has_entry ? entry[1].base[MaxLog-1:0] : '0) |
                         high_bits(behind_first, step_bits[1]);
  assign bits_take_o = steps ? both_bits : '0;
  wire [6:0] next_place = {1'b0, bits_place_i} + {1'b0, both_bits};
  wire first_runs_out = bits_left_i < $signed({18'b0, step_bits[0]});
  wire second_runs_out = bits_left_i < $signed({16'b0, both_bits});

  always_ff @(posedge clk_i) begin
    if (steps) ahead_q <= (2 * MaxLog)'({bits_window_i << next_place} >> (128 - 2 * MaxLog));
  end

  assign bits_begin_o = state_q == Build && table_ready[0];
  assign bits_end_o = end_q;
  assign bits_size_o = end_q - place_i;

  // ---- Weights as they come -------------------------------------------------------------------
  logic weight_valid_q[2];
  logic [3:0] weight_q[2];
  logic [SymbolsLog2:0] symbol_q;          // Of weight_q[0].
  logic [SymbolsLog2:0] count_q[MaxCodeBits+1];
  logic [17:0] total_q;                    // Of 2^(weight - 1).

  wire gives_direct = state_q == Direct && valid_i;
  wire gives_pair = gives_direct ? weights_left_q != 8'd1 : steps && has_entry;
  wire gives_coded = (steps && has_entry) || state_q == Last;
  logic [3:0] implied_q;

  function automatic logic [10:0] share_of(logic [3:0] weight);
    return 11'((12'd1 << weight) >> 1);
  endfunction

  logic is_weight_wrong;
  always_comb begin
    is_weight_wrong = weight_valid_q[0] && symbol_q[SymbolsLog2];
    for (int unsigned k = 0; k < 2; ++k) begin
      write_o[k] = weight_valid_q[k] && weight_q[k] != '0;
      weight_o[k] = weight_q[k];
      symbol_o[k] = symbol_q[SymbolsLog2-1:0] + SymbolsLog2'(k);
      index_o[k] = count_q[weight_q[k]][SymbolsLog2-1:0] +
                   SymbolsLog2'(k == 1 && weight_q[0] == weight_q[1]);
      if (weight_valid_q[k] && weight_q[k] > 4'(MaxCodeBits)) is_weight_wrong = 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (gives_direct) weight_q <= '{bytes_i[0][7:4], bytes_i[0][3:0]};
    else if (gives_coded) weight_q <= '{entry[0].symbol[3:0], entry[1].symbol[3:0]};
    else weight_q[0] <= implied_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      weight_valid_q <= '{default: 1'b0};
      symbol_q <= '0;
      total_q <= '0;
      for (int unsigned w = 0; w <= MaxCodeBits; ++w) count_q[w] <= '0;
    end else begin
      weight_valid_q <= '{gives_direct || gives_coded || state_q == Implied, gives_pair};
      if (begin_i) begin
        symbol_q <= '0;
        total_q <= '0;
        for (int unsigned w = 0; w <= MaxCodeBits; ++w) count_q[w] <= '0;
      end else begin
        symbol_q <= symbol_q + 9'(weight_valid_q[0]) + 9'(weight_valid_q[1]);
        total_q <= total_q + (weight_valid_q[0] ? 18'(share_of(weight_q[0])) : '0) +
                   (weight_valid_q[1] ? 18'(share_of(weight_q[1])) : '0);
        for (int unsigned w = 1; w <= MaxCodeBits; ++w) begin
          count_q[w] <= count_q[w] + 9'(weight_valid_q[0] && weight_q[0] == 4'(w)) +
                        9'(weight_valid_q[1] && weight_q[1] == 4'(w));
        end
      end
    end
  end

  // ---- The last weight makes the total a power of two ------------------------------------------
  function automatic logic [4:0] bits_of(logic [17:0] value);
    bits_of = '0;
    for (int unsigned i = 0; i < 18; ++i) if (value[i]) bits_of = 5'(i + 1);
  endfunction

  logic [4:0] total_bits_q;
  wire [17:0] rest = (18'd1 << total_bits_q) - total_q;
  wire is_rest_wrong = (rest & (rest - 1'b1)) != '0;
  wire is_too_deep = total_bits_q == '0 || total_bits_q > 5'(MaxCodeBits);

  // ---- Code words start with the longest -------------------------------------------------------
  logic [3:0] rank_q;
  logic [MaxCodeBits:0] start_q;
  assign max_bits_o = total_bits_q[3:0];
  code_bound_t bound_q[MaxCodeBits+1];
  assign bound_o = bound_q;
  always_ff @(posedge clk_i) begin
    if (state_q == Clear) begin
      for (int unsigned i = 0; i <= MaxCodeBits; ++i) bound_q[i] <= '0;
    end else if (state_q == Bounds) begin
      bound_q[max_bits_o+4'd1-rank_q] <= start_q << (4'(MaxCodeBits) - max_bits_o);
    end
  end

  assign done_o = state_q == Done;
  always_comb begin
    unique case (state_q)
      Direct: take_o = {1'b0, valid_i};
      Size: take_o = {1'b0, valid_i};
      Counts: take_o = counts_take;
      default: take_o = '0;
    endcase
    error_o = is_weight_wrong || counts_error;
    unique case (state_q)
      Size: if (valid_i && bytes_i[0] == '0) error_o = 1'b1;
      Build: if (table_ready[0] && place_i >= end_q) error_o = 1'b1;
      Decode: if (bits_has_no_mark_i || (steps && has_entry && bits_left_i[21])) error_o = 1'b1;
      Rest: if (is_too_deep || is_rest_wrong) error_o = 1'b1;
      Bounds: if (count_q[1][SymbolsLog2:1] == '0) error_o = 1'b1;
      default: ;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      end_q <= '0;
      weights_left_q <= '0;
      started_q <= '0;
      implied_q <= '0;
      total_bits_q <= '0;
      rank_q <= '0;
      start_q <= '0;
    end else begin
      unique case (state_q)
        Idle: if (begin_i) state_q <= Size;
        Size: begin
          started_q <= '0;
          weights_left_q <= bytes_i[0] - 8'd127;
          if (bytes_i[0][7]) end_q <= place_i + 18'd1 + 18'(bytes_i[0][6:1]) + 18'd1;
          else end_q <= place_i + 18'd1 + 18'(bytes_i[0]);
          if (valid_i) state_q <= bytes_i[0][7] ? Direct : Counts;
        end
        Direct: begin
          if (valid_i) begin
            weights_left_q <= weights_left_q - 8'd2;
            if (weights_left_q <= 8'd2) state_q <= Settle;
          end
        end
        Counts: if (counts_done) state_q <= Build;
        Build: if (table_ready[0]) state_q <= Decode;
        Decode: begin
          if (steps) begin
            if (!has_entry) started_q <= started_q + 1'b1;
            else if (first_runs_out) state_q <= Settle;
            else if (second_runs_out) state_q <= Last;
          end
        end
        Last: state_q <= Settle;
        Settle: state_q <= Total;
        Total: begin
          total_bits_q <= bits_of(total_q);
          state_q <= Rest;
        end
        Rest: begin
          implied_q <= 4'(bits_of(rest));
          state_q <= Implied;
        end
        Implied: state_q <= Clear;
        Clear: begin
          rank_q <= 4'd1;
          start_q <= '0;
          state_q <= Bounds;
        end
        Bounds: begin
          rank_q <= rank_q + 1'b1;
          start_q <= start_q + ((MaxCodeBits + 1)'(count_q[rank_q]) << (rank_q - 4'd1));
          if (rank_q == max_bits_o) state_q <= Done;
        end
        default: state_q <= Idle;
      endcase
      if (cancel_i || error_o) state_q <= Idle;
    end
  end

endmodule
