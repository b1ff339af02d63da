// The least and the greatest element of each group of a block of rows, and whether its codec takes
// all elements. A burst of two chunks per cycle, always taken; done_o stands for a cycle with the
// block when all are there. Slots keep the ranges of blocks: one may be read while another is made.
// What is read comes two cycles later, subnormals as zero.

module nkv_quant_ranges
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_quant_pkg::*;
#(
  parameter int unsigned Slots = 4,
  localparam int unsigned SlotBits = $clog2(Slots)
) (
  input  logic                clk_i,
  input  logic                rst_ni,

  input  logic                valid_i,
  input  chunk_pair_t         place_i,
  input  quant_block_t        block_i,
  input  logic [SlotBits-1:0] slot_i,
  input  burst_t              data_i,

  output logic                done_o,
  output quant_block_t        block_o,    // Refused if it was, or for one of its elements.

  input  logic [SlotBits-1:0] read_slot_i,
  input  logic                is_value_i,   // The block that is read,
  input  logic                is_odd_i,     // and whether its rows have an odd number of chunks.
  input  group_t              group_i,
  output logic [15:0]         least_o,
  output logic [15:0]         greatest_o
);

  localparam int unsigned Steps = 6;      // From a burst to the ranges of its tokens.
  localparam int unsigned LaneBits = $clog2(ChunkLanes);
  typedef logic [SlotBits-1:0] slot_t;
  typedef logic [15:0] key_t;
  typedef struct packed {
    key_t greatest;
    key_t least;
  } range_t;

  function automatic range_t both(range_t a, range_t b);
    both.least = b.least < a.least ? b.least : a.least;
    both.greatest = b.greatest > a.greatest ? b.greatest : a.greatest;
  endfunction

  logic [Steps-1:0] valid_q;
  chunk_pair_t  place_q[Steps];
  quant_block_t block_q[Steps];
  slot_t        slot_q[Steps];
  burst_t       data_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Steps-2:0], valid_i};
  end
  always_ff @(posedge clk_i) begin
    data_q <= data_i;
    place_q[0] <= place_i;
    block_q[0] <= block_i;
    slot_q[0] <= slot_i;
    for (int unsigned k = 1; k < Steps; k++) begin
      place_q[k] <= place_q[k-1];
      block_q[k] <= block_q[k-1];
      slot_q[k] <= slot_q[k-1];
    end
  end

  // ---- Elements that are refused ----
  logic [2*ChunkLanes-1:0] excess, excess_q;
  logic [Steps-2:1] excess_any_q;
  logic refused_q;
  always_comb begin
    for (int unsigned i = 0; i < 2 * ChunkLanes; i++) begin
      automatic logic [7:0] exponent = data_q[16*i+7+:8];
      excess[i] = block_q[0].codec == CodecFp8 ? exponent == '1 : exponent >= 8'd253;
    end
  end
  always_ff @(posedge clk_i) begin
    excess_q <= excess;
    excess_any_q <= {excess_any_q[Steps-3:1], excess_q != '0};
  end
  wire refuses = refused_q || excess_any_q[Steps-2] || block_q[Steps-1].refused;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) refused_q <= 1'b0;
    else if (valid_q[Steps-1]) refused_q <= refuses && !place_q[Steps-1].last;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) done_o <= 1'b0;
    else done_o <= valid_q[Steps-1] && place_q[Steps-1].last;
  end
  always_ff @(posedge clk_i) begin
    block_o <= block_q[Steps-1];
    block_o.refused <= refuses;
  end

  // ---- Channels: each half of the burst keeps those that it sees ----
  wire is_odd = block_q[0].chunks[0];
  range_t key[2][ChunkLanes];
  range_t channel[2][ChunkLanes];   // As they are read.
  for (genvar h = 0; h < 2; h++) begin : gen_halves
    // A row of an odd number of chunks begins in either half.
    wire is_first = place_q[0].token[h] == '0 || (is_odd && place_q[0].token[h] == 6'd1);
    for (genvar i = 0; i < ChunkLanes; i++) begin : gen_lanes
      (* ram_style = "distributed" *) range_t cells[Slots*Chunks];
      wire key_t element = key_of(data_q[16*(ChunkLanes*h+i)+:16]);
      assign key[h][i] = '{greatest: element, least: element};
      wire range_t sofar = cells[{slot_q[0], place_q[0].chunk[h]}];
      always_ff @(posedge clk_i) begin
        if (valid_q[0]) begin
          cells[{slot_q[0], place_q[0].chunk[h]}] <= is_first ? key[h][i] : both(sofar, key[h][i]);
        end
      end
      assign channel[h][i] = cells[{read_slot_i, group_i[GroupBits-1:LaneBits]}];
    end
  end

  // ---- Tokens: over a chunk by a tree, then over the chunks of a row ----
  range_t eight_q[2][8];
  range_t four_q[2][4];
  range_t two_q[2][2];
  range_t one_q[2];
  range_t late_q[2];
  range_t pair_q;
  always_ff @(posedge clk_i) begin
    for (int unsigned h = 0; h < 2; h++) begin
      for (int unsigned i = 0; i < 8; i++) eight_q[h][i] <= both(key[h][2*i], key[h][2*i+1]);
      for (int unsigned i = 0; i < 4; i++) four_q[h][i] <= both(eight_q[h][2*i], eight_q[h][2*i+1]);
      for (int unsigned i = 0; i < 2; i++) two_q[h][i] <= both(four_q[h][2*i], four_q[h][2*i+1]);
      one_q[h] <= both(two_q[h][0], two_q[h][1]);
      late_q[h] <= one_q[h];
    end
    pair_q <= both(one_q[0], one_q[1]);
  end

  range_t row_q;                    // Of the row under way.
  range_t ended[2];                 // Of the row up to each half.
  token_t [1:0] row_token;
  chunk_t [1:0] row_chunk;
  chunk_t last_chunk;
  assign row_token = place_q[Steps-1].token;
  assign row_chunk = place_q[Steps-1].chunk;
  assign last_chunk = chunk_t'(block_q[Steps-1].chunks - 1'b1);
  always_comb begin
    ended[0] = row_chunk[0] == '0 ? late_q[0] : both(row_q, late_q[0]);
    if (row_chunk[1] == '0) ended[1] = late_q[1];
    else if (row_chunk[0] == '0) ended[1] = pair_q;
    else ended[1] = both(row_q, pair_q);
  end
  always_ff @(posedge clk_i) if (valid_q[Steps-1]) row_q <= ended[1];

  range_t token[2];
  for (genvar h = 0; h < 2; h++) begin : gen_tokens
    (* ram_style = "distributed" *) range_t cells[Slots*PageTokens];
    always_ff @(posedge clk_i) begin
      if (valid_q[Steps-1] && row_chunk[h] == last_chunk) begin
        cells[{slot_q[Steps-1], row_token[h]}] <= ended[h];
      end
    end
    assign token[h] = cells[{read_slot_i, group_i[$clog2(PageTokens)-1:0]}];
  end

  // ---- What is read ----
  range_t half_q[2];
  logic is_both_q, is_second_q;
  range_t range;
  always_ff @(posedge clk_i) begin
    for (int unsigned h = 0; h < 2; h++) begin
      half_q[h] <= is_value_i ? token[h] : channel[h][group_i[LaneBits-1:0]];
    end
    is_both_q <= !is_value_i && is_odd_i;
    if (is_value_i) is_second_q <= !is_odd_i || group_i[0];
    else is_second_q <= group_i[LaneBits];
  end
  always_comb begin
    range = is_second_q ? half_q[1] : half_q[0];
    if (is_both_q) range = both(half_q[0], half_q[1]);
  end
  always_ff @(posedge clk_i) begin
    least_o <= flushed(bits_of(range.least));
    greatest_o <= flushed(bits_of(range.greatest));
  end

endmodule
