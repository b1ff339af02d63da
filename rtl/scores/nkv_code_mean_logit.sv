// Logits of a page's mean along query rows: ARITHMETIC.md 12.2, in a search (14.2). A word per cycle;
// the words of a row follow each other without a gap, a logit comes 9 cycles after its row's last word.

module nkv_code_mean_logit
  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  logic signed [15:0] mean_power_i,  // Of the page; held until its last logit.
  input  logic         valid_i,
  input  logic         first_i,         // Word of its row,
  input  logic         last_i,          // and the last one.
  input  code_power_t  power_i,         // Kappa of the row, with its last word.
  input  query_t       query_i[ExactLanes],
  input  mean_t        mean_i[ExactLanes],  // Beyond the row's end the query is zero.

  output logic         valid_o,
  output code_logit_t  logit_o,
  output logic         loud_o
);

  localparam int unsigned Lanes = ExactLanes;
  localparam int unsigned MeanProductBits = QueryBits + 8 - 1;
  localparam int unsigned MeanSumBits = MeanProductBits + $clog2(Channels);
  localparam int unsigned Levels = $clog2(Lanes);
  // C = 2^23 and the 8 of 12.2.
  localparam int unsigned PowerOffset = 31;
  localparam int unsigned LimitLog2 = 29;
  localparam code_logit_t Limit = code_logit_t'(1) <<< LimitLog2;
  typedef logic signed [MeanSumBits-1:0] sum_t;
  typedef logic signed [17:0] shift_t;

  // ---- A ----
  // Node k adds nodes 2k and 2k + 1; the leaves are products.
  sum_t node[2*Lanes];
  assign node[0] = '0;
  for (genvar l = 0; l < Lanes; l++) begin : gen_products
    logic signed [MeanProductBits-1:0] product_q;
    always_ff @(posedge clk_i) product_q <= query_i[l] * mean_i[l];
    assign node[Lanes+l] = sum_t'(product_q);
  end
  for (genvar k = 1; k < Lanes; k++) begin : gen_nodes
    localparam int unsigned NodeBits = MeanProductBits + Levels - $clog2(k + 1) + 1;
    logic signed [NodeBits-1:0] sum_q;
    always_ff @(posedge clk_i) sum_q <= NodeBits'(node[2*k]) + NodeBits'(node[2*k+1]);
    assign node[k] = sum_t'(sum_q);
  end

  typedef struct packed {
    logic        valid;
    logic        first;
    logic        last;
    code_power_t power;
  } tag_t;
  tag_t word;
  wire tag_t tag_in = '{valid: valid_i, first: first_i, last: last_i, power: power_i};
  nkv_delay #(
    .Width($bits(tag_t)),
    .Cycles(Levels + 1)
  ) u_word (
    .clk_i,
    .data_i(tag_in),
    .data_o(word)
  );

  // ---- By the row's and the page's power: to the right, or to the left and saturated ----
  localparam int unsigned HalfBits = MeanSumBits - 1;
  typedef logic signed [HalfBits-1:0] half_t;
  sum_t   sum_q;
  shift_t shift_q;
  half_t  near, near_q;
  logic   over, over_q, negative_q;
  logic [1:0] valid_q;
  wire half_t  half = half_t'(sum_q >>> 1);
  wire half_t  magnitude = half[HalfBits-1] ? -half : half;
  wire shift_t right = -shift_q;
  always_comb begin
    over = 1'b0;
    near = half >>> (right > shift_t'(HalfBits) ? 6'(HalfBits) : right[5:0]);
    if (shift_q > 0) begin
      over = half != '0 && (shift_q > shift_t'(LimitLog2) ||
                            magnitude >> (6'(LimitLog2) - shift_q[5:0]) != '0);
      near = half <<< shift_q[4:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (word.valid) sum_q <= (word.first ? '0 : sum_q) + node[1];
    shift_q <= shift_t'(word.power) + shift_t'(mean_power_i) + shift_t'(PowerOffset);
    near_q <= near;
    over_q <= over;
    negative_q <= half[HalfBits-1];
    logit_o <= code_logit_t'(near_q);
    loud_o <= 1'b0;
    if (over_q || near_q >= half_t'(Limit) || near_q <= -half_t'(Limit)) begin
      logit_o <= negative_q ? -Limit : Limit;
      loud_o <= 1'b1;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {valid_o, valid_q} <= '0;
    else if (clear_i) {valid_o, valid_q} <= '0;
    else {valid_o, valid_q} <= {valid_q, word.valid && word.last};
  end

  wire unused = ^node[0];

endmodule
