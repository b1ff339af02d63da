// What the RTL asserts. Every simulation checks it; synthesis and the flows that read the RTL as synthesis does see
// nothing of it. A failure ends the simulation and tells the assertion's name and its place in the design.
//
// Names are in UpperCamelCase and end with _A. Conditions hold at every rising edge of the clock out of reset, as registers
// see them. Reset is used as registers use it, so that lint finds one use of it only.

`ifndef NKV_ASSERT_SVH
`define NKV_ASSERT_SVH

`ifdef SYNTHESIS

`define NKV_ASSERT(NAME, HOLDS, CLK = clk_i, RST = rst_ni)
`define NKV_ASSERT_STAYS(NAME, VALID, READY, PAYLOAD, DROPS = 1'b0, CLK = clk_i, RST = rst_ni)
`define NKV_ASSERT_ROOM(NAME, VALID, READY, CLK = clk_i, RST = rst_ni)
`define NKV_ASSERT_ONE_HOT0(NAME, BITS, CLK = clk_i, RST = rst_ni)

`else

// HOLDS is true.
`define NKV_ASSERT(NAME, HOLDS, CLK = clk_i, RST = rst_ni) \
  /*verilator coverage_off*/ \
  always_ff @(posedge CLK or negedge RST) begin : NAME \
    if (RST) assert (HOLDS) else $error(`"NAME: not HOLDS`"); \
  end \
  /*verilator coverage_on*/

// What is offered stays: VALID until READY, and PAYLOAD, any expression of bits, with it. An offer may go only in a cycle
// with DROPS or in the one after.
`define NKV_ASSERT_STAYS(NAME, VALID, READY, PAYLOAD, DROPS = 1'b0, CLK = clk_i, RST = rst_ni) \
  /*verilator coverage_off*/ \
  if (1) begin : NAME \
    logic waits_q; \
    logic [$bits(PAYLOAD)-1:0] offered_q; \
    always_ff @(posedge CLK or negedge RST) begin \
      if (!RST) waits_q <= 1'b0; \
      else waits_q <= (VALID) && !(READY) && !(DROPS); \
    end \
    always_ff @(posedge CLK) if ((VALID) && !waits_q) offered_q <= PAYLOAD; \
    always_ff @(posedge CLK or negedge RST) begin \
      if (RST && waits_q && !(DROPS)) begin \
        assert (VALID) else $error(`"NAME: VALID falls before READY`"); \
        assert (!(VALID) || offered_q == PAYLOAD) else $error(`"NAME: PAYLOAD changes before READY`"); \
      end \
    end \
  end \
  /*verilator coverage_on*/

// What comes with VALID finds READY, because its sender has kept count.
`define NKV_ASSERT_ROOM(NAME, VALID, READY, CLK = clk_i, RST = rst_ni) \
  `NKV_ASSERT(NAME, !(VALID) || (READY), CLK, RST)

// At most one of BITS is set.
`define NKV_ASSERT_ONE_HOT0(NAME, BITS, CLK = clk_i, RST = rst_ni) \
  `NKV_ASSERT(NAME, $onehot0(BITS), CLK, RST)

`endif

`endif
