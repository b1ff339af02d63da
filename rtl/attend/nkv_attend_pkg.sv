// What passes between the modules that turn scores into attention: ARITHMETIC.md sections 3 and 4.

package nkv_attend_pkg;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  localparam int unsigned LogitBits = 48;         // |L| < 2^47, 16 fraction bits.
  localparam int unsigned LogitFactorBits = 25;   // |C| < 2^24
  localparam int unsigned PowerBits = 11;         // e_s + b + Ek - 411, with Eq or without.
  localparam int unsigned CapBits = 41;           // K, at most 2^40.
  localparam int unsigned ReferenceBits = 32;     // M
  localparam int unsigned ShiftBits = 6;          // n of a weight that is not zero.
  localparam int unsigned LargestShift = 42;
  localparam int unsigned UnitBits = 42;          // (w << 24) >> n
  localparam int unsigned SumBits = 64;           // z and acc
  localparam int unsigned TopLatency = 5;         // Cycles that nkv_top_bits takes.

  typedef logic signed [LogitBits-1:0] logit_t;
  typedef logic signed [LogitFactorBits-1:0] logit_factor_t;
  typedef logic signed [PowerBits-1:0] power_t;
  typedef logic [CapBits-1:0] cap_t;
  typedef logic signed [ReferenceBits-1:0] reference_t;
  typedef logic [nkv_abi_pkg::WeightBits-1:0] weight_t;
  typedef logic [ShiftBits-1:0] shift_t;
  typedef logic [UnitBits-1:0] units_t;
  typedef logic signed [SumBits-1:0] sum_t;

  // M before any token was seen.
  localparam reference_t NoReference = -32'sh7fff_ffff;
  localparam logit_t LogitLimit = 48'sh7fff_ffff_ffff;

  // What all logits of a command share: sections 3.1 and 3.3.
  typedef struct packed {
    logic          capped;
    cap_t          cap;     // K, at least 1 if capped.
    power_t        power;   // e_s + b + Ek - 411; adding Eq makes X.
    logit_factor_t factor;  // C
  } logit_scale_t;

  // verilator lint_on UNUSEDPARAM

endpackage
