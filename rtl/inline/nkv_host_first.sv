// Whose access goes to memory next: the host's, unless near-data has waited too long or is owed its
// share. Combinational from *_ask_i to near_o; state changes when an access is taken.
// - Work-conserving: who asks alone goes.
// - Share: of accesses taken while both ask, share_i sixteenths are near-data's, evenly spread.
// - Ageing: near-data that has waited age_cycles_i cycles goes next, share or not; twice in a row
//   for its age it does not while the host asks.
// - While near-data waits, at most max(age_cycles_i, 1) of the host's accesses are taken: where
//   memory takes one in every cycle, it waits for no more cycles than that.
// - While the host waits, at most 15 / (16 - share_i), rounded down, + 1 of near-data's are taken.
// An asker holds its request until it is taken. The controls may change while nobody waits.

module nkv_host_first
  import nkv_inline_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic [3:0] share_i,
  input  age_t       age_cycles_i,

  input  logic       host_ask_i,
  input  logic       near_ask_i,
  input  logic       ready_i,     // Memory takes an access, if there is one.
  output logic       near_o       // It is near-data's, not the host's.
);

  logic [3:0] owed_q;          // To near-data, in sixteenths of an access.
  age_t       age_q;           // Cycles that near-data has waited.
  logic       host_is_next_q;  // Near-data went for its age while the host asked.

  wire both = host_ask_i && near_ask_i;
  wire [4:0] owed = 5'(owed_q) + 5'(share_i);
  wire due = owed[4];
  wire aged = age_q >= age_cycles_i && !host_is_next_q;

  assign near_o = near_ask_i && (!host_ask_i || due || aged);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      owed_q <= '0;
      age_q <= '0;
      host_is_next_q <= 1'b0;
    end else begin
      if (!near_ask_i || (near_o && ready_i)) age_q <= '0;
      else if (age_q != '1) age_q <= age_q + 1'b1;
      if (ready_i) begin
        if (both && (due || !near_o)) owed_q <= owed[3:0];
        if (!near_o) host_is_next_q <= 1'b0;
        else if (both && !due) host_is_next_q <= 1'b1;
      end
    end
  end

endmodule
