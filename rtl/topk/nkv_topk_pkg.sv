// What TOPK, and TAIL's and BOUNDED's search, do one after the other (nkv_topk_order).

package nkv_topk_pkg;

  typedef enum logic [4:0] {
    StIdle,
    StStart,       // The plane stage is told what holds for the command.
    StScanOp,
    StScan,
    StTail,        // TAIL: until visits may be made.
    StRounds,      // BOUNDED: all that is read after the scan.
    StSelect,      // Selectors begin; in FULL only if no row has begun them.
    StThreshold,
    StBest,        // The best 2k midpoints, and their rows.
    StRank,        // The k-th best score of each row.
    StFreeze,
    StAlive,       // Who may still reach it, with the planes so far.
    StRefine,
    StLeft,        // Who may with all planes, and their rows.
    StFull,        // FULL: all rows.
    StScores,      // Until the last score is ranked.
    StFinish,
    StResult,
    StWrite,
    StFail,
    StDone
  } state_e;

  // What the state waits for: on which the order of states depends.
  typedef struct packed {
    logic op_ready;         // The plane stage is idle, or takes an operation.
    logic query_taken;
    logic any_pages;        // In sight.
    logic visits_wait;      // TAIL, BOUNDED: no visit yet.
    logic rounds_done;
    logic selected;         // Selectors have taken the command,
    logic answered;         // and ended it, all of them.
    logic full_started;     // FULL, INDEXER: a first score has begun them.
    logic scores_over;
    logic all_picked;
    logic any_alive;
    logic refined;          // All that was to be refined has been fed and read;
    logic poisoned;         // some of it was poisoned, or some midpoints that came back.
    logic written;
  } progress_t;

endpackage
