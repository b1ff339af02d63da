// What nkv_host_first promises to askers that hold their requests, with controls that do not change:
// work conservation, and how many of the other side's accesses pass while one side waits. Memory
// takes accesses whenever it likes.

module nkv_host_first_proof
  import nkv_inline_pkg::*;
(
  input logic       clk_i,
  input logic [3:0] share_i,
  input age_t       age_cycles_i,
  input logic       host_ask_i,
  input logic       near_ask_i,
  input logic       ready_i
);

  localparam age_t MostAge = age_t'(5);

  logic rst_n = 1'b0;
  logic near;
  logic [3:0] share = '0;       // As chosen at the start.
  age_t age_cycles = '0;
  logic host_waits = 1'b0;      // Asked in the last cycle, not taken.
  logic near_waits = 1'b0;
  logic [4:0] hosts = '0;       // Taken of the host's while near-data waits,
  logic [4:0] nears = '0;       // and of near-data's while the host waits.
  logic [3:0] cycles = '0;      // That near-data has waited while memory took an access in each.

  nkv_host_first u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .share_i(share),
    .age_cycles_i(age_cycles),
    .host_ask_i,
    .near_ask_i,
    .ready_i,
    .near_o(near)
  );

  wire near_taken = near && ready_i;
  wire host_taken = host_ask_i && !near && ready_i;
  wire age_t patience = age_cycles == '0 ? age_t'(1) : age_cycles;

  // 15 / (16 - share), rounded down, + 1.
  logic [4:0] most_nears;
  always_comb begin
    unique case (share)
      4'd15: most_nears = 5'd16;
      4'd14: most_nears = 5'd8;
      4'd13: most_nears = 5'd6;
      4'd12: most_nears = 5'd4;
      4'd11: most_nears = 5'd4;
      4'd10, 4'd9: most_nears = 5'd3;
      4'd0: most_nears = 5'd1;
      default: most_nears = 5'd2;
    endcase
  end

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (!rst_n) begin
      share <= share_i;
      age_cycles <= age_cycles_i;
    end else begin
      host_waits <= host_ask_i && !host_taken;
      near_waits <= near_ask_i && !near_taken;
      if (!near_ask_i || near_taken) hosts <= '0;
      else if (host_taken) hosts <= hosts + 1'b1;
      if (!host_ask_i || host_taken) nears <= '0;
      else if (near_taken) nears <= nears + 1'b1;
      if (!near_ask_i || near_taken || !ready_i) cycles <= '0;
      else cycles <= cycles + 1'b1;
    end
  end

  always_comb begin
    if (!rst_n) begin
      assume (age_cycles_i <= MostAge);
    end else begin
      assume (!host_waits || host_ask_i);
      assume (!near_waits || near_ask_i);
      a_grants_askers : assert (!near || near_ask_i);
      a_work_conserving : assert (host_ask_i || near == near_ask_i);
      if (host_taken && near_ask_i) a_near_is_served : assert (age_t'(hosts) < patience);
      if (near_ask_i && !near) a_near_waits_so_long : assert (age_t'(cycles) < patience + 1'b1);
      if (near_taken && host_ask_i) a_host_is_served : assert (nears < most_nears);
    end
  end

endmodule
