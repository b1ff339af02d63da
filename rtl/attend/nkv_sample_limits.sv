// The thresholds of a round (ARITHMETIC.md 8.2), a row after the other: the first round's, or those by
// which the variance that each row had falls as far as its last bound asks. About 175 cycles a row.

module nkv_sample_limits
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_sample_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       clear_i,          // Before each command.

  input  logic       start_i,          // While idle; the rest is held until done_o.
  input  group_t     rows_i,
  input  logic       first_i,          // Round 1. Later, what the last sample says of each row:
  input  logic       known_i[Rows],    // there is a beta,
  input  log_t       log_bound_i[Rows],  // this,
  input  log_t       log_error_i,      // where this was wanted.

  output row_index_t read_row_o,       // The count of a level, a cycle later.
  output level_t     read_level_o,
  input  count_t     count_i,

  output logic       done_o,           // For one cycle.
  output level_t     threshold_o[Rows]  // Until the next start.
);

  localparam log_t Margin = log_t'(1) <<< (FractionBits - 2);
  localparam log_t BlindStep = log_t'(6) <<< FractionBits;

  typedef enum logic [2:0] {
    StIdle,
    StOver,    // How far the row's bound is too large,
    StLimit,   // and what its variance may be.
    StWalk,
    StWait,
    StKeep
  } state_e;

  state_e     state_q;
  row_index_t row_q;
  log_t       over_q, limit_q, log_variance, log_variance_q[Rows];
  logic       known_q, walked, unused_read;
  level_t     level, threshold_q[Rows];
  wire        last_row = group_t'(row_q) + 1'b1 >= rows_i;

  nkv_sample_threshold u_threshold (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i       (state_q == StWalk),
    .first_i,
    .limit_i       (limit_q),
    .read_o        (unused_read),
    .read_level_o,
    .count_i,
    .done_o        (walked),
    .level_o       (level),
    .log_variance_o(log_variance)
  );
  assign read_row_o = row_q;
  assign threshold_o = threshold_q;

  always_ff @(posedge clk_i) begin
    over_q <= log_bound_i[row_q] - log_error_i;
    known_q <= known_i[row_q];
    if (state_q == StLimit) begin
      limit_q <= log_variance_q[row_q] - (!known_q ? BlindStep
          : over_q > log_t'(0) ? (over_q <<< 1) + Margin : log_t'(0));
    end
    if (state_q == StKeep) begin
      threshold_q[row_q] <= level;
      log_variance_q[row_q] <= log_variance;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      row_q <= '0;
      done_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      row_q <= '0;
      done_o <= 1'b0;
    end else begin
      done_o <= state_q == StKeep && last_row;
      unique case (state_q)
        StIdle: begin
          row_q <= '0;
          if (start_i) state_q <= StOver;
        end
        StOver: state_q <= StLimit;
        StLimit: state_q <= StWalk;
        StWalk: state_q <= StWait;
        StWait: if (walked) state_q <= StKeep;
        StKeep: begin
          row_q <= row_q + 1'b1;
          state_q <= last_row ? StIdle : StOver;
        end
        default: state_q <= StIdle;
      endcase
    end
  end

endmodule
