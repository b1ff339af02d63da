// Of BOUNDED's samples (ARITHMETIC.md section 8).

package nkv_sample_pkg;
  import nkv_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  localparam int unsigned Levels = 152;
  localparam int unsigned LevelBits = $clog2(Levels + 1);
  localparam int unsigned CountBits = ListTokensLog2 + 1;
  localparam int unsigned HalvingsBits = 5;
  localparam int unsigned MostHalvings = 16;
  localparam int unsigned Groups = 7;
  localparam int unsigned Sums = Groups + 1;    // Of a row: its state, then the groups.
  localparam int unsigned GroupBits = $clog2(Sums);
  localparam int unsigned LogBits = 42;         // Logarithms,
  localparam int unsigned FractionBits = 24;    // with so many fraction bits.

  typedef logic [LevelBits-1:0] level_t;        // 152 is beyond all.
  typedef logic [CountBits-1:0] count_t;        // Tokens of a level.
  typedef logic [HalvingsBits-1:0] halvings_t;  // j
  typedef logic [GroupBits-1:0] sample_group_t; // 1 to 7; 0 is the state's sum.
  typedef logic signed [LogBits-1:0] log_t;
  typedef logic signed [25:0] output_t;         // o_c

  localparam level_t NoLevel = level_t'(Levels);
  localparam log_t NoVariance = -log_t'(42'd1 << 40);

endpackage
