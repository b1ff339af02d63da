// What a page's header says of the numbers in its rows: the largest exponent of the keys and of the
// values, and which key rows hold a number that is not finite: ARITHMETIC.md section 2. A word of
// ExactLanes source elements per cycle, always taken; what is said of a tensor stands 10 cycles
// after its last word, and until 9 after the first word of the next one of its kind.
//
// Values are rows of their own, or the leading channels of the keys.

module nkv_page_numbers
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,       // Forgets a tensor under way.

  input  dtype_e      dtype_i,       // Held while tensors come.
  input  dim_t        head_dim_i,
  input  dim_t        value_dim_i,
  input  logic        has_values_i,  // As rows.

  input  logic        keys_valid_i,  // Of these two at most one.
  input  logic        values_valid_i,
  input  element_t    word_i[ExactLanes],  // Zero beyond the row's end.

  // The keys as they were decoded, DecodeLatency cycles later.
  output logic         number_valid_o,
  output logic         number_first_o,      // Word of its tensor.
  output word_index_t  number_index_o,
  output exponent_t    exponent_o[ExactLanes],
  output significand_t significand_o[ExactLanes],

  output exponent_t   k_exponent_o,
  output exponent_t   v_exponent_o,
  output token_mask_t nonfinite_o
);

  localparam int unsigned DecodeLatency = 4;
  localparam int unsigned TreeLatency = 4;
  localparam int unsigned LaneBits = $clog2(ExactLanes);
  localparam int unsigned Halves = ExactLanes / ChunkChannels;

  typedef struct packed {
    logic              keys;
    logic              values;
    logic              first;     // Word of its tensor.
    token_t            row;
    logic [Halves-1:0] is_value;  // The half's channels are some of the values'.
  } tag_t;

  function automatic exponent_t larger(exponent_t a, exponent_t b);
    return a > b ? a : b;
  endfunction

  // ---- Places of words ----
  token_t      row_q;
  word_index_t index_q;
  wire dim_t dim = keys_valid_i ? head_dim_i : value_dim_i;
  wire row_ends = index_q == word_index_t'((dim - 1'b1) >> LaneBits);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {row_q, index_q} <= '0;
    end else if (clear_i) begin
      {row_q, index_q} <= '0;
    end else if (keys_valid_i || values_valid_i) begin
      index_q <= row_ends ? '0 : index_q + 1'b1;
      if (row_ends) row_q <= row_q + 1'b1;
    end
  end

  tag_t tag, decoded, late;
  always_comb begin
    tag.keys = keys_valid_i;
    tag.values = values_valid_i || (keys_valid_i && !has_values_i);
    tag.first = row_q == '0 && index_q == '0;
    tag.row = row_q;
    for (int unsigned h = 0; h < Halves; h++) begin
      tag.is_value[h] = dim_t'({index_q, LaneBits'(ChunkChannels * h)}) < value_dim_i;
    end
  end

  // What leaves it after power-up does not matter: a tensor's first word forgets what was before.
  nkv_delay #(
    .Width($bits(tag_t)),
    .Cycles(DecodeLatency)
  ) u_tag (
    .clk_i,
    .data_i(tag),
    .data_o(decoded)
  );
  nkv_delay #(
    .Width($bits(tag_t)),
    .Cycles(TreeLatency)
  ) u_late (
    .clk_i,
    .data_i(decoded),
    .data_o(late)
  );
  assign number_first_o = decoded.first;
  nkv_delay #(
    .Width($bits(word_index_t)),
    .Cycles(DecodeLatency)
  ) u_index (
    .clk_i,
    .data_i(index_q),
    .data_o(number_index_o)
  );

  // ---- Numbers ----
  logic [31:0] element[ExactLanes];
  logic [ExactLanes-1:0] finite, unused_negative;
  exponent_t exponent[ExactLanes];
  logic number_valid, broken;
  for (genvar i = 0; i < ExactLanes; i++) begin : gen_elements
    assign element[i] = 32'(word_i[i]);
  end

  nkv_number_decode #(
    .Lanes(ExactLanes),
    .Binary32(1'b0)
  ) u_decode (
    .clk_i,
    .rst_ni,
    .valid_i      (keys_valid_i || values_valid_i),
    .dtype_i,
    .element_i    (element),
    .valid_o      (number_valid),
    .negative_o   (unused_negative),
    .finite_o     (finite),
    .exponent_o   (exponent),
    .significand_o(significand_o)
  );
  assign number_valid_o = number_valid && decoded.keys;
  assign exponent_o = exponent;
  nkv_delay #(
    .Width(1),
    .Cycles(TreeLatency)
  ) u_broken (
    .clk_i,
    .data_i(finite != '1),
    .data_o(broken)
  );

  // ---- The largest exponent of each half word ----
  exponent_t of_2_q[ExactLanes/2], of_4_q[ExactLanes/4], of_8_q[ExactLanes/8], of_half_q[Halves];
  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < ExactLanes / 2; i++) begin
      of_2_q[i] <= larger(exponent[2*i], exponent[2*i+1]);
    end
    for (int unsigned i = 0; i < ExactLanes / 4; i++) of_4_q[i] <= larger(of_2_q[2*i], of_2_q[2*i+1]);
    for (int unsigned i = 0; i < ExactLanes / 8; i++) of_8_q[i] <= larger(of_4_q[2*i], of_4_q[2*i+1]);
    for (int unsigned i = 0; i < Halves; i++) of_half_q[i] <= larger(of_8_q[2*i], of_8_q[2*i+1]);
  end

  // ---- Of the word, and of the words so far ----
  logic        of_keys_q, of_values_q, first_q;
  token_mask_t broken_q;  // The word's row.
  exponent_t   all_q, leading_q;
  always_ff @(posedge clk_i) begin
    {of_keys_q, of_values_q, first_q} <= {late.keys, late.values, late.first};
    broken_q <= token_mask_t'(broken) << late.row;
    all_q <= larger(of_half_q[0], of_half_q[1]);
    leading_q <= larger(late.is_value[0] ? of_half_q[0] : '0, late.is_value[1] ? of_half_q[1] : '0);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {k_exponent_o, v_exponent_o, nonfinite_o} <= '0;
    end else begin
      if (of_keys_q) begin
        k_exponent_o <= first_q ? all_q : larger(all_q, k_exponent_o);
        nonfinite_o <= first_q ? broken_q : broken_q | nonfinite_o;
      end
      if (of_values_q) v_exponent_o <= first_q ? leading_q : larger(leading_q, v_exponent_o);
    end
  end

endmodule
