// One tensor of a page under construction: keeps its source rows, which come once, and gives them
// out on demand as they are stored, RAW or DELTA4, in bursts. A word per cycle both times; DELTA4's
// nibbles take one more per row.
//
// begin_i starts a tensor. Once its last word has come, replay_i lets rows go out while there is
// room for their bursts.

`include "nkv_assert.svh"

module nkv_tensor_rows
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
#(
  localparam int unsigned CountBits = $clog2(Exceptions + 1)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,

  input  row_form_e            form_i,           // All held from begin_i to release_i.
  input  dtype_e               dtype_i,
  input  dim_t                 dim_i,
  output logic                 free_o,
  input  logic                 begin_i,          // While free.
  input  logic                 release_i,        // What is kept is not needed any more, unless
  input  logic                 hold_i,           // someone else still reads it.
  output logic                 kept_o,           // All its rows are, and can be read:
  input  logic                 also_read_i,      // a word, in the next cycle.
  input  token_t               also_row_i,
  input  word_index_t          also_index_i,
  output element_t             also_word_o[ExactLanes],

  input  logic                 word_valid_i,
  input  element_t             word_i[ExactLanes],
  input  logic                 replay_i,

  output logic                 burst_valid_o,
  input  logic                 burst_ready_i,
  output burst_t               burst_o,

  // DELTA4's other arrays. Exponents are there once the last burst of the rows is.
  output exponent_t            channel_exponent_o[Channels],
  output logic                 encoded_o,
  output logic                 overflow_o,
  output logic [CountBits-1:0] exception_count_o,
  output row_exception_t       exception_o[Exceptions]
);

  localparam int unsigned Bursts = 16;     // That wait for memory,
  localparam int unsigned UnderWay = 8;    // and that a word may become after it was read.

  typedef struct packed {
    token_t      row;
    word_index_t index;
  } place_t;

  typedef enum logic [2:0] {
    StFree,
    StFill,
    StReplay,
    StReplayed,
    StHeld       // Released, but not by all.
  } state_e;

  state_e state_q;
  place_t place_q;  // Of the next word, which comes or goes out again.
  logic   gap_q;    // A cycle for a row's nibbles.

  wire is_delta4 = form_i == RowFormDelta4;
  wire wide = element_bytes(dtype_i) == 32'd2;
  wire word_index_t last_index = word_index_t'((dim_i - 1'b1) >> $clog2(ExactLanes));
  wire last_is_half = dim_i[$clog2(ChunkChannels)];
  wire row_ends = place_q.index == last_index;
  wire tensor_ends = row_ends && place_q.row == '1;

  logic [$clog2(Bursts):0] waiting;
  wire has_room = waiting < ($clog2(Bursts) + 1)'(Bursts - UnderWay);
  wire read = state_q == StReplay && replay_i && has_room && !gap_q;

  assign free_o = state_q == StFree;
  assign kept_o = state_q inside {StReplay, StReplayed, StHeld};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, place_q, gap_q} <= '0;
    end else if (clear_i) begin
      {state_q, place_q, gap_q} <= '0;
    end else begin
      gap_q <= read && row_ends && is_delta4;
      if (word_valid_i || read) begin
        place_q.index <= row_ends ? '0 : place_q.index + 1'b1;
        if (row_ends) place_q.row <= place_q.row + 1'b1;
      end
      unique case (state_q)
        StFree: if (begin_i) state_q <= StFill;
        StFill: if (word_valid_i && tensor_ends) state_q <= StReplay;
        StReplay: if (read && tensor_ends) state_q <= StReplayed;
        StReplayed: if (release_i) state_q <= hold_i ? StHeld : StFree;
        default: if (!hold_i) state_q <= StFree;
      endcase
    end
  end

  // ---- The rows ----
  (* ram_style = "block" *) burst_t memory[PageTokens*RowWords];
  burst_t word_packed, read_word_q, also_word_q;
  logic   read_valid_q;
  word_index_t read_index_q;
  element_t again[ExactLanes];

  for (genvar i = 0; i < ExactLanes; i++) begin : gen_lanes
    assign word_packed[16*i+:16] = word_i[i];
    assign again[i] = read_word_q[16*i+:16];
    assign also_word_o[i] = also_word_q[16*i+:16];
  end

  always_ff @(posedge clk_i) begin
    if (word_valid_i) memory[place_q] <= word_packed;
    if (read) begin
      read_word_q <= memory[place_q];
      read_index_q <= place_q.index;
    end
    if (also_read_i) also_word_q <= memory[{also_row_i, also_index_i}];
  end

  // ---- DELTA4 ----
  logic        encoded_valid, nibbles_due_q;
  word_index_t encoded_index;
  exponent_t   encoded_exponent[ExactLanes];
  logic [7:0]  low[ExactLanes];
  logic [3:0]  nibble[ExactLanes];
  logic [3:0]  nibble_q[Channels];

  element_t    passing[ExactLanes];  // The first time or the second.
  for (genvar i = 0; i < ExactLanes; i++) begin : gen_passing
    assign passing[i] = read_valid_q ? again[i] : word_i[i];
  end

  nkv_delta4_encode u_encode (
    .clk_i,
    .rst_ni,
    .start_i     (begin_i || clear_i),
    .dim_i,
    .word_valid_i(is_delta4 && (word_valid_i || read_valid_q)),
    .word_i      (passing),
    .word_valid_o(encoded_valid),
    .word_index_o(encoded_index),
    .exponent_o  (encoded_exponent),
    .low_o       (low),
    .nibble_o    (nibble),
    .done_o      (encoded_o),
    .overflow_o,
    .count_o     (exception_count_o),
    .exception_o
  );

  always_ff @(posedge clk_i) begin
    if (encoded_valid) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        channel_exponent_o[{encoded_index, ($clog2(ExactLanes))'(i)}] <= encoded_exponent[i];
        nibble_q[{encoded_index, ($clog2(ExactLanes))'(i)}] <= nibble[i];
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {read_valid_q, nibbles_due_q} <= '0;
    else if (clear_i) {read_valid_q, nibbles_due_q} <= '0;
    else {read_valid_q, nibbles_due_q} <= {read, encoded_valid && encoded_index == last_index};
  end

  // ---- Stored rows ----
  logic           piece_valid, packed_valid, bursts_room;
  granule_count_t piece_granules;
  granule_t       piece[BurstGranules];
  granule_t       packed_granule[BurstGranules];
  burst_t         packed_burst;
  wire read_is_half = read_index_q == last_index && last_is_half;
  wire encoded_is_half = encoded_index == last_index && last_is_half;

  always_comb begin
    piece_valid = nibbles_due_q || (is_delta4 ? encoded_valid : read_valid_q);
    for (int unsigned i = 0; i < BurstGranules; i++) begin
      piece[i] = '0;
      for (int unsigned b = 0; b < GranuleBytes; b++) begin
        automatic int unsigned at = GranuleBytes * i + b;
        if (nibbles_due_q) piece[i][8*b+:8] = {nibble_q[2*at+1], nibble_q[2*at]};
        else if (is_delta4) piece[i][8*b+:8] = at < ExactLanes ? low[at % ExactLanes] : '0;
        else if (wide) piece[i][8*b+:8] = 8'(again[at/2] >> (8 * (at % 2)));
        else piece[i][8*b+:8] = at < ExactLanes ? again[at % ExactLanes][7:0] : '0;
      end
    end
    if (nibbles_due_q) piece_granules = granule_count_t'(dim_i >> 4);
    else if (is_delta4) piece_granules = encoded_is_half ? 4'd2 : 4'd4;
    else piece_granules = 4'd4 << wide >> read_is_half;
  end

  nkv_granule_pack #(
    .GranuleBits(8 * GranuleBytes),
    .Granules(BurstGranules)
  ) u_pack (
    .clk_i,
    .rst_ni,
    .clear_i  (clear_i || begin_i),
    .valid_i  (piece_valid),
    .count_i  (piece_granules),
    .granule_i(piece),
    .valid_o  (packed_valid),
    .granule_o(packed_granule)
  );

  always_comb begin
    for (int unsigned i = 0; i < BurstGranules; i++) begin
      packed_burst[8*GranuleBytes*i+:8*GranuleBytes] = packed_granule[i];
    end
  end

  nkv_fifo #(
    .T(burst_t),
    .Depth(Bursts)
  ) u_bursts (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (packed_valid),
    .in_ready_o (bursts_room),
    .in_data_i  (packed_burst),
    .out_valid_o(burst_valid_o),
    .out_ready_i(burst_ready_i),
    .out_data_o (burst_o),
    .used_o     (waiting)
  );

  `NKV_ASSERT_STAYS(BurstStays_A, burst_valid_o, burst_ready_i, burst_o, clear_i)
  `NKV_ASSERT_ROOM(BurstsHaveRoom_A, packed_valid, bursts_room)

endmodule
