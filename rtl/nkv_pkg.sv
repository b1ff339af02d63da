// What the modules of the engine share: sizes that a build chooses, and the structs that pass
// between modules. What the host sees stands in nkv_abi_pkg, generated from the contract.

package nkv_pkg;

  import nkv_abi_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // ---- Sizes of this build --------------------------------------------------------------
  // Query rows that are scored side by side.
  localparam int unsigned Rows = 8;
  // Widest key or value row of this build, in channels.
  localparam int unsigned Channels = 128;
  // Elements of a row that the exact stages take per cycle.
  localparam int unsigned ExactLanes = 32;
  // Tokens whose plane bits the plane stage takes per cycle.
  localparam int unsigned PlaneTokens = 4;
  // Longest page list.
  localparam int unsigned ListPages = 512;

  // ---- Memory ---------------------------------------------------------------------------
  localparam int unsigned BurstBits = BurstBytes * 8;
  typedef logic [BurstBits-1:0] burst_t;
  // Byte address in device memory, as the memory controllers take it.
  localparam int unsigned AddressBits = 52;
  typedef logic [AddressBits-1:0] address_t;

  // ---- Verdicts -------------------------------------------------------------------------
  typedef struct packed {
    status_e     status;
    logic [63:0] detail;
  } verdict_t;

  // verilator lint_on UNUSEDPARAM

endpackage
