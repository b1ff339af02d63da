// Stored rows to their elements, 32 channels per cycle: patterns of the rows' type, those of DELTA4 as
// bf16, in which what it could not hold is a zero.
//
// A row comes as its description and its bursts; rows come out in order, word by word. A word
// starts in a cycle with issue_i (the credit of whoever takes words) if a row is complete, and is
// at the output 3 cycles later. A burst is taken per cycle: RAW bf16 of 128 channels gives a word
// per burst, DELTA4 four words per three bursts. Channels from used_dim on are zero.
//
// The channel exponents of DELTA4 are loaded before, into one of two banks; a row says which.

module nkv_row_elements
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  parameter int unsigned TagBits = 8
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,             // Forgets all rows.

  input  row_format_t        format_i,            // Held while not idle_o, and in the cycle before.

  input  logic               exponents_valid_i,   // A burst of K_EXPONENTS or V_EXPONENTS.
  input  logic               exponents_bank_i,
  input  logic               exponents_burst_i,   // Which one.
  input  burst_t             exponents_i,

  input  logic               row_valid_i,
  output logic               row_ready_o,
  input  logic [TagBits-1:0] row_tag_i,
  input  logic               row_last_i,          // Of the pass; comes out with its last word.
  input  logic               row_bank_i,
  input  logic [2:0]         row_start_i,         // Where in its first burst, in 8 bytes.
  input  logic               row_shared_i,        // That burst came with the row before.

  input  logic               burst_valid_i,
  output logic               burst_ready_o,
  input  burst_t             burst_i,

  input  logic               issue_i,
  output logic               wants_o,             // A row is complete.
  output logic               issued_last_o,       // In this cycle a row's last word starts.
  output logic               word_valid_o,
  output logic [TagBits-1:0] word_tag_o,
  output word_index_t        word_index_o,
  output logic               word_last_o,         // Of its row.
  output logic               word_pass_last_o,    // Of the pass.
  output logic [15:0]        word_o[ExactLanes],
  output logic               idle_o
);

  localparam int unsigned Banks = 8;
  localparam int unsigned Latency = 3;
  localparam int unsigned MaxBytes = 2 * Channels;

  typedef struct packed {
    logic [TagBits-1:0] tag;
    logic               pass_last;
    logic               last;
    word_index_t        index;
  } side_t;

  // ---- Rows side by side ------------------------------------------------------------------------
  // Of the format, and a cycle behind it.
  logic is_delta4_q, is_wide_q;
  logic [5:0] granules_q;
  logic [3:0] stored_chunks_q;
  word_index_t last_index_q;
  logic stored_valid, stored_last, stored_bank, start, row_ends, buffer_idle;
  logic [TagBits-1:0] stored_tag;
  word_index_t next_q;
  logic [3:0] nibble_pair;  // Of granules, from the row's start: 32 nibbles.
  logic [1:0] first_place;
  logic [63:0] first[Banks];
  logic [63:0] second[Banks];

  always_ff @(posedge clk_i) begin
    is_delta4_q <= format_i.form == RowFormDelta4;
    is_wide_q <= format_i.form != RowFormDelta4 &&
                 (format_i.dtype == DtypeBf16 || format_i.dtype == DtypeFp16);
    stored_chunks_q <= format_i.stored_dim[7:4];
    last_index_q <= word_index_t'((format_i.used_dim - 1'b1) >> $clog2(ExactLanes));
    granules_q <= row_granules(format_i.form, format_i.dtype, format_i.stored_dim);
  end

  assign start = issue_i && stored_valid;
  assign row_ends = start && next_q == last_index_q;
  assign issued_last_o = row_ends;
  assign wants_o = stored_valid;
  assign first_place = is_wide_q ? next_q : 2'(next_q[1]);
  assign nibble_pair = stored_chunks_q + 4'(next_q);

  nkv_row_buffer #(
    .TagBits (TagBits + 2),
    .MaxBytes(MaxBytes)
  ) u_buffer (
    .clk_i,
    .rst_ni,
    .clear_i,
    .granules_i   (granules_q),
    .row_valid_i,
    .row_ready_o,
    .row_start_i,
    .row_shared_i,
    .row_tag_i    ({row_tag_i, row_last_i, row_bank_i}),
    .burst_valid_i,
    .burst_ready_o,
    .burst_i,
    .row_valid_o  (stored_valid),
    .row_pop_i    (row_ends),
    .row_tag_o    ({stored_tag, stored_last, stored_bank}),
    .idle_o       (buffer_idle),
    .read_i       (start),
    .read_first_i (first_place),
    .read_second_i(nibble_pair[3:2]),
    .first_o      (first),
    .second_o     (second)
  );

  // ---- Channel exponents ------------------------------------------------------------------------
  logic [63:0] exponents[Banks];

  for (genvar b = 0; b < Banks; b++) begin : gen_exponents
    (* ram_style = "distributed" *) logic [63:0] cells[4];
    always_ff @(posedge clk_i) begin
      if (exponents_valid_i) begin
        cells[{exponents_bank_i, exponents_burst_i}] <= exponents_i[64*b+:64];
      end
      if (start) exponents[b] <= cells[{stored_bank, next_q[1]}];
    end
  end

  // ---- What goes along --------------------------------------------------------------------------
  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after the start.
  side_t side_q[Latency];

  always_ff @(posedge clk_i) begin
    if (start) begin
      side_q[0] <= '{tag: stored_tag, pass_last: stored_last && row_ends, last: row_ends,
                     index: next_q};
    end
    for (int unsigned i = 1; i < Latency; i++) if (valid_q[i-1]) side_q[i] <= side_q[i-1];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      next_q <= '0;
    end else if (clear_i) begin
      valid_q <= '0;
      next_q <= '0;
    end else begin
      valid_q <= {valid_q[Latency-2:0], start};
      if (start) next_q <= row_ends ? '0 : next_q + 1'b1;
    end
  end

  assign idle_o = buffer_idle && valid_q == '0;
  assign word_valid_o = valid_q[Latency-1];
  assign word_tag_o = side_q[Latency-1].tag;
  assign word_pass_last_o = side_q[Latency-1].pass_last;
  assign word_last_o = side_q[Latency-1].last;
  assign word_index_o = side_q[Latency-1].index;

  // ---- Elements of a word, and DELTA4's as bf16 -------------------------------------------------
  logic [1:0] pair_q;
  logic [15:0] raw_q[ExactLanes];      // The element, or DELTA4's sign and mantissa.
  logic [3:0] nibble_q[ExactLanes];
  exponent_t channel_q[ExactLanes];
  logic hidden_q;                      // The word's second half.

  function automatic logic [15:0] delta4_pattern(logic [7:0] low, logic [3:0] nibble,
                                                 exponent_t channel);
    logic [8:0] sum = 9'(channel) + 9'(nibble);
    exponent_t exponent = sum[8] ? '1 : sum[7:0];
    return nibble == '0 ? {low[7], 15'd0} : {low[7], exponent, low[6:0]};
  endfunction

  always_ff @(posedge clk_i) begin
    if (start) pair_q <= nibble_pair[1:0];
    if (valid_q[0]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        automatic logic [2:0] bank = {side_q[0].index[0], 2'(i / 8)};
        raw_q[i] <= is_wide_q ? first[3'(i/4)][16*(i%4)+:16]
                                            : 16'(first[bank][8*(i%8)+:8]);
        nibble_q[i] <= second[{pair_q, 1'(i / 16)}][4*(i%16)+:4];
        channel_q[i] <= exponents[bank][8*(i%8)+:8];
      end
      // used_dim is an odd number of chunks and this is its last one.
      hidden_q <= format_i.used_dim[4] && side_q[0].last;
    end
    if (valid_q[1]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        word_o[i] <= is_delta4_q
            ? delta4_pattern(raw_q[i][7:0], nibble_q[i], channel_q[i]) : raw_q[i];
        if (hidden_q && i >= ChunkChannels) word_o[i] <= '0;
      end
    end
  end

  // What its elements are read as is decided elsewhere.
  wire unused_format = ^{format_i.values, format_i.list_exponent};

endmodule
