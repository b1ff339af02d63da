// Shares a resource between tenants by weight: credit-based round robin, one grant per unit. Each
// tenant starts a round with its weight as credit and pays one per accepted grant; when none of
// those that ask has any left, credit is filled up and the next round begins. Combinational from
// request_i to grant_o; state changes at the clock.
// - Work-conserving: valid_o whenever anybody asks; a new round costs no cycle.
// - A grant holds until accepted (ready_i), whoever comes meanwhile. A tenant must hold its request
//   until then; where it does not, the grant passes on.
// - Fair: in a round nobody gets more grants than its weight, and a tenant that asks all the time
//   gets exactly its weight. Who does not ask saves nothing up.
// - No starvation: a tenant that waits sees at most the sum of the others' weights + Tenants - 1
//   grants accepted before its own. Weight 0 counts as 1.
// Weights may change at any time: they count from the next round on.

module nkv_weighted_fair #(
  parameter int unsigned Tenants = 4,  // 2 at least.
  parameter int unsigned WeightBits = 4,
  localparam int unsigned IndexBits = $clog2(Tenants)
) (
  input  logic                                clk_i,
  input  logic                                rst_ni,
  input  logic [Tenants-1:0][ WeightBits-1:0] weight_i,

  input  logic [Tenants-1:0]                  request_i,
  output logic                                valid_o,
  input  logic                                ready_i,
  output logic [Tenants-1:0]                  grant_o,    // One-hot while valid_o, else zero.
  output logic [              IndexBits-1:0]  index_o,    // The same as a number.
  output logic                                round_o     // First cycle of a round.
);

  typedef logic [WeightBits-1:0] credit_t;

  credit_t credit_q[Tenants];
  logic [Tenants-1:0] funded_q;  // Credit left.

  wire [Tenants-1:0] funded = request_i & funded_q;
  wire new_round = funded == '0;

  nkv_round_robin #(
    .Requests(Tenants)
  ) u_turn (
    .clk_i,
    .rst_ni,
    .request_i(new_round ? request_i : funded),
    .valid_o,
    .ready_i,
    .grant_o,
    .index_o
  );

  assign round_o = new_round && valid_o;

  for (genvar i = 0; i < int'(Tenants); ++i) begin : gen_credit
    wire credit_t full = weight_i[i] == '0 ? credit_t'(1) : weight_i[i];
    wire credit_t base = new_round ? full : credit_q[i];
    wire credit_t after = base - credit_t'(grant_o[i] && ready_i);

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        credit_q[i] <= '0;
        funded_q[i] <= 1'b0;
      end else if (valid_o) begin  // Filled up while the first grant of a round still waits.
        credit_q[i] <= after;
        funded_q[i] <= after != '0;
      end
    end
  end

endmodule
