// What passes between the modules that make codes: ARITHMETIC.md section 11.

package nkv_codes_pkg;

  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  localparam int unsigned FixedBits = 15;
  localparam int unsigned HighBits = 11;     // Of a significand: the others are zero.
  localparam int unsigned LengthBits = 15 + $clog2(Channels);
  localparam int unsigned SumBits = FixedBits + TokenBits;
  localparam int unsigned FixedUnit = 140;   // A unit of a fixed element is 2^(X - 140).
  localparam int unsigned CellBits = KeyCodePlanes;

  typedef logic signed [FixedBits-1:0] fixed_t;   // |x| < 2^14 (11.3).
  typedef logic signed [15:0] residual_t;         // Of a row, as it is, scaled and transformed.
  typedef logic [LengthBits-1:0] length_t;        // Sum of a row's magnitudes.
  typedef logic signed [7:0] octaves_t;           // A gain, in sixteenths of octaves.
  typedef logic signed [7:0] mean_t;
  typedef logic [2:0] mean_shift_t;               // p of 11.4.
  typedef logic signed [9:0] top_t;               // X of 11.3.
  typedef logic [3:0] sign_set_t;
  typedef logic [$clog2(LengthBits+1)-1:0] length_bits_t;
  typedef logic signed [12:0] sixteenths_t;       // A logarithm, in sixteenths of octaves.
  typedef logic [3:0] code_factor_t;                   // 11.6.
  typedef logic signed [CellBits-1:0] cell_t;     // u of 11.5.

  // A tensor that is to get codes.
  typedef struct packed {
    logic      is_value;   // V: no gains, VALUE_CODE_PLANES planes.
    logic      of_keys;    // Its rows are the leading channels of the keys.
    dim_t      dim;        // Channels, at least ChunkChannels.
    top_t      top;        // X.
    sign_set_t sign_set;
  } code_job_t;

  // What a page's header says of one tensor's codes.
  typedef struct packed {
    logic signed [15:0] mean_power;
    logic signed [15:0] top;
  } code_powers_t;

  // G of 11.2.
  function automatic logic [11:0] octave(logic [3:0] sixteenth);
    unique case (sixteenth)
      4'd0: return 12'd2048;
      4'd1: return 12'd2139;
      4'd2: return 12'd2233;
      4'd3: return 12'd2332;
      4'd4: return 12'd2435;
      4'd5: return 12'd2543;
      4'd6: return 12'd2656;
      4'd7: return 12'd2774;
      4'd8: return 12'd2896;
      4'd9: return 12'd3025;
      4'd10: return 12'd3158;
      4'd11: return 12'd3298;
      4'd12: return 12'd3444;
      4'd13: return 12'd3597;
      4'd14: return 12'd3756;
      default: return 12'd3922;
    endcase
  endfunction

  // The least high part of a significand whose product with G reaches the next octave.
  function automatic logic [HighBits:0] octave_reach(logic [3:0] sixteenth);
    unique case (sixteenth)
      4'd0: return 12'd2048;
      4'd1: return 12'd1961;
      4'd2: return 12'd1879;
      4'd3: return 12'd1799;
      4'd4: return 12'd1723;
      4'd5: return 12'd1650;
      4'd6: return 12'd1580;
      4'd7: return 12'd1513;
      4'd8: return 12'd1449;
      4'd9: return 12'd1387;
      4'd10: return 12'd1329;
      4'd11: return 12'd1272;
      4'd12: return 12'd1218;
      4'd13: return 12'd1167;
      4'd14: return 12'd1117;
      default: return 12'd1070;
    endcase
  endfunction

  // Of word `word` of a row of `dim` channels: log2 of the words of its Hadamard block, whose
  // words are aligned to twice as many.
  function automatic logic [1:0] block_fold(dim_t dim, word_index_t word);
    automatic logic [$clog2(RowWords):0] words = ($clog2(RowWords) + 1)'(dim >> $clog2(ExactLanes));
    automatic logic [1:0] fold = '0;
    for (int unsigned k = 1; k <= $clog2(RowWords); k++) begin
      if (words[k] && ($clog2(RowWords) + 1)'(word) >> k == (words >> k) - 1'b1) fold = 2'(k);
    end
    return fold;
  endfunction

  // log2 of the size of a row's last block, whose square root scales the transform.
  function automatic logic [2:0] last_block_log2(dim_t dim);
    automatic logic [2:0] log2 = '0;
    for (int i = $bits(dim_t) - 1; i >= 0; i--) if (dim[i]) log2 = 3'(i);
    return log2;
  endfunction

  // Signs of ExactLanes channels of a set (11.1): bit c is set where that of channel c is a minus.
  function automatic logic [31:0] mix(logic [31:0] value);
    automatic logic [31:0] mixed = (value ^ (value >> 16)) * 32'h21F0_AAAD;
    mixed = (mixed ^ (mixed >> 15)) * 32'h735A_2D97;
    return mixed ^ (mixed >> 15);
  endfunction
  typedef logic [SignSets-1:0][RowWords-1:0][ExactLanes-1:0] signs_t;
  function automatic signs_t all_signs();
    automatic signs_t signs = '0;
    for (int unsigned set = 0; set < SignSets; set++) begin
      for (int unsigned word = 0; word < RowWords; word++) begin
        signs[set][word] = mix(32'h9E37_79B9 * (MaxHeadDim / ExactLanes * set + word + 1));
      end
    end
    return signs;
  endfunction
  localparam signs_t Signs = all_signs();

  // ---- What scores by codes (12, 14) ----
  // A plane's bits of so many tokens are looked up at once.
  localparam int unsigned SliceTokens = BurstBits / Channels;
  localparam int unsigned Slices = PageTokens / SliceTokens;
  localparam int unsigned TransformedBits = QueryBits + $clog2(Channels);
  localparam int unsigned GroupChannels = 4;        // That one look-up is for.
  localparam int unsigned WeightSumBits = 16;       // Of any of a row's weights.
  localparam int unsigned WeightPowerBits = 5;
  localparam int unsigned CodeSumBits = WeightSumBits + CellBits - 1;
  localparam int unsigned CodeLogitBits = 31;       // |logit of a mean| <= 2^29.
  localparam int unsigned CodeFractionBits = 7;

  typedef logic [$clog2(Slices)-1:0] slice_index_t;
  typedef logic [$clog2(KeyCodePlanes)-1:0] plane_t;
  typedef logic [GroupChannels-1:0] group_bits_t;
  typedef logic signed [WeightSumBits-1:0] code_weight_t;  // w, and sums of a row's.
  typedef logic [WeightPowerBits-1:0] weight_power_t;      // a
  typedef logic signed [CodeSumBits-1:0] code_sum_t;       // x
  typedef logic signed [CodeLogitBits-1:0] code_logit_t;
  typedef logic signed [CodeLogitBits-CodeFractionBits-1:0] code_octaves_t;  // I
  typedef logic signed [15:0] code_above_t;                // R
  typedef logic signed [19:0] search_top_t;                // T
  typedef logic signed [16:0] code_power_t;                // kappa, s
  typedef logic signed [21:0] code_variance_t;             // Lambda, nu
  typedef logic signed [38:0] threshold_t;                 // Of tau, 7 fraction bits.

  localparam code_variance_t LeastVariance = -22'sd160;

  // What a query row is before codes, in a search (14.2).
  typedef struct packed {
    logic           is_zero;
    code_power_t    search_power;  // s
    code_power_t    power;         // kappa
    code_variance_t variance;      // Lambda
  } code_row_t;

  // What all rows make of one of a page's factors.
  localparam int unsigned Factors = 16;
  typedef logic [20:0] multiplied_t;            // G * ratio
  typedef struct packed {
    logic               none;       // Factor 0: no residual,
    logic               least;      // nor of any other token.
    multiplied_t        product;
    logic signed [14:0] power;      // o + 27 - b
    code_variance_t     variance;   // 2 * lambda' + delta
    logic [15:0]        deviations; // z * 185, of the command.
  } factor_step_t;

  // Passes over all tokens that find the best ones (14.1).
  typedef enum logic [1:0] {
    BestMeasure,  // Their largest logit.
    BestCount,
    BestTell
  } best_pass_e;

  // A page whose tokens are to be scored by codes.
  typedef struct packed {
    logic                        set_bank;    // Where its sign set's tables are.
    logic signed [15:0]          top;         // k_top
    logic signed [15:0]          mean_power;  // k_mean_power
    token_mask_t                 tokens;      // That count.
    logic [$clog2(Slices+1)-1:0] slices;      // Of which planes come, at least 1.
  } code_page_t;

  // ratio of 11.7 and delta of 12.4, of K, by planes less one.
  localparam logic [KeyCodePlanes-1:0][8:0] KeyRatios = '{9'd256, 9'd259, 9'd267, 9'd276};
  localparam logic signed [KeyCodePlanes-1:0][7:0] KeyVariances = '{-8'sd84, -8'sd61, -8'sd33, 8'sd0};

  // verilator lint_on UNUSEDPARAM

endpackage
