// What the modules of the selector share. A candidate is a token of the list and its exact score S
// (ARITHMETIC.md 1.5); candidates rank by score descending, then token ascending.

package nkv_select_pkg;

  localparam int unsigned ScoreBits = 60;
  localparam int unsigned TokenBits = 20;
  localparam int unsigned BinBits = 12;
  // A score less the row's reference, biased: see nkv_score_bin.
  localparam int unsigned WordBits = 64;

  // verilator lint_off UNUSEDPARAM
  // A row's reference, and its bins, are in units of 2^this: see nkv_score_bin.
  localparam int unsigned ReferenceShift = 32;
  // Cycles from a score to its binary32 number.
  localparam int unsigned ScoreFloatLatency = 14;
  // verilator lint_on UNUSEDPARAM

  typedef logic signed [ScoreBits-1:0] score_t;
  typedef logic [TokenBits-1:0] token_t;
  typedef logic [BinBits-1:0] bin_t;
  typedef logic [WordBits-1:0] word_t;

  typedef enum logic {
    SelectStart,   // Forgets all and begins with k, reference and shift.
    SelectFinish   // Asks for the best k in order.
  } select_command_e;

  function automatic logic ranks_before(score_t score, token_t token, score_t other_score,
                                        token_t other_token);
    return {!score[ScoreBits-1], score[ScoreBits-2:0], ~token} >
           {!other_score[ScoreBits-1], other_score[ScoreBits-2:0], ~other_token};
  endfunction

endpackage
