// What memory owes: beats that it was asked for and has not given. After a clearing those of before are
// stale, and while there is one nothing must be asked for, so that no answer can be taken for another's.

`include "nkv_assert.svh"

module nkv_owed_beats #(
  parameter int unsigned Most = 128,             // That are owed at once.
  localparam int unsigned CountBits = $clog2(Most + 1)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,
  input  logic                 forfeit_i,        // What is owed will not come.

  input  logic [CountBits-1:0] asked_i,          // In this cycle.
  input  logic                 answered_i,       // One of them.
  output logic                 quiet_o,          // Nothing is owed.
  output logic                 stale_o           // What is owed is.
);

  logic [CountBits-1:0] owed_q;
  logic stale_q;
  wire [CountBits-1:0] owed = owed_q + asked_i - CountBits'(answered_i);

  assign quiet_o = owed_q == '0;
  assign stale_o = stale_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      owed_q <= '0;
      stale_q <= 1'b0;
    end else if (forfeit_i) begin
      owed_q <= '0;
      stale_q <= 1'b0;
    end else begin
      owed_q <= owed;
      stale_q <= (clear_i || stale_q) && owed != '0;
    end
  end

  `NKV_ASSERT(AnswerIsOwed_A, !answered_i || owed_q != '0)
  `NKV_ASSERT(Bounded_A, owed_q <= CountBits'(Most))

endmodule
