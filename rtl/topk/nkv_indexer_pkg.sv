// What passes between the modules of TOPK INDEXER (ARITHMETIC.md section 6).

package nkv_indexer_pkg;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  localparam int unsigned WeightBits = 28;      // ŵ
  localparam int unsigned ScaleBits = 24;       // m_κ
  localparam int unsigned FractionBits = 48;    // R is an exponent and these bits, negated if need be.
  localparam int unsigned SharedBits = 9;       // X

  typedef logic signed [WeightBits-1:0] indexer_weight_t;
  typedef logic [SharedBits-1:0] shared_t;

  // verilator lint_on UNUSEDPARAM

endpackage
