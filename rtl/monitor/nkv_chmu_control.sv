// Enable, disable and reset of the unit. What the host wants stands in CONF0 (enable_i) or was
// asked for by a write (reset_i); operation_o says what of it is still to be done, from the cycle
// after the write on.
//
//   enable   waits for a sweep of the counters, then counts from zero. A configuration that the
//            unit has no capability for is refused: refuse_o clears CONF0.enable.
//   disable  stops counting and lets what is under way reach the hot list: DrainCycles.
//   reset    disables, forgets counters and hot list, and enables again if CONF0 says so.

module nkv_chmu_control
  import nkv_chmu_pkg::*;
#(
  parameter int unsigned DrainCycles = 16
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic enable_i,
  input  logic reset_i,        // For one cycle
  input  logic valid_i,        // The configuration is one that the unit has.
  output logic refuse_o,

  input  logic busy_i,         // Counters are being swept.
  output logic start_o,        // Counting begins with the next cycle.
  output logic clear_o,        // Counters and list forget.

  output logic       enabled_o,
  output logic       locked_o,  // The configuration is in use.
  output operation_e operation_o
);

  localparam int unsigned DrainBits = $clog2(DrainCycles + 1);

  typedef enum logic [1:0] {
    StateOff,
    StateOn,
    StateDrain,
    StateReset
  } state_e;

  state_e state_q;
  logic reset_q;
  logic [DrainBits-1:0] drain_q;

  wire settled = state_q == StateOff && !reset_q && enable_i;
  assign refuse_o = settled && !valid_i;
  assign start_o = settled && valid_i && !busy_i;
  assign clear_o = state_q == StateOff && reset_q;
  assign enabled_o = state_q == StateOn;
  assign locked_o = state_q != StateOff || reset_q || enable_i;

  always_comb begin
    operation_o = OperationNone;
    if (reset_q || state_q == StateReset) operation_o = OperationReset;
    else if (state_q == StateDrain) operation_o = OperationDisable;
    else if (state_q == StateOn && !enable_i) operation_o = OperationDisable;
    else if (state_q == StateOff && enable_i) operation_o = OperationEnable;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StateOff;
      reset_q <= 1'b0;
      drain_q <= '0;
    end else begin
      if (reset_i) reset_q <= 1'b1;
      else if (clear_o) reset_q <= 1'b0;

      unique case (state_q)
        StateOff: begin
          if (reset_q) state_q <= StateReset;
          else if (start_o) state_q <= StateOn;
        end
        StateOn: begin
          drain_q <= DrainBits'(DrainCycles);
          if (reset_q || !enable_i) state_q <= StateDrain;
        end
        StateDrain: begin
          drain_q <= drain_q - 1'b1;
          if (drain_q == '0) state_q <= StateOff;
        end
        default: if (!busy_i) state_q <= StateOff;
      endcase
    end
  end

endmodule
