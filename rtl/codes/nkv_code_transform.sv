// T of rows: signs, Hadamard transforms of the blocks that a row splits into, each scaled to the last
// one's size: ARITHMETIC.md 11.1. A word per cycle in natural order, the words of a row without a
// gap; a word leaves Latency cycles after it came, whatever its row's blocks.
//
// Stages across the lanes of a word come first, then those across words, each of which holds what
// its block still lacks. Magnitudes add up to less than 2^(Width - 1) in a row, so Width bits hold every
// stage.

module nkv_code_transform
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
#(
  parameter int unsigned Width = $bits(residual_t),
  localparam int unsigned Lanes = ExactLanes
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  dim_t        dim_i,              // Channels of a row. Held, as is the set.
  input  sign_set_t   sign_set_i,
  input  logic        valid_i,
  input  word_index_t index_i,
  input  logic signed [Width-1:0] value_i[Lanes],  // Zero beyond the row's end.

  output logic        valid_o,
  output word_index_t index_o,
  output logic signed [Width-1:0] value_o[Lanes]
);

  localparam int unsigned Spaces = $clog2(Lanes);
  localparam int unsigned Times = $clog2(RowWords);
  // All times' delays, 2^t + 1 each.
  localparam int unsigned TimeLatency = (1 << Times) - 1 + Times;
  localparam int unsigned ScaleLatency = 2;
  localparam int unsigned Latency = 1 + Spaces + TimeLatency + ScaleLatency;

  typedef logic signed [Width-1:0] stage_t;
  typedef struct packed {
    logic        valid;
    word_index_t index;
  } tag_t;

  wire word_index_t last_index = word_index_t'((dim_i - 1'b1) >> Spaces);
  wire last_is_half = dim_i[Spaces-1];
  wire tag_t tag_in = '{valid: valid_i, index: index_i};

  // ---- Signs ----
  logic [Lanes-1:0] signs;
  stage_t           space[Spaces+1][Lanes];
  always_comb signs = Signs[sign_set_i][index_i];
  for (genvar l = 0; l < Lanes; l++) begin : gen_signs
    stage_t signed_q;
    always_ff @(posedge clk_i) signed_q <= signs[l] ? -value_i[l] : value_i[l];
    assign space[0][l] = signed_q;
  end

  // ---- Across lanes. A word that is half a row's last one has a block of as many channels: its
  // upper lanes stay zero. ----
  tag_t last_space;
  nkv_delay #(
    .Width($bits(tag_t)),
    .Cycles(Spaces)
  ) u_last_space (
    .clk_i,
    .data_i(tag_in),
    .data_o(last_space)
  );
  wire is_half = last_is_half && last_space.index == last_index;
  for (genvar s = 0; s < Spaces; s++) begin : gen_spaces
    for (genvar l = 0; l < Lanes; l++) begin : gen_lanes
      localparam int unsigned Other = l ^ (1 << s);
      stage_t sum_q;
      if (l < Other) begin : gen_sum
        always_ff @(posedge clk_i) sum_q <= space[s][l] + space[s][Other];
      end else if (s == Spaces - 1) begin : gen_last_difference
        always_ff @(posedge clk_i) sum_q <= is_half ? '0 : space[s][Other] - space[s][l];
      end else begin : gen_difference
        always_ff @(posedge clk_i) sum_q <= space[s][Other] - space[s][l];
      end
      assign space[s+1][l] = sum_q;
    end
  end

  // ---- Across words ----
  tag_t      line_tag[Times+1];
  stage_t    line[Times+1][Lanes];
  nkv_delay #(
    .Width($bits(tag_t)),
    .Cycles(1)
  ) u_line_tag (
    .clk_i,
    .data_i(last_space),
    .data_o(line_tag[0])
  );
  for (genvar l = 0; l < Lanes; l++) begin : gen_lines
    assign line[0][l] = space[Spaces][l];
  end
  for (genvar t = 0; t < Times; t++) begin : gen_times
    localparam int unsigned Gap = 1 << t;
    wire adds = line_tag[t].valid && line_tag[t].index[t] &&
        32'(block_fold(dim_i, line_tag[t].index)) > t;
    for (genvar l = 0; l < Lanes; l++) begin : gen_lanes
      stage_t kept_q[Gap];
      stage_t out_q;
      wire stage_t now = line[t][l];
      wire stage_t kept = kept_q[Gap-1];
      always_ff @(posedge clk_i) begin
        kept_q[0] <= adds ? kept - now : now;
        for (int unsigned i = 1; i < Gap; i++) kept_q[i] <= kept_q[i-1];
        out_q <= adds ? kept + now : kept;
      end
      assign line[t+1][l] = out_q;
    end
    nkv_delay #(
      .Width($bits(tag_t)),
      .Cycles(Gap + 1)
    ) u_tag (
      .clk_i,
      .data_i(line_tag[t]),
      .data_o(line_tag[t+1])
    );
  end

  // ---- Scale of larger blocks: round(2^15 * 2^(-k/2)) ----
  localparam int unsigned ScaleBits = 15;
  logic [2:0]         block_log2, excess;
  logic [ScaleBits:0] scale;
  always_comb begin
    block_log2 = 3'(Spaces) + 3'(block_fold(dim_i, line_tag[Times].index));
    if (last_is_half && line_tag[Times].index == last_index) block_log2 = 3'(Spaces - 1);
    excess = block_log2 - last_block_log2(dim_i);
    unique case (excess)
      3'd0: scale = 16'd32768;
      3'd1: scale = 16'd23170;
      3'd2: scale = 16'd16384;
      default: scale = 16'd11585;
    endcase
  end
  for (genvar l = 0; l < Lanes; l++) begin : gen_scale
    logic signed [ScaleBits+Width:0] product_q;
    wire logic signed [ScaleBits+Width:0] half = 1 << (ScaleBits - 1);
    always_ff @(posedge clk_i) begin
      product_q <= line[Times][l] * signed'({1'b0, scale});
      value_o[l] <= stage_t'((product_q + half) >>> ScaleBits);
    end
  end

  // ---- Beside it ----
  logic [Latency-1:0] valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], valid_i};
  end
  assign valid_o = valid_q[Latency-1];
  nkv_delay #(
    .Width($bits(word_index_t)),
    .Cycles(ScaleLatency)
  ) u_index (
    .clk_i,
    .data_i(line_tag[Times].index),
    .data_o(index_o)
  );

endmodule
