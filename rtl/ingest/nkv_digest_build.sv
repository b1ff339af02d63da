// The digest of a page's keys and their codes: ARITHMETIC.md section 2.1. A word of ExactLanes
// decoded keys per cycle, always taken.
//
// A page is two passes over PageTokens rows of words, row after row. After the first one the steps
// are sought, a channel per cycle: replay_o is high from at most 32 * words + 25 cycles after its
// last word on, words being those of a row, and the second pass must wait for it. The digest comes
// out, word by word, before replay_o; codes come out of the second pass 8 cycles later. What is
// said of the page holds from replay_o to the next start.

module nkv_digest_build
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,

  input  logic                  start_i,      // Forgets everything; no word in this cycle.
  input  dim_t                  dim_i,        // Held from start_i to the last code.

  // Numbers of any type but fp32; zero beyond the row's end.
  input  logic                  word_valid_i,
  input  logic [ExactLanes-1:0] negative_i,
  input  logic [ExactLanes-1:0] finite_i,
  input  exponent_t             exponent_i[ExactLanes],
  input  significand_t          significand_i[ExactLanes],

  output logic                  replay_o,

  output logic                  digest_valid_o,
  output word_index_t           digest_index_o,
  output logic [15:0]           digest_o[ExactLanes],

  output logic                  codes_valid_o,
  output word_index_t           codes_index_o,
  output logic                  codes_last_o,       // Of the page.
  output logic [7:0]            code_o[ExactLanes],
  output logic [ExactLanes-1:0] plane_o[KeyPlanes], // Four bytes of each plane.

  output logic signed [15:0]    k_step_exponent_o,
  output exponent_t             k_exponent_o,
  output token_mask_t           nonfinite_o
);

  localparam int unsigned LaneBits = $clog2(ExactLanes);
  localparam int unsigned FeedLatency = 5;
  // k_step_exponent of a page of zeros, as a step_t.
  localparam step_t NoStep = step_t'(int'(StepOffset) - 127);

  typedef logic [LaneBits-1:0] lane_t;

  typedef enum logic [1:0] {
    StMeasure,  // First pass.
    StSeek,     // Channels to nkv_digest_step.
    StPlace,    // Least keys to nkv_cell_indices: bases.
    StCode      // Second pass.
  } state_e;

  typedef struct packed {
    logic [TokenBits-1:0] row;
    word_index_t          index;
  } place_t;

  typedef struct packed {
    logic        last;
    word_index_t index;
  } tag_t;

  state_e state_q;
  place_t next_q;  // Of the word to come.
  word_index_t last_index;
  assign last_index = word_index_t'((dim_i - 1'b1) >> LaneBits);
  wire row_ends = next_q.index == last_index;

  // ---- Words ------------------------------------------------------------------------------------
  logic word_valid_q, word_broken_q, word_last_q;
  place_t word_place_q;
  key_number_t word_q[ExactLanes];

  always_ff @(posedge clk_i) begin
    if (word_valid_i) begin
      word_place_q <= next_q;
      word_last_q <= row_ends && next_q.row == '1;
      word_broken_q <= finite_i != '1;
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        word_q[i] <= '{
            negative: negative_i[i] && exponent_i[i] != '0,
            exponent: exponent_i[i],
            fraction: significand_i[i][SignificandBits-2-:ElementBits-1]
        };
      end
    end
  end

  wire measures = word_valid_q && state_q == StMeasure;
  wire codes = word_valid_q && state_q == StCode;

  // ---- Channels: least and greatest key, cells, base --------------------------------------------
  word_index_t seek_index_q, place_index_q, found_index_q, read_index;
  lane_t seek_lane_q, picked_lane_q, found_lane_q;
  logic seeking_q, picked_valid_q, placing_q;
  cells_t found;
  exponent_t found_largest;
  logic found_valid;
  step_t coarsest_q, finest;
  logic any_q;

  order_t low_read[ExactLanes];
  order_t high_read[ExactLanes];
  cells_t cells_read[ExactLanes];

  always_comb begin
    if (seeking_q) read_index = seek_index_q;
    else if (placing_q) read_index = place_index_q;
    else read_index = word_place_q.index;
  end

  for (genvar i = 0; i < ExactLanes; i++) begin : gen_channels
    (* ram_style = "distributed" *) order_t low_cells[RowWords];
    (* ram_style = "distributed" *) order_t high_cells[RowWords];
    (* ram_style = "distributed" *) cells_t step_cells[RowWords];

    wire order_t order = order_of(word_q[i]);
    wire is_first = word_place_q.row == '0;

    assign low_read[i] = low_cells[read_index];
    assign high_read[i] = high_cells[read_index];
    assign cells_read[i] = step_cells[read_index];

    always_ff @(posedge clk_i) begin
      if (measures && (is_first || order < low_read[i])) low_cells[word_place_q.index] <= order;
      if (measures && (is_first || order > high_read[i])) high_cells[word_place_q.index] <= order;
      if (found_valid && found_lane_q == lane_t'(i)) step_cells[found_index_q] <= found;
    end
  end

  // ---- Steps, channel by channel ----------------------------------------------------------------
  order_t low_row_q[ExactLanes];
  order_t high_row_q[ExactLanes];
  wire seek_ends = seek_lane_q == '1 && seek_index_q == last_index;
  wire found_ends = found_lane_q == '1 && found_index_q == last_index;

  always_ff @(posedge clk_i) begin
    if (seeking_q) begin
      picked_lane_q <= seek_lane_q;
      if (seek_lane_q == '0) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          low_row_q[i] <= low_read[i];
          high_row_q[i] <= high_read[i];
        end
      end
    end
  end

  nkv_digest_step u_step (
    .clk_i,
    .rst_ni,
    .clear_i  (start_i),
    .valid_i  (picked_valid_q),
    .low_i    (key_of(low_row_q[picked_lane_q])),
    .high_i   (key_of(high_row_q[picked_lane_q])),
    .valid_o  (found_valid),
    .cells_o  (found),
    .largest_o(found_largest)
  );

  assign finest = coarsest_q - step_t'(LargestDelta);

  // ---- Cell indices: of the least keys, then of all ---------------------------------------------
  logic feed_valid_q, index_valid;
  key_number_t feed_q[ExactLanes];
  cells_t feed_cells_q[ExactLanes];
  cell_index_t index[ExactLanes];
  tag_t feed_tag_q;
  tag_t tag_q[FeedLatency];
  wire tag_t index_tag = tag_q[FeedLatency-1];

  always_ff @(posedge clk_i) begin
    if (placing_q || codes) begin
      feed_tag_q <= placing_q ? '{last: place_index_q == last_index, index: place_index_q}
                              : '{last: word_last_q, index: word_place_q.index};
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        feed_q[i] <= placing_q ? key_of(low_read[i]) : word_q[i];
        feed_cells_q[i] <= cells_read[i];
      end
    end
    tag_q[0] <= feed_tag_q;
    for (int unsigned k = 1; k < FeedLatency; k++) tag_q[k] <= tag_q[k-1];
  end

  nkv_cell_indices u_indices (
    .clk_i,
    .rst_ni,
    .clear_i (start_i),
    .finest_i(finest),
    .valid_i (feed_valid_q),
    .key_i   (feed_q),
    .cells_i (feed_cells_q),
    .valid_o (index_valid),
    .index_o (index)
  );

  // What a digest word says beside the base waits until that is known.
  for (genvar i = 0; i < ExactLanes; i++) begin : gen_digest
    (* ram_style = "distributed" *) logic [7:0] delta_cells[RowWords];  // delta, m - 8
    (* ram_style = "distributed" *) logic [5:0] base_cells[RowWords];   // As codes need.
    wire is_fine = !feed_cells_q[i].exists || feed_cells_q[i].step < finest;
    wire [4:0] delta = 5'(coarsest_q - feed_cells_q[i].step);
    wire [7:0] base = index[i][9:2];
    wire [5:0] base_read = base_cells[index_tag.index];
    wire [7:0] code = index[i][7:0] - {base_read, 2'd0};

    always_ff @(posedge clk_i) begin
      if (feed_valid_q && state_q == StPlace) begin
        delta_cells[feed_tag_q.index] <= is_fine ? {5'(LargestDelta), 3'd0}
                                                 : {delta, feed_cells_q[i].multiplier};
      end
      if (index_valid && state_q == StPlace) begin
        base_cells[index_tag.index] <= base[5:0];
        digest_o[i] <= {delta_cells[index_tag.index], base};
      end
      if (index_valid && state_q == StCode) begin
        code_o[i] <= code;
        for (int unsigned p = 0; p < KeyPlanes; p++) plane_o[p][i] <= code[7-p];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    digest_index_o <= index_tag.index;
    codes_index_o <= index_tag.index;
    codes_last_o <= index_tag.last;
  end

  // ---- Order of things --------------------------------------------------------------------------
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, next_q, word_valid_q, seeking_q, picked_valid_q, placing_q, feed_valid_q} <= '0;
      {seek_index_q, seek_lane_q, found_index_q, found_lane_q, place_index_q} <= '0;
      {digest_valid_o, codes_valid_o, any_q, k_exponent_o, nonfinite_o} <= '0;
      coarsest_q <= NoStep;
    end else if (start_i) begin
      {state_q, next_q, word_valid_q, seeking_q, picked_valid_q, placing_q, feed_valid_q} <= '0;
      {seek_index_q, seek_lane_q, found_index_q, found_lane_q, place_index_q} <= '0;
      {digest_valid_o, codes_valid_o, any_q, k_exponent_o, nonfinite_o} <= '0;
      coarsest_q <= NoStep;
    end else begin
      word_valid_q <= word_valid_i;
      if (word_valid_i) begin
        next_q.index <= row_ends ? '0 : next_q.index + 1'b1;
        if (row_ends) next_q.row <= next_q.row + 1'b1;
      end
      if (measures && word_broken_q) nonfinite_o[word_place_q.row] <= 1'b1;
      if (measures && word_last_q) begin
        state_q <= StSeek;
        seeking_q <= 1'b1;
      end
      if (seeking_q) begin
        {seek_index_q, seek_lane_q} <= {seek_index_q, seek_lane_q} + 1'b1;
        if (seek_ends) seeking_q <= 1'b0;
      end
      picked_valid_q <= seeking_q;
      if (found_valid) begin
        {found_index_q, found_lane_q} <= {found_index_q, found_lane_q} + 1'b1;
        if (found.exists) begin
          any_q <= 1'b1;
          if (!any_q || found.step > coarsest_q) coarsest_q <= found.step;
        end
        if (found_largest > k_exponent_o) k_exponent_o <= found_largest;
        if (found_ends) begin
          state_q <= StPlace;
          placing_q <= 1'b1;
        end
      end
      if (placing_q) begin
        place_index_q <= place_index_q + 1'b1;
        if (place_index_q == last_index) placing_q <= 1'b0;
      end
      feed_valid_q <= placing_q || codes;
      digest_valid_o <= index_valid && state_q == StPlace;
      codes_valid_o <= index_valid && state_q == StCode;
      if (index_valid && index_tag.last && state_q == StPlace) state_q <= StCode;
    end
  end

  assign replay_o = state_q == StCode;
  assign k_step_exponent_o = 16'(coarsest_q) - 16'(StepOffset);

  // The low bits of significands are zero, and the hidden one follows from the exponent.
  logic unused_significands;
  always_comb begin
    unused_significands = 1'b0;
    for (int unsigned i = 0; i < ExactLanes; i++) begin
      unused_significands ^= ^{significand_i[i][SignificandBits-1],
                               significand_i[i][SignificandBits-ElementBits-1:0]};
    end
  end

endmodule
