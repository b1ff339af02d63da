// Of BOUNDED's samples (ARITHMETIC.md section 8).

package nkv_sample_pkg;
  import nkv_pkg::*;
  import nkv_attend_pkg::*;

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

  // What a walk over midpoints is for (nkv_sample_pick): with PickNone pages pass as with PickGive, but
  // none of their tokens is drawn.
  typedef enum logic [1:0] {
    PickCount,
    PickDraw,
    PickGive,
    PickNone
  } pick_e;

  // A page on its way through ATTEND.
  typedef struct packed {
    page_body_t  body;
    token_mask_t sampled;  // Tokens of the body's that are sampled.
    logic        rest;     // What the others weigh together counts.
  } attend_page_t;

  // What rounds make of a command.
  typedef struct packed {
    logic        failed;        // A page could not be used.
    logic        dense;         // It is to be read densely.
    logic        capped;        // The last round's result stands; without a round the state's.
    logic [2:0]  rounds;
    logic [31:0] sum_bursts;    // Of the first round,
    logic [31:0] exact_bursts;
    logic [31:0] value_bursts;  // with those of sums in later ones.
  } rounds_outcome_t;

  // What rounds want of nkv_attend,
  typedef struct packed {
    token_mask_t   page_sampled;   // Of the page that is announced, a cycle later: those sampled,
    logic          page_rest;      // and whether its rest counts.
    logic          clear_groups;
    logic          measure;        // For one cycle.
    logic          sampled_valid;  // A sampled token, in order:
    logit_t        [Rows-1:0] logit;  // of its midpoint,
    halvings_t     halvings;
    sample_group_t group;
  } sample_orders_t;

  // and what it has to say.
  typedef struct packed {
    logic taken;                   // All that was read has been added.
    logic measured;                // For one cycle; what follows stands until the next.
    logic all_within;
    log_t log_error;
    logic [Rows-1:0] known;
    log_t [Rows-1:0] log_bound;
  } sample_report_t;

  // verilator lint_on UNUSEDPARAM

endpackage
