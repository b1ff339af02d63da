// Grants one of Requests askers in turn. Combinational from request_i to grant_o; state changes at
// the clock.
// - Work-conserving: valid_o whenever anybody asks.
// - A grant holds until accepted (ready_i), whoever comes meanwhile. An asker must hold its request
//   until then; where it does not, the grant passes on.
// - No starvation: an asker that waits sees at most Requests - 1 grants accepted before its own.

`include "nkv_assert.svh"

module nkv_round_robin #(
  parameter int unsigned Requests = 4,  // 2 at least.
  localparam int unsigned IndexBits = $clog2(Requests)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic [ Requests-1:0] request_i,
  output logic                 valid_o,
  input  logic                 ready_i,
  output logic [ Requests-1:0] grant_o,    // One-hot while valid_o, else zero.
  output logic [IndexBits-1:0] index_o     // The same as a number.
);

  // Askers at or above the turn come first. While a grant waits, the turn is the granted asker's.
  logic [Requests-1:0] first_q;  // Thermometer code: the bits at or above the turn.

  wire [Requests-1:0] preferred = request_i & first_q;
  wire [Requests-1:0] candidates = preferred != '0 ? preferred : request_i;

  assign valid_o = request_i != '0;
  // Bits at or above the granted one; without it, the bits above. Few enough for no carry.
  logic [Requests-1:0] from_grant;
  assign grant_o = from_grant & ~(from_grant << 1);

  always_comb begin
    for (int unsigned i = 0; i < Requests; ++i) from_grant[i] = (candidates << (Requests - 1 - i)) != '0;
  end

  always_comb begin
    index_o = '0;
    for (int unsigned i = 0; i < Requests; ++i) begin
      if (grant_o[i]) index_o |= IndexBits'(i);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) first_q <= '1;
    else if (valid_o) first_q <= ready_i ? from_grant & ~grant_o : from_grant;
  end

  `NKV_ASSERT_ONE_HOT0(OneGrant_A, grant_o)
  `NKV_ASSERT(GrantAsked_A, (grant_o & ~request_i) == '0 && (grant_o != '0) == valid_o)

endmodule
