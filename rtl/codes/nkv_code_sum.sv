// Sums of rows: of each word's Lanes numbers, then of a row's words, a word per cycle. A row's sum
// comes $clog2(Lanes) + 1 cycles after its last word.

module nkv_code_sum #(
  parameter int unsigned Lanes = 32,    // A power of two.
  parameter int unsigned Bits = 16,
  parameter int unsigned SumBits = 22   // Holds every sum.
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,

  input  logic               valid_i,
  input  logic               first_i,       // Word of its row,
  input  logic               last_i,        // and the last one: both, if it has but one.
  input  logic [Bits-1:0]    number_i[Lanes],

  output logic               valid_o,       // For one cycle per row.
  output logic [SumBits-1:0] sum_o
);

  localparam int unsigned Levels = $clog2(Lanes);

  // Node k adds nodes 2k and 2k + 1; the leaves are the numbers.
  logic [SumBits-1:0] node[2*Lanes];
  assign node[0] = '0;
  for (genvar i = 0; i < Lanes; i++) begin : gen_leaves
    assign node[Lanes+i] = SumBits'(number_i[i]);
  end
  for (genvar k = 1; k < Lanes; k++) begin : gen_nodes
    localparam int unsigned Wide = Bits + Levels + 1 - $clog2(k + 1);
    localparam int unsigned NodeBits = Wide < SumBits ? Wide : SumBits;
    logic [NodeBits-1:0] sum_q;
    always_ff @(posedge clk_i) sum_q <= NodeBits'(node[2*k]) + NodeBits'(node[2*k+1]);
    assign node[k] = SumBits'(sum_q);
  end

  typedef struct packed {
    logic valid;
    logic first;
    logic last;
  } tag_t;
  tag_t tag_q[Levels];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i < Levels; i++) tag_q[i] <= '0;
      valid_o <= 1'b0;
    end else if (clear_i) begin
      for (int unsigned i = 0; i < Levels; i++) tag_q[i] <= '0;
      valid_o <= 1'b0;
    end else begin
      tag_q[0] <= '{valid: valid_i, first: first_i, last: last_i};
      for (int unsigned i = 1; i < Levels; i++) tag_q[i] <= tag_q[i-1];
      valid_o <= tag_q[Levels-1].valid && tag_q[Levels-1].last;
    end
  end

  always_ff @(posedge clk_i) begin
    if (tag_q[Levels-1].valid) sum_o <= (tag_q[Levels-1].first ? '0 : sum_o) + node[1];
  end

  wire unused = ^node[0];

endmodule
