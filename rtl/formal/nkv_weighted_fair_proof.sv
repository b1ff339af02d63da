// What nkv_weighted_fair promises to tenants that hold their requests, with weights that change at
// any time. One tenant, chosen freely at the start, stands for all.

module nkv_weighted_fair_proof #(
  parameter int unsigned Tenants = 3,
  parameter int unsigned WeightBits = 2,
  localparam int unsigned IndexBits = $clog2(Tenants)
) (
  input logic                               clk_i,
  input logic [Tenants-1:0][WeightBits-1:0] weight_i,
  input logic [Tenants-1:0]                 request_i,
  input logic                               ready_i,
  input logic [Tenants-1:0]                 choice_i
);

  typedef logic [WeightBits-1:0] weight_t;
  localparam int unsigned LargestWeight = (1 << WeightBits) - 1;
  localparam int unsigned Bound = (Tenants - 1) * LargestWeight + Tenants - 1;
  localparam int unsigned CountBits = $clog2(Bound + 2);

  logic rst_n = 1'b0;
  logic valid, round;
  logic [Tenants-1:0] grant;
  logic [IndexBits-1:0] index;
  logic [Tenants-1:0] chosen = '0;       // One-hot.
  logic [Tenants-1:0] waiting = '0;      // Asked in the last cycle, not served.
  logic [Tenants-1:0] held = '0;         // Granted in the last cycle, not accepted.
  logic in_round = 1'b0;                 // A round has begun. The chosen tenant
  weight_t entitled = '0;                // may have so many grants in it,
  weight_t used = '0;                    // has had so many,
  logic always_asked = 1'b0;             // and asked in each of its cycles.
  logic [CountBits-1:0] others = '0;     // Grants of others while the chosen one waits.

  nkv_weighted_fair #(
    .Tenants(Tenants),
    .WeightBits(WeightBits)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .weight_i,
    .request_i,
    .valid_o(valid),
    .ready_i,
    .grant_o(grant),
    .index_o(index),
    .round_o(round)
  );

  weight_t chosen_weight;
  always_comb begin
    chosen_weight = '0;
    for (int unsigned i = 0; i < Tenants; ++i) begin
      if (chosen[i]) chosen_weight |= weight_i[i];
    end
    if (chosen_weight == '0) chosen_weight = weight_t'(1);
  end

  wire serves = valid && ready_i;
  wire chosen_asks = (request_i & chosen) != '0;
  wire chosen_served = ready_i && (grant & chosen) != '0;

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (!rst_n) begin
      chosen <= choice_i;
    end else begin
      waiting <= request_i & ~(ready_i ? grant : '0);
      held <= ready_i ? '0 : grant;
      if (round) begin
        in_round <= 1'b1;
        entitled <= chosen_weight;
        used <= weight_t'(chosen_served);
        always_asked <= chosen_asks;
      end else begin
        used <= used + weight_t'(chosen_served);
        always_asked <= always_asked && chosen_asks;
      end
      if (!chosen_asks || chosen_served) others <= '0;
      else if (serves) others <= others + 1'b1;
    end
  end

  always_comb begin
    if (!rst_n) begin
      assume (choice_i != '0 && (choice_i & (choice_i - 1'b1)) == '0);
    end else begin
      assume ((waiting & ~request_i) == '0);
      a_work_conserving : assert (valid == (request_i != '0));
      a_one_grant : assert (valid == (grant != '0) && (grant & (grant - 1'b1)) == '0);
      a_grants_askers : assert ((grant & ~request_i) == '0);
      a_index : assert (grant == (valid ? Tenants'(1) << index : '0));
      if (held != '0) a_grant_holds : assert (grant == held);
      if (chosen_served) a_served_within_a_round : assert (round || in_round);
      if (chosen_served && !round) a_no_more_than_weight : assert (used < entitled);
      if (round && in_round && always_asked && chosen_asks)
        a_no_less_than_weight : assert (used == entitled);
      if (serves && !chosen_served && chosen_asks)
        a_no_starvation : assert (others < CountBits'(Bound));
    end
  end

endmodule
