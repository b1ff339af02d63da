// Which queues have waited for memory's answer for too long: for at least `Cycles`, and less than twice
// that. One counter serves all of them.

module nkv_late_answers
  import nkv_abi_pkg::MaxQueues;
#(
  parameter int unsigned Cycles = nkv_pkg::PatienceCycles
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic [MaxQueues-1:0] waits_i,     // The queue waits,
  input  logic [MaxQueues-1:0] answered_i,  // but not any longer for what it waited for so far.
  output logic [MaxQueues-1:0] late_o
);

  localparam int unsigned CountBits = $clog2(Cycles);

  logic [CountBits-1:0] count_q;
  logic [MaxQueues-1:0] waited_q, late_q;  // While the counter came round once; twice.
  wire round = count_q == CountBits'(Cycles - 1);
  assign late_o = late_q & waits_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q <= '0;
      waited_q <= '0;
      late_q <= '0;
    end else begin
      count_q <= round ? '0 : count_q + 1'b1;
      for (int unsigned i = 0; i < MaxQueues; i++) begin
        if (!waits_i[i] || answered_i[i]) {late_q[i], waited_q[i]} <= '0;
        else if (round) {late_q[i], waited_q[i]} <= {waited_q[i], 1'b1};
      end
    end
  end

endmodule
