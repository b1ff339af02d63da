// The bin of a candidate's score around a reference: (clamp(((S >> 32) - reference) >> shift, +-32767)
// + 32768) >> 4. With it comes the order word, S - reference * 2^32 biased by 2^63, which orders scores as
// unsigned numbers; in a bin other than the first and the last only its low 36 + shift bits differ.
// Latency 5 cycles, one candidate per cycle, no back-pressure. |reference| < 2^30.

module nkv_score_bin
  import nkv_select_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic signed [30:0] reference_i,
  input  logic        [ 5:0] shift_i,

  input  logic               valid_i,
  input  score_t             score_i,
  input  token_t             token_i,

  output logic               valid_o,
  output score_t             score_o,
  output token_t             token_o,
  output word_t              word_o,
  output bin_t               bin_o,
  output logic               busy_o    // A candidate is under way, or comes out.
);

  localparam int unsigned Stages = 5;

  logic [Stages-1:0] valid_q;
  score_t score_q[Stages];
  token_t token_q[Stages];
  logic signed [31:0] difference_q[Stages];  // (S >> 32) - reference, from stage 1 on.
  logic signed [31:0] shifted_q;             // In stage 2 by the coarse part of the shift,
  logic signed [27:0] fine_q;                // in stage 3 by the rest, and by the 4 bits of a bin.
  bin_t bin_q;

  // What fits in 12 bits is taken as it is, biased.
  wire is_above = !fine_q[27] && fine_q[26:11] != '0;
  wire is_below = fine_q[27] && fine_q[26:11] != '1;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Stages-2:0], valid_i};
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      score_q[0] <= score_i;
      token_q[0] <= token_i;
    end
    if (valid_q[0]) difference_q[1] <= 32'(signed'(score_q[0][ScoreBits-1:32])) - 32'(reference_i);
    if (valid_q[1]) shifted_q <= difference_q[1] >>> {shift_i[5:3], 3'b0};
    if (valid_q[2]) fine_q <= 28'((shifted_q >>> shift_i[2:0]) >>> 4);
    if (valid_q[3]) begin
      if (is_above) bin_q <= '1;
      else if (is_below) bin_q <= '0;
      else bin_q <= {!fine_q[11], fine_q[10:0]};
    end
    for (int unsigned stage = 1; stage < Stages; ++stage) begin
      if (valid_q[stage-1]) begin
        score_q[stage] <= score_q[stage-1];
        token_q[stage] <= token_q[stage-1];
        if (stage > 1) difference_q[stage] <= difference_q[stage-1];
      end
    end
  end

  assign valid_o = valid_q[Stages-1];
  assign score_o = score_q[Stages-1];
  assign token_o = token_q[Stages-1];
  assign word_o = {!difference_q[Stages-1][31], difference_q[Stages-1][30:0], score_o[31:0]};
  assign bin_o = bin_q;
  assign busy_o = valid_q != '0;

endmodule
