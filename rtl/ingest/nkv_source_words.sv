// Bursts of source rows to words of ExactLanes elements: rows begin at any byte and are any
// distance apart, and come in the order of nkv_source_fetch. A word 3 cycles after its last burst;
// every row takes as many cycles as it has bursts or words, whichever are more, and one more where
// its last word lies in two bursts.
//
// Each tensor of a page waits for its taker (free_i), who is told with begin_o and then takes all
// its words. While drop_i is high bursts are thrown away.

module nkv_source_words
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,

  input  logic            start_i,
  input  append_command_t command_i,       // Checked; held from start_i on.
  input  logic            drop_i,

  input  logic            beat_valid_i,    // Beats for SinkRows.
  output logic            beat_ready_o,
  input  read_beat_t      beat_i,
  output logic            poisoned_o,      // For one cycle: a row's data are not to be used.
  output page_index_t     page_o,          // Of the burst that is taken, counted from start_i.

  input  logic            values_free_i,
  output logic            values_begin_o,
  output logic            values_valid_o,
  input  logic            keys_free_i,
  output logic            keys_begin_o,
  output logic            keys_valid_o,
  output element_t        word_o[ExactLanes],  // Zero beyond the row's end.
  output logic            scale_valid_o,
  output token_t          scale_row_o,
  output logic [31:0]     scale_o
);

  localparam int unsigned Words = BurstBytes / 4;
  localparam int unsigned PairBits = $clog2(2 * Words);
  typedef logic [$clog2(BurstBytes)-1:0] byte_t;
  typedef logic [ChunkBits:0] chunks_t;
  localparam chunks_t WordChunks = chunks_t'(ExactLanes / ChunkChannels);

  typedef struct packed {
    logic   valid;
    logic   keys;
    logic   scale;
    token_t row;
    logic   half;  // Only the first half of the word is the row's.
  } piece_t;

  // ---- Rows and their pieces: words, then the scale ----
  logic        active_q, in_tensor_q, keys_q, held_q;
  token_t      row_q;
  page_index_t page_q;
  chunks_t     left_q;              // Of the row, before this piece; 0 means the scale.
  byte_t       at_q;                // Of the piece, in the burst that is held.
  byte_t       key_at_q, value_at_q;  // Of the row under way, or of the tensor's next.
  burst_t      held_data_q;

  wire wide = element_bytes(command_i.dtype) == 32'd2;
  wire has_values = command_i.v_form != RowFormNone;
  wire has_scale = keys_q && command_i.flags[AppendFlagKeyScales];
  wire chunks_t key_chunks = chunks_t'(command_i.head_dim / 16'(ChunkChannels));
  wire chunks_t value_chunks = chunks_t'(command_i.value_dim / 16'(ChunkChannels));

  wire is_scale = left_q == '0;
  wire is_half = left_q == chunks_t'(1);
  wire [6:0] piece_bytes =
      is_scale ? 7'd4 : 7'(ExactLanes) << wide >> is_half;
  wire [7:0] piece_end = 8'(at_q) + 8'(piece_bytes);
  wire spans = piece_end > 8'(BurstBytes);
  wire exhausts = piece_end == 8'(BurstBytes);
  wire row_ends = is_scale || (left_q <= WordChunks && !has_scale);
  wire moves = in_tensor_q && held_q && (!spans || beat_valid_i);
  wire tensor_ends = moves && row_ends && row_q == '1;
  wire takes = beat_valid_i && beat_ready_o;

  wire byte_t next_key_at = key_at_q + byte_t'(command_i.key_stride);
  wire byte_t next_value_at = value_at_q + byte_t'(command_i.value_stride);

  assign beat_ready_o = drop_i || !held_q || (moves && (spans || exhausts || row_ends));
  assign poisoned_o = takes && (beat_i.poison || beat_i.fault) && active_q && !drop_i;
  assign page_o = page_q + page_index_t'(tensor_ends && keys_q && !spans);
  assign values_begin_o = active_q && !in_tensor_q && !keys_q && values_free_i;
  assign keys_begin_o = active_q && !in_tensor_q && keys_q && keys_free_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {active_q, in_tensor_q, keys_q, held_q, row_q, page_q, left_q} <= '0;
      {at_q, key_at_q, value_at_q} <= '0;
    end else if (clear_i || drop_i) begin
      active_q <= 1'b0;
      in_tensor_q <= 1'b0;
      held_q <= 1'b0;
    end else if (start_i) begin
      active_q <= 1'b1;
      in_tensor_q <= 1'b0;
      keys_q <= !has_values;
      held_q <= 1'b0;
      row_q <= '0;
      page_q <= '0;
      key_at_q <= byte_t'(command_i.keys);
      value_at_q <= byte_t'(command_i.values);
    end else begin
      if (values_begin_o || keys_begin_o) begin
        in_tensor_q <= 1'b1;
        left_q <= keys_q ? key_chunks : value_chunks;
        at_q <= keys_q ? key_at_q : value_at_q;
      end
      if (takes) held_q <= !(moves && spans && row_ends);
      else if (moves && (exhausts || row_ends)) held_q <= 1'b0;
      if (moves) begin
        at_q <= byte_t'(piece_end);
        left_q <= is_half || is_scale ? '0 : left_q - WordChunks;
        if (row_ends) begin
          row_q <= row_q + 1'b1;
          left_q <= keys_q ? key_chunks : value_chunks;
          at_q <= keys_q ? next_key_at : next_value_at;
          if (keys_q) key_at_q <= next_key_at;
          else value_at_q <= next_value_at;
        end
      end
      if (tensor_ends) begin
        in_tensor_q <= 1'b0;
        keys_q <= !has_values || !keys_q;
        if (keys_q) page_q <= page_q + 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (takes) held_data_q <= beat_i.data;
  end

  // ---- A piece out of two bursts: by words, then by bytes ----
  piece_t      piece_q[3];  // [i]: i + 1 cycles after the piece.
  logic [31:0] pair[2*Words];
  logic [31:0] coarse_q[Words+1];
  logic [1:0]  fine_q;
  logic [31:0] piece_data_q[Words];

  always_comb begin
    for (int unsigned i = 0; i < Words; i++) begin
      pair[i] = held_data_q[32*i+:32];
      pair[Words+i] = beat_i.data[32*i+:32];
    end
  end

  always_ff @(posedge clk_i) begin
    if (moves) begin
      for (int unsigned i = 0; i <= Words; i++) begin
        coarse_q[i] <= pair[PairBits'(i)+PairBits'(at_q[5:2])];
      end
      fine_q <= at_q[1:0];
    end
    if (piece_q[0].valid) begin
      for (int unsigned i = 0; i < Words; i++) begin
        piece_data_q[i] <= 32'({coarse_q[i+1], coarse_q[i]} >> {fine_q, 3'd0});
      end
    end
    if (piece_q[1].valid) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        word_o[i] <= wide ? piece_data_q[i/2][16*(i%2)+:16]
                          : element_t'(piece_data_q[i/4][8*(i%4)+:8]);
        if (piece_q[1].half && i >= ChunkChannels) word_o[i] <= '0;
      end
      scale_o <= piece_data_q[0];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int unsigned k = 0; k < 3; k++) piece_q[k] <= '0;
    end else if (clear_i || drop_i || start_i) begin
      for (int unsigned k = 0; k < 3; k++) piece_q[k] <= '0;
    end else begin
      piece_q[0] <= '{valid: moves, keys: keys_q, scale: is_scale, row: row_q, half: is_half};
      for (int unsigned k = 1; k < 3; k++) piece_q[k] <= piece_q[k-1];
    end
  end

  assign values_valid_o = piece_q[2].valid && !piece_q[2].keys;
  assign keys_valid_o = piece_q[2].valid && piece_q[2].keys && !piece_q[2].scale;
  assign scale_valid_o = piece_q[2].valid && piece_q[2].scale;
  assign scale_row_o = piece_q[2].row;

  wire unused = ^{command_i, beat_i.first, beat_i.last, beat_i.tag,
                  piece_q[2].half};

endmodule
