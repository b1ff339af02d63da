// The smallest step whose 256 cells hold a channel: ARITHMETIC.md section 2.1. A channel per cycle,
// 11 cycles later at the output.
//
// Let E be the larger exponent of lo and hi, G = 2^(E - 140), a = floor(lo / G), b = floor(hi / G).
// Both are 15 bits wide, and for a step of k G, k an integer, idx(lo) = floor(a / k), likewise hi.
// - A step fits only if b - a < 256 k (else the indices differ by 256) and -512 k <= a < 512 k (the
//   limits of base). With a' = a, or ~a where a is negative, that is k > t = max((b - a) >> 8,
//   a' >> 9), and t < 128. As the far end is at least 2^13 G from zero, t >= 8.
// - From the first m * 2^j > t on, the next one fits for sure: it is at least 16/15 as large, so
//   the indices differ by at most 241, and by 244 from 4 * base.
// So it is one of these two, at j = 0..4, and the first one is tried.

module nkv_digest_step
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,   // Forgets the channels under way.

  input  logic        valid_i,
  input  key_number_t low_i,
  input  key_number_t high_i,

  output logic        valid_o,
  output cells_t      cells_o,
  output exponent_t   largest_o  // E.
);

  localparam int unsigned Latency = 11;

  typedef struct packed {
    logic      exists;
    logic      low_negative;
    logic      high_negative;
    exponent_t largest;
  } side_t;

  // The first m * 2^j above t.
  typedef struct packed {
    logic [2:0]  shift;  // j
    multiplier_t multiplier;
  } candidate_t;

  function automatic candidate_t candidate_above(logic [6:0] t);
    candidate_t candidate;
    candidate.shift = t[6] ? 3'd3 : t[5] ? 3'd2 : t[4] ? 3'd1 : 3'd0;
    // m = 8 + the 3 bits behind the leading one, + 1; 16 is 8 at the next j.
    candidate.multiplier = 3'(t >> candidate.shift);
    return candidate + 1'b1;
  endfunction

  // How far a number of this exponent lies below the largest; from 15 on nothing of it is left.
  function automatic logic [3:0] distance_of(exponent_t largest, exponent_t own);
    exponent_t difference = largest - own;
    return difference[7:4] != '0 ? '1 : difference[3:0];
  endfunction

  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  side_t side_q[Latency];       // Likewise.

  key_number_t low_q, high_q;
  magnitude_t low_magnitude_q, high_magnitude_q;
  logic [3:0] low_distance_q, high_distance_q;
  magnitude_t low_shifted_q, high_shifted_q;  // a' and b'.
  logic [6:0] width_q, t_q;
  magnitude_t low_wait_q[3];
  magnitude_t high_wait_q[3];
  candidate_t candidate_q[5];
  magnitude_t low_scaled_q, high_scaled_q;
  reciprocal_t reciprocal_q;
  quotient_t low_quotient_q, high_quotient_q;
  cell_index_t low_index_q, high_index_q;
  logic fits_q;

  wire signed [MagnitudeBits:0] low_integer =
      side_q[2].low_negative ? ~{1'b0, low_shifted_q} : {1'b0, low_shifted_q};
  wire signed [MagnitudeBits:0] high_integer =
      side_q[2].high_negative ? ~{1'b0, high_shifted_q} : {1'b0, high_shifted_q};
  wire cell_index_t low_base = low_index_q & ~cell_index_t'(CodeBaseStep - 1);
  wire [6:0] low_limit = 7'(low_wait_q[0] >> 9);
  wire candidate_t next = candidate_q[4] + 1'b1;
  wire candidate_t chosen = fits_q ? candidate_q[4] : next;

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      low_q <= low_i;
      high_q <= high_i;
      side_q[0].exists <= low_i.exponent != '0 || high_i.exponent != '0;
      side_q[0].low_negative <= low_i.negative;
      side_q[0].high_negative <= high_i.negative;
      side_q[0].largest <= low_i.exponent > high_i.exponent ? low_i.exponent : high_i.exponent;
    end
    for (int unsigned k = 1; k < Latency; k++) if (valid_q[k-1]) side_q[k] <= side_q[k-1];
    if (valid_q[0]) begin
      low_magnitude_q <= magnitude_of(low_q);
      high_magnitude_q <= magnitude_of(high_q);
      low_distance_q <= distance_of(side_q[0].largest, low_q.exponent);
      high_distance_q <= distance_of(side_q[0].largest, high_q.exponent);
    end
    if (valid_q[1]) begin
      low_shifted_q <= low_magnitude_q >> low_distance_q;
      high_shifted_q <= high_magnitude_q >> high_distance_q;
    end
    if (valid_q[2]) begin
      // The difference is never negative, and has 15 bits.
      width_q <= 7'((MagnitudeBits + 1)'(high_integer - low_integer) >> 8);
      low_wait_q[0] <= low_shifted_q;
      high_wait_q[0] <= high_shifted_q;
    end
    if (valid_q[3]) begin
      t_q <= width_q > low_limit ? width_q : low_limit;
      low_wait_q[1] <= low_wait_q[0];
      high_wait_q[1] <= high_wait_q[0];
    end
    if (valid_q[4]) begin
      candidate_q[0] <= candidate_above(t_q);
      low_wait_q[2] <= low_wait_q[1];
      high_wait_q[2] <= high_wait_q[1];
    end
    if (valid_q[5]) begin
      low_scaled_q <= low_wait_q[2] >> candidate_q[0].shift;
      high_scaled_q <= high_wait_q[2] >> candidate_q[0].shift;
      reciprocal_q <= reciprocal_of(candidate_q[0].multiplier);
      candidate_q[1] <= candidate_q[0];
    end
    if (valid_q[6]) begin
      low_quotient_q <= quotient_t'(low_scaled_q) * quotient_t'(reciprocal_q);
      high_quotient_q <= quotient_t'(high_scaled_q) * quotient_t'(reciprocal_q);
      candidate_q[2] <= candidate_q[1];
    end
    if (valid_q[7]) begin
      low_index_q <= index_of(side_q[7].low_negative, low_quotient_q);
      high_index_q <= index_of(side_q[7].high_negative, high_quotient_q);
      candidate_q[3] <= candidate_q[2];
    end
    if (valid_q[8]) begin
      fits_q <= high_index_q - low_base <= cell_index_t'(LargestCode);
      candidate_q[4] <= candidate_q[3];
    end
    if (valid_q[9]) begin
      cells_o.exists <= side_q[9].exists;
      cells_o.multiplier <= chosen.multiplier;
      cells_o.step <= step_t'({2'd0, side_q[9].largest}) + step_t'({7'd0, chosen.shift});
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], valid_i};
  end

  assign valid_o = valid_q[Latency-1];
  assign largest_o = side_q[Latency-1].largest;

endmodule
