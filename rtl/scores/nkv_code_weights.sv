// Weights of query rows for a sign set: w and a of ARITHMETIC.md 12.1. A word per cycle; the words of a
// row follow each other without a gap, and leave so.

module nkv_code_weights
  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,

  input  dim_t          dim_i,             // Channels of a row. Held, as is the set.
  input  sign_set_t     sign_set_i,
  input  logic          valid_i,
  input  word_index_t   index_i,
  input  query_t        query_i[ExactLanes],  // As nkv_code_query gives them: zero beyond the row's end.

  output logic          valid_o,
  output word_index_t   index_o,
  output code_weight_t  weight_o[ExactLanes],
  output weight_power_t power_o            // a, with each word of its row.
);

  localparam int unsigned Lanes = ExactLanes;
  // Magnitudes of a transformed row: its energy bounds their sum.
  localparam int unsigned RowLengthBits = QueryBits - 1 + (3 * $clog2(Channels) + 1) / 2;
  localparam int unsigned KeptBits = 14;
  typedef logic signed [TransformedBits-1:0] transformed_t;
  typedef logic [TransformedBits-2:0] magnitude_t;

  wire word_index_t last_index = word_index_t'((dim_i - 1'b1) >> $clog2(Lanes));

  // ---- T ----
  transformed_t value[Lanes], transformed[Lanes];
  logic        transformed_valid;
  word_index_t transformed_index;
  for (genvar l = 0; l < Lanes; l++) begin : gen_values
    assign value[l] = transformed_t'(query_i[l]);
  end
  nkv_code_transform #(
    .Width(TransformedBits)
  ) u_transform (
    .clk_i,
    .rst_ni,
    .clear_i,
    .dim_i,
    .sign_set_i,
    .valid_i,
    .index_i,
    .value_i(value),
    .valid_o(transformed_valid),
    .index_o(transformed_index),
    .value_o(transformed)
  );

  // ---- The row's length, and by how much it is longer than weights may be ----
  magnitude_t  magnitude_q[Lanes];
  logic        magnitude_valid_q, sum_valid, power_valid_q;
  word_index_t magnitude_index_q;
  logic [RowLengthBits-1:0] length;
  logic [$clog2(RowLengthBits+1)-1:0] length_bits;
  weight_power_t power_q;
  logic [Lanes-1:0][TransformedBits-1:0] word;
  for (genvar l = 0; l < Lanes; l++) begin : gen_magnitudes
    always_ff @(posedge clk_i) begin
      magnitude_q[l] <=
          magnitude_t'(transformed[l][TransformedBits-1] ? -transformed[l] : transformed[l]);
    end
    assign word[l] = transformed[l];
  end
  always_ff @(posedge clk_i) magnitude_index_q <= transformed_index;
  nkv_code_sum #(
    .Lanes(Lanes),
    .Bits($bits(magnitude_t)),
    .SumBits(RowLengthBits)
  ) u_sum (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i (magnitude_valid_q),
    .first_i (magnitude_index_q == '0),
    .last_i  (magnitude_index_q == last_index),
    .number_i(magnitude_q),
    .valid_o (sum_valid),
    .sum_o   (length)
  );
  always_comb begin
    length_bits = '0;
    for (int unsigned i = 0; i < RowLengthBits; i++) begin
      if (length[i]) length_bits = ($clog2(RowLengthBits + 1))'(i + 1);
    end
  end
  always_ff @(posedge clk_i) begin
    power_q <= length_bits > ($clog2(RowLengthBits + 1))'(KeptBits)
        ? weight_power_t'(length_bits - ($clog2(RowLengthBits + 1))'(KeptBits)) : '0;
  end

  // ---- The row's words again, shorter ----
  logic          held_valid;
  word_index_t   held_index;
  weight_power_t held_power;
  logic [Lanes-1:0][TransformedBits-1:0] held;
  nkv_code_hold #(
    .Width($bits(word)),
    .Depth(16),
    .KnownBits($bits(weight_power_t))
  ) u_hold (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i      (transformed_valid),
    .word_i       (word),
    .last_index_i (last_index),
    .known_valid_i(power_valid_q),
    .known_i      (power_q),
    .valid_o      (held_valid),
    .index_o      (held_index),
    .word_o       (held),
    .known_o      (held_power)
  );
  for (genvar l = 0; l < Lanes; l++) begin : gen_round
    // Twice the weight, truncated.
    wire logic signed [TransformedBits:0] doubled =
        signed'({held[l], 1'b0}) >>> held_power;
    wire unused = ^doubled[TransformedBits:WeightSumBits+1];
    logic signed [WeightSumBits:0] doubled_q;
    always_ff @(posedge clk_i) doubled_q <= (WeightSumBits + 1)'(doubled);
    always_ff @(posedge clk_i) weight_o[l] <= code_weight_t'((doubled_q + 17'sd1) >>> 1);
  end

  localparam int unsigned RoundLatency = 2;
  logic [RoundLatency-1:0] round_valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {magnitude_valid_q, power_valid_q, round_valid_q} <= '0;
    else if (clear_i) {magnitude_valid_q, power_valid_q, round_valid_q} <= '0;
    else begin
      magnitude_valid_q <= transformed_valid;
      power_valid_q <= sum_valid;
      round_valid_q <= {round_valid_q[RoundLatency-2:0], held_valid};
    end
  end
  nkv_delay #(
    .Width($bits(word_index_t) + $bits(weight_power_t)),
    .Cycles(RoundLatency)
  ) u_round (
    .clk_i,
    .data_i({held_index, held_power}),
    .data_o({index_o, power_o})
  );
  assign valid_o = round_valid_q[RoundLatency-1];

endmodule
