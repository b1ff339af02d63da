// What nkv_round_robin promises to askers that hold their requests. One of them, chosen freely at
// the start, stands for all.

module nkv_round_robin_proof #(
  parameter int unsigned Requests = 4,
  localparam int unsigned IndexBits = $clog2(Requests)
) (
  input logic                clk_i,
  input logic [Requests-1:0] request_i,
  input logic                ready_i,
  input logic [Requests-1:0] choice_i
);

  logic rst_n = 1'b0;
  logic valid;
  logic [Requests-1:0] grant;
  logic [IndexBits-1:0] index;
  logic [Requests-1:0] chosen = '0;          // One-hot.
  logic [Requests-1:0] waiting = '0;         // Asked in the last cycle, not served.
  logic [Requests-1:0] held = '0;            // Granted in the last cycle, not accepted.
  logic [$clog2(Requests+1)-1:0] others = '0;  // Served while the chosen one waits.

  nkv_round_robin #(
    .Requests(Requests)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .request_i,
    .valid_o(valid),
    .ready_i,
    .grant_o(grant),
    .index_o(index)
  );

  wire serves = valid && ready_i;
  wire chosen_asks = (request_i & chosen) != '0;
  wire chosen_granted = (grant & chosen) != '0;

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (!rst_n) begin
      chosen <= choice_i;
    end else begin
      waiting <= request_i & ~(ready_i ? grant : '0);
      held <= ready_i ? '0 : grant;
      if (!chosen_asks || (serves && chosen_granted)) others <= '0;
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
      a_index : assert (grant == (valid ? Requests'(1) << index : '0));
      if (held != '0) a_grant_holds : assert (grant == held);
      if (serves && !chosen_granted && chosen_asks)
        a_no_starvation : assert (others < ($clog2(Requests+1))'(Requests - 1));
    end
  end

endmodule
