// The controls of the inline path as software set them, or where it did not, the device's own.
// Combinational. Section "Registers" of the contract's reference: INLINE_*, DOORBELL_*.

module nkv_inline_registers
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  csr_reg2hw_t       registers_i,
  // verilator lint_on UNUSEDSIGNAL
  output inline_control_t   control_o,
  output doorbell_control_t doorbells_o
);

  localparam inline_control_t Own = '{
      share: 4'd4,
      age_cycles: age_t'(64),
      near_least: depth_t'(16),
      read_limit: depth_t'(72),   // A memory 60 cycles away, and some.
      write_limit: depth_t'(72),
      optimal: depth_t'(32),
      overload: depth_t'(96)
  };

  // No queue is deeper than can be said.
  function automatic depth_t depth(input logic [15:0] accesses);
    return accesses[15:DepthBits] == '0 ? accesses[DepthBits-1:0] : '1;
  endfunction

  inline_control_t custom;
  assign custom = '{
      share: registers_i.inline_control.share,
      age_cycles: registers_i.inline_control.age_cycles,
      near_least: depth(registers_i.inline_limits.near_least),
      read_limit: depth(registers_i.inline_limits.reads),
      write_limit: depth(registers_i.inline_limits.writes),
      optimal: depth(registers_i.inline_load.optimal),
      overload: depth(registers_i.inline_load.overload)
  };
  assign control_o = registers_i.inline_control.custom ? custom : Own;
  assign doorbells_o = '{
      enable: registers_i.doorbell_enable.queues,
      base: address_t'(registers_i.doorbell_base)
  };

endmodule
