// Rows of bf16 to DELTA4: ARITHMETIC.md section 2.2. A word of ExactLanes elements per cycle,
// always taken; words come out of the second pass 5 cycles later.
//
// A tensor is two passes over PageTokens rows of words, row after row: the first finds the channel
// exponents, the second encodes. The second may follow the first without a gap. Exceptions are
// picked one per cycle from the words that have some, behind the words: done_o follows the last
// word by at most 24 cycles. done_o, overflow_o and the exceptions hold until the next start.

module nkv_delta4_encode
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  localparam int unsigned CountBits = $clog2(Exceptions + 1)
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,

  input  logic                  start_i,             // Forgets everything; no word in this cycle.
  input  dim_t                  dim_i,               // Held from start_i to done_o.

  input  logic                  word_valid_i,
  input  logic [15:0]           word_i[ExactLanes],  // Zero beyond the row's end.

  output logic                  word_valid_o,
  output word_index_t           word_index_o,        // In its row.
  output exponent_t             exponent_o[ExactLanes],  // x of its channels.
  output logic [7:0]            low_o[ExactLanes],   // Sign and mantissa.
  output logic [3:0]            nibble_o[ExactLanes],

  output logic                  done_o,
  output logic                  overflow_o,          // More than Exceptions; these are the first.
  output logic [CountBits-1:0]  count_o,
  output row_exception_t        exception_o[Exceptions]  // Zero from count_o on.
);

  localparam int unsigned LargestNibble = 15;
  localparam int unsigned RowBits = $clog2(PageTokens);
  localparam int unsigned LaneBits = $clog2(ExactLanes);
  localparam int unsigned QueueBits = $clog2(Exceptions);
  localparam int unsigned Latency = 5;

  typedef logic [RowBits-1:0] row_t;
  typedef logic [ExactLanes-1:0] lanes_t;

  typedef struct packed {
    logic        encodes;  // Second pass.
    logic        last;     // Of the tensor.
    row_t        row;
    word_index_t index;
  } place_t;

  // ---- Places of words --------------------------------------------------------------------------
  place_t next_q;
  word_index_t last_index;
  assign last_index = word_index_t'((dim_i - 1'b1) >> LaneBits);
  wire row_ends = next_q.index == last_index;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      next_q <= '0;
    end else if (start_i) begin
      next_q <= '0;
    end else if (word_valid_i) begin
      next_q.index <= row_ends ? '0 : next_q.index + 1'b1;
      if (row_ends) begin
        next_q.row <= next_q.row + 1'b1;
        if (next_q.row == '1) next_q.encodes <= 1'b1;
      end
    end
  end

  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after word_valid_i.
  place_t place_q[Latency];
  logic [15:0] word_q[Latency][ExactLanes];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (start_i) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], word_valid_i};
  end

  always_ff @(posedge clk_i) begin
    if (word_valid_i) begin
      place_q[0] <= next_q;
      place_q[0].last <= next_q.encodes && next_q.row == '1 && row_ends;
      for (int unsigned i = 0; i < ExactLanes; i++) word_q[0][i] <= word_i[i];
    end
    for (int unsigned k = 1; k < Latency; k++) begin
      if (valid_q[k-1]) begin
        place_q[k] <= place_q[k-1];
        for (int unsigned i = 0; i < ExactLanes; i++) word_q[k][i] <= word_q[k-1][i];
      end
    end
  end

  // ---- Largest exponents ------------------------------------------------------------------------
  exponent_t largest_q[ExactLanes];  // Beside word_q[1]; of the rows so far.

  for (genvar i = 0; i < ExactLanes; i++) begin : gen_largest
    (* ram_style = "distributed" *) exponent_t cells[RowWords];
    exponent_t largest;

    always_comb begin
      automatic exponent_t exponent = word_q[0][i][14:7];
      largest = cells[place_q[0].index];
      if (!place_q[0].encodes) begin
        if (place_q[0].row == '0) largest = '0;
        if (exponent != '1 && exponent > largest) largest = exponent;
      end
    end

    always_ff @(posedge clk_i) begin
      if (valid_q[0]) begin
        if (!place_q[0].encodes) cells[place_q[0].index] <= largest;
        largest_q[i] <= largest;
      end
    end
  end

  // ---- Encoding ---------------------------------------------------------------------------------
  exponent_t channel_q[ExactLanes];  // Beside word_q[2] and word_q[3].
  exponent_t late_channel_q[ExactLanes];
  exponent_t nibble_q[ExactLanes];   // e - x, modulo 256; beside word_q[3].
  lanes_t above_q;                   // e > x.
  lanes_t exceptions_q;              // Beside word_q[4].

  always_ff @(posedge clk_i) begin
    if (valid_q[1]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        channel_q[i] <= largest_q[i] > exponent_t'(LargestNibble)
            ? largest_q[i] - exponent_t'(LargestNibble) : '0;
      end
    end
    if (valid_q[2]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        nibble_q[i] <= word_q[2][i][14:7] - channel_q[i];
        above_q[i] <= word_q[2][i][14:7] > channel_q[i];
        late_channel_q[i] <= channel_q[i];
      end
    end
    if (valid_q[3]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        // An infinity or NaN is more than 15 above any x; a subnormal is above none.
        automatic logic fits = above_q[i] && nibble_q[i][7:4] == '0;
        automatic logic is_zero = word_q[3][i][14:0] == '0;
        exponent_o[i] <= late_channel_q[i];
        nibble_o[i] <= fits ? nibble_q[i][3:0] : '0;
        low_o[i] <= fits || is_zero ? {word_q[3][i][15], word_q[3][i][6:0]} : '0;
        exceptions_q[i] <= !fits && !is_zero;
      end
    end
  end

  assign word_valid_o = valid_q[4] && place_q[4].encodes;
  assign word_index_o = place_q[4].index;

  // ---- Exceptions -------------------------------------------------------------------------------
  // Words that have some wait here. One more than Exceptions of them is an overflow, so that the
  // queue need not be longer; what comes after an overflow does not matter.
  logic [15:0] queue_words[Exceptions][ExactLanes];
  (* ram_style = "distributed" *) lanes_t queue_lanes[Exceptions];
  (* ram_style = "distributed" *) logic [RowBits+WordBits-1:0] queue_places[Exceptions];
  logic [QueueBits:0] write_q, read_q;
  logic picking_q, ended_q, overflow_q, done_q;
  lanes_t rest_q;                  // Exceptions of the word under way.
  logic [15:0] bits_q[ExactLanes];
  row_t row_q;
  word_index_t index_q;
  logic [CountBits-1:0] count_q;

  wire arrives = word_valid_o && exceptions_q != '0;
  wire full = write_q[QueueBits];  // From the start, not from the last read.
  wire queue_empty = write_q == read_q;
  wire lanes_t others = rest_q & (rest_q - 1'b1);
  wire loads = !queue_empty && (!picking_q || others == '0);

  function automatic logic [LaneBits-1:0] lowest(lanes_t lanes);
    for (int unsigned i = 0; i < ExactLanes; i++) if (lanes[i]) return LaneBits'(i);
    return '0;
  endfunction

  wire [LaneBits-1:0] lane = lowest(rest_q);
  // Channels of the rows above, and those before it in its own.
  wire [15:0] element = 16'(row_q) * 16'(dim_i) + 16'({index_q, lane});

  always_ff @(posedge clk_i) begin
    if (arrives && !full) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        queue_words[write_q[QueueBits-1:0]][i] <= word_q[4][i];
      end
      queue_lanes[write_q[QueueBits-1:0]] <= exceptions_q;
      queue_places[write_q[QueueBits-1:0]] <= {place_q[4].row, place_q[4].index};
    end
    if (loads) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        bits_q[i] <= queue_words[read_q[QueueBits-1:0]][i];
      end
      {row_q, index_q} <= queue_places[read_q[QueueBits-1:0]];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {write_q, read_q, count_q, rest_q} <= '0;
      {picking_q, ended_q, overflow_q, done_q} <= '0;
    end else if (start_i) begin
      {write_q, read_q, count_q, rest_q} <= '0;
      {picking_q, ended_q, overflow_q, done_q} <= '0;
    end else begin
      if (arrives && !full) write_q <= write_q + 1'b1;
      if (arrives && full) overflow_q <= 1'b1;
      if (picking_q) begin
        if (count_q == CountBits'(Exceptions)) overflow_q <= 1'b1;
        else count_q <= count_q + 1'b1;
        rest_q <= others;
        picking_q <= others != '0;
      end
      if (loads) begin
        read_q <= read_q + 1'b1;
        rest_q <= queue_lanes[read_q[QueueBits-1:0]];
        picking_q <= 1'b1;
      end
      if (word_valid_o && place_q[4].last) ended_q <= 1'b1;
      done_q <= ended_q && (overflow_q || (queue_empty && !picking_q));
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i < Exceptions; i++) exception_o[i] <= '0;
    end else if (start_i) begin
      for (int unsigned i = 0; i < Exceptions; i++) exception_o[i] <= '0;
    end else if (picking_q && count_q != CountBits'(Exceptions)) begin
      exception_o[count_q[QueueBits-1:0]] <= '{element: element, bits: bits_q[lane]};
    end
  end

  assign done_o = done_q;
  assign overflow_o = overflow_q;
  assign count_o = count_q;

endmodule
