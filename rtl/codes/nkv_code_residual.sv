// Residuals of rows: what they differ by from the mean, scaled to one length: ARITHMETIC.md 11.4
// and 11.5. A word per cycle; the words of a row follow each other without a gap, and leave so.

module nkv_code_residual
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
#(
  parameter int unsigned Lanes = ExactLanes
) (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  word_index_t  last_index_i,      // Of a row's words; held, as is p.
  input  mean_shift_t  mean_shift_i,
  input  logic         valid_i,
  input  word_index_t  index_i,
  input  fixed_t       fixed_i[Lanes],
  input  mean_t        mean_i[Lanes],     // Of these channels.

  output logic         length_valid_o,    // For one cycle per row, before its words:
  output length_bits_t length_bits_o,     // bits of its length, 0 without a residual.
  output logic         valid_o,
  output word_index_t  index_o,
  output residual_t    scaled_o[Lanes]    // By 2^(14 - length bits).
);

  localparam int unsigned ShiftSteps = 3;
  // A residual before 15 zeros, shifted right by the length's bits: 8 at a time, then the rest.
  localparam int unsigned Ahead = 15;
  typedef logic signed [16+Ahead-1:0] far_t;
  typedef logic signed [23:0] near_t;

  // ---- Less the mean ----
  residual_t   shifted_q[Lanes], residual_q[Lanes];
  fixed_t      fixed_q[Lanes];
  logic [14:0] magnitude_q[Lanes];
  logic [16*Lanes-1:0] residuals;
  logic [2:0]  valid_q;
  word_index_t index_q[3];

  for (genvar i = 0; i < Lanes; i++) begin : gen_lanes
    always_ff @(posedge clk_i) begin
      shifted_q[i] <= residual_t'(mean_i[i]) <<< mean_shift_i;
      fixed_q[i] <= fixed_i[i];
      residual_q[i] <= residual_t'(fixed_q[i]) - shifted_q[i];
      magnitude_q[i] <= 15'(residual_q[i][15] ? -residual_q[i] : residual_q[i]);
    end
    assign residuals[16*i+:16] = residual_q[i];
  end

  always_ff @(posedge clk_i) begin
    index_q[0] <= index_i;
    for (int unsigned i = 1; i < 3; i++) index_q[i] <= index_q[i-1];
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[1:0], valid_i};
  end

  // ---- The row's length ----
  logic    sum_valid;
  length_t sum;
  nkv_code_sum #(
    .Lanes(Lanes),
    .Bits(15),
    .SumBits(LengthBits)
  ) u_sum (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i (valid_q[2]),
    .first_i (index_q[2] == '0),
    .last_i  (index_q[2] == last_index_i),
    .number_i(magnitude_q),
    .valid_o (sum_valid),
    .sum_o   (sum)
  );

  length_bits_t sum_bits;
  always_comb begin
    sum_bits = '0;
    for (int unsigned i = 0; i < LengthBits; i++) if (sum[i]) sum_bits = length_bits_t'(i + 1);
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) length_valid_o <= 1'b0;
    else if (clear_i) length_valid_o <= 1'b0;
    else length_valid_o <= sum_valid;
  end
  always_ff @(posedge clk_i) length_bits_o <= sum_bits;

  // ---- The row's words again, scaled ----
  logic         held_valid;
  word_index_t  held_index;
  length_bits_t held_bits;
  logic [16*Lanes-1:0] held;
  nkv_code_hold #(
    .Width(16 * Lanes),
    .Depth(16),
    .KnownBits($bits(length_bits_t))
  ) u_hold (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i      (valid_q[1]),
    .word_i       (residuals),
    .last_index_i,
    .known_valid_i(length_valid_o),
    .known_i      (length_bits_o),
    .valid_o      (held_valid),
    .index_o      (held_index),
    .word_o       (held),
    .known_o      (held_bits)
  );

  logic [2:0] fine_q;
  for (genvar i = 0; i < Lanes; i++) begin : gen_scale
    wire residual_t unscaled = residual_t'(held[16*i+:16]);
    near_t near_q;
    logic signed [16:0] doubled_q;
    always_ff @(posedge clk_i) begin
      near_q <= near_t'(far_t'({unscaled, 15'd0}) >>> {held_bits[4:3], 3'd0});
      doubled_q <= 17'(near_q >>> fine_q);
      scaled_o[i] <= residual_t'((doubled_q + 17'sd1) >>> 1);
    end
  end
  always_ff @(posedge clk_i) fine_q <= held_bits[2:0];

  logic [ShiftSteps-1:0] out_valid_q;
  word_index_t out_index_q[ShiftSteps];
  always_ff @(posedge clk_i) begin
    out_index_q[0] <= held_index;
    for (int unsigned i = 1; i < ShiftSteps; i++) out_index_q[i] <= out_index_q[i-1];
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) out_valid_q <= '0;
    else if (clear_i) out_valid_q <= '0;
    else out_valid_q <= {out_valid_q[ShiftSteps-2:0], held_valid};
  end
  assign valid_o = out_valid_q[ShiftSteps-1];
  assign index_o = out_index_q[ShiftSteps-1];

endmodule
