// What passes between the modules that take rows apart and score them exactly.

package nkv_exact_pkg;

  import nkv_pkg::*;
  import nkv_abi_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // Words of ExactLanes channels that the widest row has.
  localparam int unsigned RowWords = Channels / ExactLanes;
  localparam int unsigned WordBits = $clog2(RowWords);
  // Row lengths are counted in these.
  localparam int unsigned ChunkChannels = 16;
  localparam int unsigned RowChunks = Channels / ChunkChannels;
  localparam int unsigned ChunkBits = $clog2(RowChunks);
  localparam int unsigned RowIndexBits = $clog2(Rows);

  localparam int unsigned ExponentBits = 8;       // As in binary32, biased.
  localparam int unsigned SignificandBits = 24;
  localparam int unsigned ScoreBits = 60;         // |S| < 2^59.
  // The multipliers of the exact stage: all rows by all lanes of a word.
  localparam int unsigned Products = Rows * ExactLanes;
  localparam int unsigned FactorBits = 35;        // What keys and values are multiplied by.
  localparam int unsigned ProductBits = KeyBits + FactorBits;
  localparam int unsigned QueryPlace = FactorBits - QueryBits;  // q is its factor's upper part.

  typedef logic [WordBits-1:0] word_index_t;
  typedef logic [RowIndexBits-1:0] row_index_t;
  typedef logic [ExponentBits-1:0] exponent_t;
  typedef logic [SignificandBits-1:0] significand_t;
  typedef logic signed [QueryBits-1:0] query_t;   // One channel of q, ARITHMETIC.md section 1.1.
  typedef logic signed [KeyBits-1:0] key_t;       // Of k (1.2); v (1.3) fits too.
  typedef logic signed [ValueBits-1:0] value_t;   // Of v.
  typedef logic signed [ScoreBits-1:0] score_t;
  typedef logic signed [FactorBits-1:0] factor_t;
  typedef logic signed [ProductBits-1:0] product_t;  // [row * ExactLanes + lane]
  typedef logic [$clog2(Channels+1)-1:0] dim_t;   // A multiple of ChunkChannels.
  typedef logic [$clog2(Rows+1)-1:0] group_t;

  // A finite element: ±significand * 2^(exponent - 150).
  typedef struct packed {
    logic         negative;
    exponent_t    exponent;
    significand_t significand;
  } number_t;

  // How the stored rows of a pass read. Held while rows of the pass are on their way.
  typedef struct packed {
    logic      values;         // v instead of k.
    exponent_t list_exponent;  // Ek or Ev.
    dim_t      used_dim;       // Leading channels that come out; fewer with v_form NONE.
    dim_t      stored_dim;
    dtype_e    dtype;          // Of RAW rows; not fp32.
    row_form_e form;           // RAW or DELTA4.
  } row_format_t;

  // Granules of 8 bytes of a stored row.
  function automatic logic [5:0] row_granules(row_form_e form, dtype_e dtype, dim_t dim);
    return 6'(row_bytes(form, dtype, 32'(dim)) >> 3);
  endfunction

  // verilator lint_on UNUSEDPARAM

endpackage
