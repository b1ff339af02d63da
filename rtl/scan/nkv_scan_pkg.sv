// What the modules of the plane stage share (ARITHMETIC.md, sections 5 and 6): widths, and the
// structs at its interfaces. One beat of the stage is 4 tokens, one plane, up to 128 channels.

package nkv_scan_pkg;

  import nkv_abi_pkg::*;
  import nkv_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // ---- Sizes ------------------------------------------------------------------------------
  // The fold and the table loaders behind it take half of the rows at a time: 32 cycles a page, which
  // 2 planes and a digest of 128 channels hide (36 bursts). Weights that were kept load all rows at once.
  localparam int unsigned HalfRows = Rows / 2;
  // Channels that the fold takes per cycle. Channel c of a digest burst (32 channels) is taken at
  // step c % 4 by lane c / 4, so that each lane's weights belong to one table.
  localparam int unsigned FoldLanes = 8;
  localparam int unsigned FoldSteps = 4;
  localparam int unsigned WordChannels = FoldLanes * FoldSteps;  // Of one digest burst.
  localparam int unsigned Words = Channels / WordChannels;
  // Channels of one table of partial sums.
  localparam int unsigned GroupChannels = 4;
  localparam int unsigned Groups = Channels / GroupChannels;
  localparam int unsigned PageQuads = PageTokens / PlaneTokens;  // Beats of a plane.
  localparam int unsigned ScanTokens = 16;                       // Tokens of a midpoint word.
  localparam int unsigned WordQuads = ScanTokens / PlaneTokens;
  localparam int unsigned PageWords = PageTokens / ScanTokens;

  // Pages that are between fold and midpoint at a time.
  localparam int unsigned Slots = 8;
  localparam int unsigned SlotBits = $clog2(Slots);

  // ---- Widths (bounds for 128 channels) ---------------------------------------------------
  localparam int unsigned RowBits = $clog2(Rows);
  localparam int unsigned PageBits = $clog2(ListPages);
  localparam int unsigned QuadBits = $clog2(PageQuads);
  typedef logic signed [PlaneWeightBits-1:0] weight_t;  // |w| <= 1,920
  typedef logic signed [PlaneWeightBits+1:0] entry_t;   // Sum of 4 weights.
  typedef logic signed [18:0] sum_t;                // Sum of 128 weights.
  typedef logic [17:0] norm_t;                      // W
  typedef logic [28:0] squares_t;                   // Sum of w^2
  typedef logic [15:0] slack_t;                     // The remainder's part of the radius
  typedef logic signed [28:0] constant_t;           // K
  typedef logic signed [29:0] offset_t;             // K - ref, with or without planes
  typedef logic signed [22:0] partial_t;            // Planes 1..4 of a token, by Horner's rule
  typedef logic [3:0] shift_t;                      // X <= 13
  typedef logic signed [15:0] midpoint_t;
  // Of magnitude; one that reaches it is saturated.
  localparam midpoint_t MidpointLimit = 16'sh7fff;
  typedef logic [15:0] radius_t;
  typedef logic [11:0] bin_t;
  typedef logic [ListTokensLog2-1:0] coarse_count_t; // Tokens of 64 bins, of every other token.
  typedef logic [SlotBits-1:0] slot_t;
  typedef logic [RowBits-1:0] row_t;
  typedef logic [PageBits-1:0] page_t;
  typedef logic [QuadBits-1:0] quad_t;
  typedef logic [2:0] planes_t;
  typedef logic [PageTokens-1:0] tokens_t;
  typedef logic signed [59:0] score_t;              // S

  // Whether a page's midpoints and weights stay on chip.
  function automatic logic stays(page_t page, int unsigned store_pages);
    return 32'(page) < store_pages;
  endfunction
  // Where a page's midpoints lie in scratch memory otherwise, 4 tokens of all rows a burst.
  localparam int unsigned PageMidpointBytes = PageTokens * Rows * 2;
  function automatic logic [63:0] midpoints_at(page_t page);
    return 64'(page) * 64'(PageMidpointBytes);
  endfunction

  // ---- The stage's ports ------------------------------------------------------------------
  // What holds for a command.
  typedef struct packed {
    logic [RowBits:0] rows;    // Query rows in use, 1..8; what others hold is of no consequence
    logic [3:0] blocks;        // head_dim / 16, 1..8
    planes_t    planes;        // L0: planes that SCAN streams; none: it takes digests alone
    logic       statistical;   // Radius by z, else certified
    logic [7:0] z;             // Sixteenths of a standard deviation, not 0
    logic [7:0] key_exponent;  // Ek
    logic       tail;          // BEST gives saturated tokens too, pages that come in part whole,
    logic       no_best;       // and nothing else.
  } settings_t;

  // A page of SCAN or REFINE, in the order in which its bursts come.
  typedef struct packed {
    page_t              page;           // Counts pages with a token in sight.
    tokens_t            tokens;         // SCAN: visible; REFINE: alive
    logic signed [15:0] step_exponent;  // SCAN: k_step_exponent
    logic               first;          // SCAN: the reference of 5.1
  } scan_page_t;

  typedef enum logic [0:0] {
    BurstDigest,
    BurstPlane
  } burst_kind_e;

  // Bursts of K_DIGEST and of planes. A page's digest comes before its planes, by three pages at
  // most; planes 1..L0 come one after the other, each from its first token on.
  typedef struct packed {
    burst_kind_e kind;
    planes_t     plane;  // 1..4
    quad_t       quad;   // First token of the burst's granule, / 4
    logic        last;   // The page's last burst
  } burst_tag_t;

  // Tokens of a page, as BEST and ALIVE take and give them.
  typedef struct packed {
    page_t   page;
    tokens_t tokens;
    logic    rest;    // Given: some that were taken are not among them.
  } page_tokens_t;

  typedef enum logic [2:0] {
    OpStart,      // New settings; the query may come. Forgets everything before.
    OpScan,       // Takes `pages` page records and their bursts.
    OpThreshold,  // T(n) of every row.
    OpBest,       // `pages` masks: tokens in bins >= T of some row.
    OpFreeze,     // tau of every row.
    OpAlive,      // `pages` masks: tokens that may reach tau, after `planes` planes.
    OpRefine      // Takes `pages` page records and granules of plane `planes`.
  } op_e;

  typedef struct packed {
    op_e                   op;
    settings_t             settings;
    logic [PageBits:0]     pages;
    planes_t               planes;
    logic [13:0]           count;     // n, at most 8,192
  } op_t;

  // ---- Inside -----------------------------------------------------------------------------
  // What the fold knows of one row of a page.
  typedef struct packed {
    slot_t     slot;
    row_t      row;
    constant_t constant;
    sum_t      sum;      // Sum of w
    norm_t     norm;
    squares_t  squares;
    slack_t    slack;
  } row_terms_t;

  // What accompanies a beat of 4 tokens.
  typedef struct packed {
    slot_t slot;
    quad_t quad;
    logic  begins;     // First plane of a token
    logic  completes;  // Last plane: its midpoint can be made
    logic  last;       // Last beat of its page
  } beat_t;

  // verilator lint_on UNUSEDPARAM

endpackage
