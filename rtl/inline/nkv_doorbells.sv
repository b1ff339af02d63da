// Doorbells in device memory: tells a host write to a queue's line that brings the tail of its ring,
// the line's first two bytes. The write goes to memory all the same. Told one cycle after the write
// was taken; what the tail speaks of is in memory if the host waited for its answers before, as
// flush and fence do.

module nkv_doorbells
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,
  input  doorbell_control_t control_i,

  input  logic              write_i,      // A host write is taken.
  input  address_t          address_i,
  input  logic [1:0]        strobes_i,    // Of its first two bytes,
  input  logic [15:0]       tail_i,       // which these are.
  input  logic              poison_i,     // Poison is no tail.

  output doorbell_t         doorbell_o
);

  localparam int unsigned LineBits = $clog2(nkv_abi_pkg::BurstBytes);
  localparam int unsigned LineNumberBits = AddressBits - LineBits;
  localparam int unsigned IndexBits = $clog2(nkv_abi_pkg::MaxQueues);
  typedef logic [LineNumberBits-1:0] line_t;

  wire line_t line = address_i[AddressBits-1:LineBits] - control_i.base[AddressBits-1:LineBits];
  wire [IndexBits-1:0] index = line[IndexBits-1:0];
  wire hit = line[LineNumberBits-1:IndexBits] == '0 && control_i.enable[index];

  logic valid_q;
  logic [IndexBits-1:0] index_q;
  logic [15:0] tail_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= 1'b0;
    else valid_q <= write_i && hit && strobes_i == '1 && !poison_i;
  end

  always_ff @(posedge clk_i) begin
    index_q <= index;
    tail_q <= tail_i;
  end

  assign doorbell_o = '{valid: valid_q, index: index_q, tail: tail_q};

  // Addresses within a line.
  wire unused_bits = ^{address_i[LineBits-1:0], control_i.base[LineBits-1:0]};

endmodule
