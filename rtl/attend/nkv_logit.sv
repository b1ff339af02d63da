// Scores to logits: ARITHMETIC.md sections 3.2 and 3.3. One score per cycle, its logit 37 cycles
// later. The scale comes from nkv_logit_setup and is held while scores are on their way.

module nkv_logit
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  parameter int unsigned TagBits = 8
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  logit_scale_t       scale_i,

  input  logic               valid_i,
  input  logic [TagBits-1:0] tag_i,
  input  score_t             score_i,           // S
  input  exponent_t          query_exponent_i,  // Eq of its row.

  output logic               valid_o,
  output logic [TagBits-1:0] tag_o,
  output logit_t             logit_o            // L
);

  localparam int unsigned LinearLatency = 9;
  localparam int unsigned SoftCapLatency = 28;
  localparam int unsigned ScoreShift = 24;
  localparam int unsigned TopBits = ScoreBits - ScoreShift;  // Of t.
  localparam int unsigned LimitBits = LogitBits - 1;
  // Beyond these shifts of X nothing new happens.
  localparam power_t LargestLeft = power_t'(LimitBits);
  localparam power_t LargestRight = 11'sd63;

  typedef logic signed [TopBits-1:0] top_t;
  typedef logic [63:0] wide_t;

  localparam wide_t BeyondLimit = '1 << LimitBits;

  // How t C moves: a rotation to the right, and which bits are then its own. The others are copies
  // of the sign, or zeros below it.
  typedef struct packed {
    logic       too_far;  // To the left, further than any number but 0 may.
    logic       left;
    logic [5:0] rotate;
    logic [5:0] others;   // Bits that are not its own.
  } move_t;

  function automatic move_t move_of(power_t power);
    move_t move;
    move.left = power >= 0;
    move.too_far = power > LargestLeft;
    if (move.left) move.others = move.too_far ? 6'(LargestLeft) : 6'(power);
    else move.others = power < -LargestRight ? 6'(LargestRight) : 6'(-power);
    move.rotate = move.left ? -move.others : move.others;
    return move;
  endfunction

  // What is kept of a move once the rotation is done.
  typedef struct packed {
    logic overflows;  // Whatever the rotation shows.
    logic left;
    logic negative;
  } rest_t;

  logic [LinearLatency-1:0] valid_q;  // [i]: i + 1 cycles after valid_i.

  top_t top_q;
  power_t power_q;
  wide_t multiplied_q, product_q;
  move_t multiplied_move_q, product_move_q;
  wide_t coarse_q, rotated_q;
  logic [2:0] fine_q;
  wide_t coarse_own_q, rotated_own_q;  // Bits that are the number's own.
  rest_t coarse_rest_q, rotated_rest_q;
  wide_t shifted_q;
  wide_t spilled_q;                    // Bits that left at the top, where they are not the sign.
  logic shifted_negative_q, shifted_overflows_q;
  logit_t value_q;
  logic value_negative_q, value_overflows_q;
  // Of quarters of the bits: something spilled or stands above the limit, something below it.
  logic [3:0] value_beyond_q, value_below_q;
  logit_t late_value_q;
  logic late_negative_q, late_saturates_q;
  logit_t linear_q;

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      top_q <= top_t'(score_i >>> ScoreShift);
      power_q <= scale_i.power + power_t'(query_exponent_i);
    end
    if (valid_q[0]) begin
      multiplied_q <= 64'(top_q) * 64'(scale_i.factor);
      multiplied_move_q <= move_of(power_q);
    end
    // The multipliers' own output registers.
    if (valid_q[1]) begin
      product_q <= multiplied_q;
      product_move_q <= multiplied_move_q;
    end
    if (valid_q[2]) begin
      coarse_q <= 64'({product_q, product_q} >> {product_move_q.rotate[5:3], 3'd0});
      fine_q <= product_move_q.rotate[2:0];
      coarse_own_q <= product_move_q.left ? '1 << product_move_q.others
                                          : '1 >> product_move_q.others;
      coarse_rest_q <= '{overflows: product_move_q.too_far && product_q != '0,
                         left: product_move_q.left, negative: product_q[63]};
    end
    if (valid_q[3]) begin
      rotated_q <= 64'({coarse_q, coarse_q} >> fine_q);
      rotated_own_q <= coarse_own_q;
      rotated_rest_q <= coarse_rest_q;
    end
    if (valid_q[4]) begin
      automatic wide_t sign = {64{rotated_rest_q.negative}};
      shifted_q <= (rotated_q & rotated_own_q) | (rotated_rest_q.left ? '0 : sign & ~rotated_own_q);
      spilled_q <= rotated_rest_q.left ? (rotated_q ^ sign) & ~rotated_own_q : '0;
      shifted_negative_q <= rotated_rest_q.negative;
      shifted_overflows_q <= rotated_rest_q.overflows;
    end
    if (valid_q[5]) begin
      automatic wide_t sign = {64{shifted_negative_q}};
      automatic wide_t beyond = spilled_q | ((shifted_q ^ sign) & BeyondLimit);
      automatic wide_t below = shifted_q & ~BeyondLimit;
      value_q <= logit_t'(shifted_q);
      value_negative_q <= shifted_negative_q;
      value_overflows_q <= shifted_overflows_q;
      for (int unsigned i = 0; i < 4; i++) begin
        value_beyond_q[i] <= beyond[16*i+:16] != '0;
        value_below_q[i] <= below[16*i+:16] != '0;
      end
    end
    if (valid_q[6]) begin
      late_value_q <= value_q;
      late_negative_q <= value_negative_q;
      // -2^47 saturates too.
      late_saturates_q <= value_overflows_q || value_beyond_q != '0 ||
                          (value_negative_q && value_below_q == '0);
    end
    if (valid_q[7]) begin
      if (late_saturates_q) linear_q <= late_negative_q ? -LogitLimit : LogitLimit;
      else linear_q <= late_value_q;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[LinearLatency-2:0], valid_i};
  end

  nkv_soft_cap u_soft_cap (
    .clk_i,
    .rst_ni,
    .capped_i(scale_i.capped),
    .cap_i   (scale_i.cap),
    .valid_i (valid_q[LinearLatency-1]),
    .logit_i (linear_q),
    .valid_o,
    .logit_o
  );

  nkv_delay #(
    .Width (TagBits),
    .Cycles(LinearLatency + SoftCapLatency)
  ) u_tag (
    .clk_i,
    .data_i(tag_i),
    .data_o(tag_o)
  );

endmodule
