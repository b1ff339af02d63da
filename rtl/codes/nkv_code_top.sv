// X of ARITHMETIC.md 11.3: the largest power of two that the gained elements of a tensor reach. A
// word per cycle; what is said stands 9 cycles after a tensor's last word, and until 8 after the
// first word of the next one.

module nkv_code_top
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
#(
  parameter int unsigned Lanes = ExactLanes  // A power of two.
) (
  input  logic                clk_i,
  input  logic                rst_ni,

  input  logic                valid_i,
  input  logic                first_i,            // Word of its tensor.
  input  exponent_t           exponent_i[Lanes],
  input  logic [HighBits-1:0] high_i[Lanes],      // Of significands; 0 of what counts as zero.
  input  octaves_t            gain_i[Lanes],

  output top_t                top_o               // 0 without an element.
);

  localparam int unsigned Levels = $clog2(Lanes);
  localparam int unsigned Latency = Levels + 2;
  // X is at least 1 - 8, so that with this added 0 says that there is no element.
  localparam int unsigned Offset = 8;
  typedef logic [8:0] reach_t;

  logic [HighBits:0]   least_q[Lanes];
  logic [HighBits-1:0] high_q[Lanes];
  reach_t              octave_q[Lanes];
  reach_t              node[2*Lanes];
  logic [Latency-1:0]  valid_q, first_q;
  reach_t              largest_q;

  assign node[0] = '0;
  for (genvar i = 0; i < Lanes; i++) begin : gen_lanes
    reach_t reach_q;
    always_ff @(posedge clk_i) begin
      least_q[i] <= octave_reach(gain_i[i][3:0]);
      high_q[i] <= high_i[i];
      octave_q[i] <= reach_t'(exponent_i[i]) + reach_t'(Offset) +
          reach_t'(signed'(gain_i[i][7:4]));
      reach_q <= octave_q[i] + reach_t'({1'b0, high_q[i]} >= least_q[i]);
      if (high_q[i] == '0) reach_q <= '0;
    end
    assign node[Lanes+i] = reach_q;
  end
  for (genvar k = 1; k < Lanes; k++) begin : gen_nodes
    reach_t larger_q;
    always_ff @(posedge clk_i) larger_q <= node[2*k] > node[2*k+1] ? node[2*k] : node[2*k+1];
    assign node[k] = larger_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {valid_q, first_q, largest_q, top_o} <= '0;
    end else begin
      valid_q <= {valid_q[Latency-2:0], valid_i};
      first_q <= {first_q[Latency-2:0], first_i};
      if (valid_q[Latency-1] && (first_q[Latency-1] || node[1] > largest_q)) largest_q <= node[1];
      top_o <= largest_q == '0 ? '0 : top_t'(signed'({1'b0, largest_q})) - top_t'(Offset);
    end
  end

  wire unused = ^node[0];

endmodule
