// Radix selection among the members of the threshold bin: which bits of their order words and
// tokens are decided, and what each candidate that is replayed means for it. Per pass, a digit is
// looked at, from the highest in which members of a bin can differ; the token's bits come last,
// inverted, because the lower token is the better one.
// - threshold_i and shift_i stand from the cycle before begin_i on. begin_i forgets all: then every
//   member of the threshold bin is kept.
// - In a pass, digit_valid_o and digit_o are a member's digit, two cycles after the candidate.
// - advance_i takes the digit that was found. is_last_o: all bits are decided then.
// - keep_o, two cycles after the candidate: it lies above the bin, or in it and not below the cut.
// With digits of 6 bits at most 15 passes; 5 where all members have one score.

module nkv_select_cut
  import nkv_select_pkg::*;
#(
  parameter int unsigned DigitBits = 6,
  localparam type digit_t = logic [DigitBits-1:0]
) (
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       begin_i,
  input  bin_t       threshold_i,
  input  logic [5:0] shift_i,      // Of nkv_score_bin.

  input  logic       pass_i,       // A pass begins.
  input  logic       valid_i,
  input  word_t      word_i,
  input  token_t     token_i,
  input  bin_t       bin_i,
  output logic       digit_valid_o,
  output digit_t     digit_o,
  output logic       keep_valid_o,
  output logic       keep_o,

  input  logic       advance_i,
  input  digit_t     digit_i,
  output logic       is_last_o
);

  localparam int unsigned PlaceBits = 6;
  typedef logic [PlaceBits-1:0] place_t;
  typedef logic [DigitBits+6:0] window_t;  // Holds a digit from any of its low 8 places on.
  localparam place_t WordTop = place_t'(WordBits - DigitBits);
  localparam place_t TokenTop = place_t'(TokenBits - DigitBits);

  logic in_token_q;        // The word is decided.
  place_t place_q;         // Lowest bit of the digit that is looked at.
  word_t word_care_q, word_cut_q;
  token_t token_care_q, token_cut_q;

  logic some_q, one_word_q;  // Members of this pass: any, and all with the first one's word.
  logic differs_q;           // From the first one's.
  word_t first_word_q;

  // The members of a bin share the bits above 36 + shift, except in the bins that take the rest.
  wire is_edge = threshold_i == '0 || threshold_i == '1;
  // Both stand for many cycles before they are needed.
  place_t first_place_q, lower_place_q;
  always_ff @(posedge clk_i) begin
    if (is_edge || shift_i >= 6'(WordBits - 36)) first_place_q <= WordTop;
    else first_place_q <= shift_i + place_t'(36 - DigitBits);
    lower_place_q <= place_q > place_t'(DigitBits) ? place_q - place_t'(DigitBits) : '0;
  end

  // What a candidate is, in pieces first, then as a whole.
  wire token_t inverse = ~token_i;
  wire word_t word_part = word_i & word_care_q;
  wire token_t token_part = inverse & token_care_q;
  wire place_t coarse_place = {place_q[PlaceBits-1:3], 3'b0};

  logic valid_q;
  logic above_bin_q, in_bin_q;
  logic word_above_q, word_equal_q, token_reaches_q, token_equal_q;
  window_t window_q;
  word_t word_q;
  wire is_member = in_bin_q && word_equal_q && token_equal_q;

  assign is_last_o = in_token_q && place_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      digit_valid_o <= 1'b0;
      keep_valid_o <= 1'b0;
    end else begin
      valid_q <= valid_i;
      digit_valid_o <= valid_q && is_member;
      keep_valid_o <= valid_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      above_bin_q <= bin_i > threshold_i;
      in_bin_q <= bin_i == threshold_i;
      word_above_q <= word_part > word_cut_q;
      word_equal_q <= word_part == word_cut_q;
      token_reaches_q <= token_part >= token_cut_q;
      token_equal_q <= token_part == token_cut_q;
      window_q <= in_token_q ? window_t'(inverse >> coarse_place)
                             : window_t'(word_i >> coarse_place);
      word_q <= word_i;
    end
    if (valid_q) begin
      digit_o <= digit_t'(window_q >> place_q[2:0]);
      keep_o <= above_bin_q ||
                (in_bin_q && (word_above_q || (word_equal_q && token_reaches_q)));
    end
    if (begin_i || pass_i) begin
      some_q <= 1'b0;
      one_word_q <= 1'b1;
    end else if (valid_q && is_member) begin
      some_q <= 1'b1;
      if (!some_q) first_word_q <= word_q;
    end
    if (valid_q) differs_q <= some_q && word_q != first_word_q;
    if (digit_valid_o && differs_q) one_word_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (begin_i) begin
      in_token_q <= 1'b0;
      place_q <= first_place_q;
      word_care_q <= '0;
      word_cut_q <= '0;
      token_care_q <= '0;
      token_cut_q <= '0;
    end else if (advance_i) begin
      if (in_token_q) begin
        token_care_q <= token_care_q | (token_t'(digit_t'('1)) << place_q);
        token_cut_q <= token_cut_q | (token_t'(digit_i) << place_q);
        place_q <= lower_place_q;
      end else if (one_word_q) begin
        word_care_q <= '1;
        word_cut_q <= first_word_q;
        in_token_q <= 1'b1;
        place_q <= TokenTop;
      end else begin
        word_care_q <= word_care_q | (word_t'(digit_t'('1)) << place_q);
        word_cut_q <= word_cut_q | (word_t'(digit_i) << place_q);
        in_token_q <= place_q == '0;
        place_q <= place_q == '0 ? TokenTop : lower_place_q;
      end
    end
  end

endmodule
