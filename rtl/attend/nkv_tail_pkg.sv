// What passes between the modules of ATTEND TAIL: ARITHMETIC.md section 7.

package nkv_tail_pkg;

  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_attend_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // L as a function of midpoints: lines of 256 midpoints each.
  localparam int unsigned Segments = 256;
  localparam int unsigned SegmentBits = $clog2(Segments);
  localparam int unsigned PlaceBits = 16 - SegmentBits;  // In a segment.
  localparam int unsigned RiseBits = 26;
  typedef logic [SegmentBits-1:0] segment_t;
  typedef logic signed [RiseBits-1:0] rise_t;

  typedef struct packed {
    logit_t start;  // L at the segment's start,
    rise_t  rise;   // and how much it rises in it.
  } line_t;

  // Tokens whose weights are taken per cycle, of all rows.
  localparam int unsigned TailTokens = 4;
  localparam int unsigned PageQuads = PageTokens / TailTokens;
  localparam int unsigned TailLineLatency = 5;

  // Pages whose answers may wait until their bodies come: those of a memory's latency.
  localparam int unsigned TailAnswers = 32;

  // P of a page.
  localparam int unsigned RestUnitsBits = UnitBits + $clog2(PageTokens);
  typedef logic [RestUnitsBits-1:0] rest_units_t;

  // A page's tokens that are not read: what they weigh together, as one token of L >> 16 = `whole`.
  // `weight` is 0 if they weigh nothing.
  typedef struct packed {
    reference_t whole;
    weight_t    weight;
  } rest_weight_t;

  localparam rest_weight_t NoRest = '{whole: NoReference, weight: '0};

  // Four tokens of all rows on their way through the lines, and the logits of their midpoints.
  typedef struct packed {
    logic        valid;
    logic        last;                      // Of their page.
    page_index_t page;
    logic [$clog2(PageQuads)-1:0] quad;
    logic [TailTokens-1:0] counts;          // Those that came with the page,
    logic [TailTokens-1:0] saturated;       // less those whose midpoint says nothing in some row.
    logit_t [Rows-1:0][TailTokens-1:0] logit;
  } tail_quad_t;

  // verilator lint_on UNUSEDPARAM

endpackage
