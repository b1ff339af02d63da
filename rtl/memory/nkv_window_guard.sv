// The only way from an address of a command to one of device memory: a range of bursts at an offset
// into the queue's window becomes an address, and lies inside or is refused. A window whose size is
// no multiple of a burst ends with the burst that holds its last byte. Combinational.

module nkv_window_guard
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  domain_t     domain_i,
  input  logic [63:0] offset_i,   // Of the first burst; its low 6 bits are not looked at.
  input  burst_count_t bursts_i,

  output logic        inside_o,   // All bursts lie in the window.
  output address_t    address_o   // Of the first; the window's base if they do not.
);

  localparam int unsigned OffsetBits = $clog2(BurstBytes);

  localparam int unsigned BurstIndexBits = 64 - OffsetBits;

  wire [63:0] window_end = 64'(domain_i.window_bytes) + 64'(BurstBytes) - 64'd1;
  wire [BurstIndexBits-1:0] window_bursts = window_end[63:OffsetBits];
  wire [BurstIndexBits-1:0] first_burst = offset_i[63:OffsetBits];
  wire [BurstIndexBits:0] end_burst = {1'b0, first_burst} + (BurstIndexBits + 1)'(bursts_i);
  // Beside the comparison, not behind it.
  wire address_t address = domain_i.window_base +
      {first_burst[AddressBits-OffsetBits-1:0], OffsetBits'(0)};

  assign inside_o = end_burst <= {1'b0, window_bursts};
  assign address_o = inside_o ? address : domain_i.window_base;

  // The domain names a tenant too.
  wire unused = ^{domain_i.tenant, offset_i[OffsetBits-1:0], window_end[OffsetBits-1:0]};

endmodule
