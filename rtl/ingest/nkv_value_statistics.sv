// What a page remembers of its values: ARITHMETIC.md section 2.3. A word of ExactLanes decoded
// values per cycle, always taken.
//
// A page is two passes over PageTokens rows of words, row after row: the first finds v_exponent,
// the second adds. replay_o is high from 4 cycles after the first one's last word on, and the second
// pass must wait for it. Behind that V_SUM comes out, a word per ExactLanes cycles, while the sums
// of channels are squared; done_o follows the last word of the second pass by at most
// 32 * words + 100 cycles, words being those of a row. What is said of the page holds from done_o
// to the next start.

module nkv_value_statistics
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,

  input  logic                  start_i,  // Forgets everything; no word in this cycle.
  input  dim_t                  dim_i,    // Held from start_i to done_o.

  // Numbers; zero beyond the row's end.
  input  logic                  word_valid_i,
  input  logic [ExactLanes-1:0] negative_i,
  input  exponent_t             exponent_i[ExactLanes],
  input  significand_t          significand_i[ExactLanes],

  output logic                  replay_o,

  output logic                  sums_valid_o,
  output word_index_t           sums_index_o,
  output logic signed [31:0]    sum_o[ExactLanes],

  output logic                  done_o,
  output exponent_t             v_exponent_o,
  output logic [31:0]           v_residual_o  // binary32
);

  localparam int unsigned TokenBits = $clog2(PageTokens);
  localparam int unsigned LaneBits = $clog2(ExactLanes);
  localparam int unsigned CoarseShift = 9;
  localparam int unsigned CoarseBits = ValueBits - CoarseShift;         // v'
  localparam int unsigned CoarseSumBits = CoarseBits + TokenBits;
  localparam int unsigned SquareBits = 2 * CoarseBits;
  localparam int unsigned NumberBits = 52;                              // N takes 50.
  localparam int unsigned Stages = 9;

  typedef logic [LaneBits-1:0] lane_t;
  typedef logic signed [CoarseBits-1:0] coarse_t;
  typedef logic signed [CoarseSumBits-1:0] coarse_sum_t;
  typedef logic signed [31:0] sum_t;
  typedef logic [SquareBits-1:0] square_t;
  typedef logic [NumberBits-1:0] long_t;
  typedef logic signed [10:0] power_t;

  typedef enum logic [2:0] {
    StMeasure,   // First pass.
    StAdd,       // Second pass.
    StSquare,    // The channels' sums, one by one.
    StSubtract,  // N
    StRaise,     // N's leading bit to the top,
    StLower,     // and down again where it is a binary32 subnormal's.
    StRound,
    StDone
  } state_e;

  typedef struct packed {
    logic        first;  // Row.
    logic        last;   // Word of the pass.
    word_index_t index;
  } tag_t;

  function automatic exponent_t larger(exponent_t a, exponent_t b);
    return a > b ? a : b;
  endfunction

  // ---- Places of words --------------------------------------------------------------------------
  state_e state_q;
  logic [TokenBits-1:0] row_q;
  word_index_t index_q, last_index;
  logic adding_q;  // The words to come are those of the second pass.
  assign last_index = word_index_t'((dim_i - 1'b1) >> LaneBits);
  wire row_ends = index_q == last_index;

  logic [Stages-1:0] valid_q;  // [i]: i + 1 cycles after a word, of the second pass from 1 on.
  logic [1:0] measure_q;       // Of the first pass: [i]: i + 2 cycles after it.
  tag_t tag_q[Stages];

  always_ff @(posedge clk_i) begin
    if (word_valid_i) begin
      tag_q[0] <= '{first: row_q == '0, last: row_ends && row_q == '1, index: index_q};
    end
    for (int unsigned k = 1; k < Stages; k++) tag_q[k] <= tag_q[k-1];
  end

  // ---- First pass: the largest exponent ---------------------------------------------------------
  logic [ExactLanes-1:0] negative_q;
  exponent_t exponent_q[ExactLanes];
  significand_t significand_q[ExactLanes];
  exponent_t quarter_q[ExactLanes/4];
  exponent_t sixteenth_q[ExactLanes/16];

  always_ff @(posedge clk_i) begin
    if (word_valid_i) begin
      negative_q <= negative_i;
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        exponent_q[i] <= exponent_i[i];
        significand_q[i] <= significand_i[i];
      end
    end
    if (valid_q[0] && !adding_q) begin
      for (int unsigned i = 0; i < ExactLanes / 4; i++) begin
        quarter_q[i] <= larger(larger(exponent_q[4*i], exponent_q[4*i+1]),
                               larger(exponent_q[4*i+2], exponent_q[4*i+3]));
      end
    end
    if (measure_q[0]) begin
      for (int unsigned i = 0; i < ExactLanes / 16; i++) begin
        sixteenth_q[i] <= larger(larger(quarter_q[4*i], quarter_q[4*i+1]),
                                 larger(quarter_q[4*i+2], quarter_q[4*i+3]));
      end
    end
  end

  // ---- Second pass: integers, their sums and squares --------------------------------------------
  logic [4:0] distance_q[ExactLanes];
  logic [2:0] fine_q[ExactLanes];
  logic [ExactLanes-1:0] distance_negative_q, coarse_negative_q, shifted_negative_q;
  significand_t magnitude_q[ExactLanes];
  significand_t part_shifted_q[ExactLanes];
  significand_t shifted_q[ExactLanes];
  value_t value_q[ExactLanes];
  square_t square_q[ExactLanes];
  logic [SquareBits+1:0] squares_of_4_q[ExactLanes/4];
  logic [SquareBits+3:0] squares_of_16_q[ExactLanes/16];
  logic [SquareBits+4:0] squares_of_word_q;
  long_t squares_q;

  function automatic logic [4:0] distance_of(exponent_t top, exponent_t own);
    exponent_t difference = top - own;
    return difference[7:5] != '0 ? '1 : difference[4:0];
  endfunction

  always_ff @(posedge clk_i) begin
    if (valid_q[0] && adding_q) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        distance_q[i] <= distance_of(v_exponent_o, exponent_q[i]);
        magnitude_q[i] <= significand_q[i];
      end
      distance_negative_q <= negative_q;
    end
    if (valid_q[1]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        part_shifted_q[i] <= magnitude_q[i] >> {distance_q[i][4:3], 3'd0};
        fine_q[i] <= distance_q[i][2:0];
      end
      coarse_negative_q <= distance_negative_q;
    end
    if (valid_q[2]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) shifted_q[i] <= part_shifted_q[i] >> fine_q[i];
      shifted_negative_q <= coarse_negative_q;
    end
    if (valid_q[3]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        value_q[i] <= shifted_negative_q[i] ? -value_t'(shifted_q[i]) : value_t'(shifted_q[i]);
      end
    end
    if (valid_q[4]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        automatic coarse_t coarse = coarse_t'(value_q[i] >>> CoarseShift);
        square_q[i] <= square_t'(coarse) * square_t'(coarse);
      end
    end
    if (valid_q[5]) begin
      for (int unsigned i = 0; i < ExactLanes / 4; i++) begin
        squares_of_4_q[i] <= (SquareBits + 2)'(square_q[4*i]) + (SquareBits + 2)'(square_q[4*i+1]) +
            (SquareBits + 2)'(square_q[4*i+2]) + (SquareBits + 2)'(square_q[4*i+3]);
      end
    end
    if (valid_q[6]) begin
      for (int unsigned i = 0; i < ExactLanes / 16; i++) begin
        squares_of_16_q[i] <=
            (SquareBits + 4)'(squares_of_4_q[4*i]) + (SquareBits + 4)'(squares_of_4_q[4*i+1]) +
            (SquareBits + 4)'(squares_of_4_q[4*i+2]) + (SquareBits + 4)'(squares_of_4_q[4*i+3]);
      end
    end
    if (valid_q[7]) begin
      squares_of_word_q <=
          (SquareBits + 5)'(squares_of_16_q[0]) + (SquareBits + 5)'(squares_of_16_q[1]);
    end
  end

  word_index_t read_index, square_index_q;
  lane_t square_lane_q, picked_lane_q;
  logic squaring_q, picked_valid_q, picked_last_q;
  logic factor_valid_q, factor_last_q, product_valid_q, product_last_q;
  coarse_sum_t coarse_row_q[ExactLanes];
  coarse_sum_t factor_q;
  logic [2*CoarseSumBits-1:0] product_q;
  long_t products_q;

  assign read_index = squaring_q ? square_index_q : tag_q[4].index;

  for (genvar i = 0; i < ExactLanes; i++) begin : gen_sums
    (* ram_style = "distributed" *) sum_t sums[RowWords];
    (* ram_style = "distributed" *) coarse_sum_t coarse_sums[RowWords];
    wire sum_t sum = sums[read_index];
    wire coarse_sum_t coarse_sum = coarse_sums[read_index];

    always_ff @(posedge clk_i) begin
      if (valid_q[4]) begin
        sums[tag_q[4].index] <= (tag_q[4].first ? '0 : sum) + sum_t'(value_q[i]);
        coarse_sums[tag_q[4].index] <= (tag_q[4].first ? '0 : coarse_sum) +
            coarse_sum_t'(value_q[i] >>> CoarseShift);
      end
      if (squaring_q && square_lane_q == '0) begin
        sum_o[i] <= sum;
        coarse_row_q[i] <= coarse_sum;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (squaring_q) begin
      picked_lane_q <= square_lane_q;
      sums_index_o <= square_index_q;
    end
    if (picked_valid_q) factor_q <= coarse_row_q[picked_lane_q];
    if (factor_valid_q) begin
      product_q <= (2 * CoarseSumBits)'(factor_q) * (2 * CoarseSumBits)'(factor_q);
    end
  end

  // ---- N to binary32 ----------------------------------------------------------------------------
  long_t number_q;   // Significand, the leading bit at the top; the last bit is sticky.
  power_t power_q;   // Biased exponent of a number whose leading bit is at the top.
  localparam power_t LeastPower = -11'sd23;  // From half the least subnormal on; below is nothing.
  localparam power_t InfinitePower = 11'sd255;
  wire leads = number_q[NumberBits-1];
  wire [NumberBits-25:0] rest = number_q[NumberBits-25:0];
  localparam logic [NumberBits-25:0] Half = {1'b1, (NumberBits - 25)'(0)};
  wire rounds_up = rest > Half || (rest == Half && number_q[NumberBits-24]);
  wire [30:0] truncated = {leads ? power_q[7:0] : 8'd0, number_q[NumberBits-2-:23]};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, row_q, index_q, adding_q, valid_q, measure_q, v_exponent_o, squares_q} <= '0;
      {squaring_q, square_index_q, square_lane_q, sums_valid_o, products_q} <= '0;
      {picked_valid_q, factor_valid_q, product_valid_q} <= '0;
      {picked_last_q, factor_last_q, product_last_q, number_q, power_q, v_residual_o} <= '0;
    end else if (start_i) begin
      {state_q, row_q, index_q, adding_q, valid_q, measure_q, v_exponent_o, squares_q} <= '0;
      {squaring_q, square_index_q, square_lane_q, sums_valid_o, products_q} <= '0;
      {picked_valid_q, factor_valid_q, product_valid_q} <= '0;
      {picked_last_q, factor_last_q, product_last_q, number_q, power_q, v_residual_o} <= '0;
    end else begin
      if (word_valid_i) begin
        index_q <= row_ends ? '0 : index_q + 1'b1;
        if (row_ends) row_q <= row_q + 1'b1;
      end
      valid_q <= {valid_q[Stages-2:1], valid_q[0] && adding_q, word_valid_i};
      measure_q <= {measure_q[0], valid_q[0] && !adding_q};

      if (measure_q[1]) begin
        v_exponent_o <= larger(v_exponent_o, larger(sixteenth_q[0], sixteenth_q[1]));
      end
      if (measure_q[1] && tag_q[2].last) begin
        adding_q <= 1'b1;
        state_q <= StAdd;
      end

      if (valid_q[8]) squares_q <= squares_q + long_t'(squares_of_word_q);
      if (valid_q[8] && tag_q[8].last) begin
        state_q <= StSquare;
        squaring_q <= 1'b1;
      end

      if (squaring_q) begin
        {square_index_q, square_lane_q} <= {square_index_q, square_lane_q} + 1'b1;
        if (square_lane_q == '1 && square_index_q == last_index) squaring_q <= 1'b0;
      end
      sums_valid_o <= squaring_q && square_lane_q == '0;
      picked_valid_q <= squaring_q;
      picked_last_q <= squaring_q && square_lane_q == '1 && square_index_q == last_index;
      factor_valid_q <= picked_valid_q;
      factor_last_q <= picked_last_q;
      product_valid_q <= factor_valid_q;
      product_last_q <= factor_last_q;
      if (product_valid_q) products_q <= products_q + long_t'(product_q);
      if (product_last_q) state_q <= StSubtract;

      unique case (state_q)
        StSubtract: begin
          number_q <= (squares_q << TokenBits) - products_q;
          // N 2^(2 (v_exponent - 141) - 12), with the leading bit at the top.
          power_q <= power_t'({v_exponent_o, 1'b0}) - 11'sd294 + 11'sd127 +
              power_t'(NumberBits - 1);
          state_q <= StRaise;
        end
        StRaise: begin
          if (number_q == '0) begin
            state_q <= StDone;
          end else if (leads) begin
            state_q <= power_q < LeastPower ? StDone : StLower;
          end else begin
            number_q <= number_q << 1;
            power_q <= power_q - 1'b1;
          end
        end
        StLower: begin
          if (power_q >= 1) begin
            state_q <= StRound;
          end else begin
            number_q <= {1'b0, number_q[NumberBits-1:2], number_q[1] | number_q[0]};
            power_q <= power_q + 1'b1;
          end
        end
        StRound: begin
          v_residual_o <= power_q >= InfinitePower ? {1'b0, 8'hff, 23'd0}
                                                   : {1'b0, truncated + 31'(rounds_up)};
          state_q <= StDone;
        end
        default: ;
      endcase
    end
  end

  assign replay_o = state_q == StAdd;
  assign done_o = state_q == StDone;

endmodule
