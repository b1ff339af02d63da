// Doorbells in device memory: tells a host write to the line that begins a queue's page, and brings the
// tail of its submission ring or the head of its completion ring. The write goes to memory all the
// same. Told one cycle after the write was taken; what the tail speaks of is in memory if the host
// waited for its answers before, as flush and fence do.

module nkv_doorbells
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,
  input  doorbell_control_t control_i,

  input  logic              write_i,      // A host write is taken.
  input  address_t          address_i,
  input  logic [DoorbellLineBytes-1:0] strobes_i,  // Of its first bytes,
  input  doorbell_line_t    line_i,                // which these are.
  input  logic              poison_i,     // Poison is no tail.

  output doorbell_t         doorbell_o
);

  localparam int unsigned LineBits = $clog2(BurstBytes);
  localparam int unsigned LineNumberBits = AddressBits - LineBits;
  localparam int unsigned PageLineBits = $clog2(DoorbellStrideBytes) - LineBits;
  localparam int unsigned IndexBits = $clog2(MaxQueues);
  localparam doorbell_line_t Tail = '{sq_tail: '1, default: '0};
  localparam doorbell_line_t Head = '{cq_head: '1, default: '0};
  typedef logic [LineNumberBits-1:0] line_t;

  wire line_t line = address_i[AddressBits-1:LineBits] - control_i.base[AddressBits-1:LineBits];
  wire [IndexBits-1:0] index = line[PageLineBits+:IndexBits];
  wire hit = line[LineNumberBits-1:PageLineBits+IndexBits] == '0 && line[PageLineBits-1:0] == '0 &&
      control_i.enable[index] && write_i && !poison_i;

  // The bytes that a field takes, of which each bit is in its mask.
  function automatic logic [DoorbellLineBytes-1:0] bytes_of(doorbell_line_t field);
    for (int unsigned i = 0; i < DoorbellLineBytes; i++) bytes_of[i] = field[8*i];
  endfunction

  logic brings_tail_q, brings_head_q;
  logic [IndexBits-1:0] index_q;
  logic [15:0] tail_q, head_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      brings_tail_q <= 1'b0;
      brings_head_q <= 1'b0;
    end else begin
      brings_tail_q <= hit && (strobes_i | ~bytes_of(Tail)) == '1;
      brings_head_q <= hit && (strobes_i | ~bytes_of(Head)) == '1;
    end
  end

  always_ff @(posedge clk_i) begin
    index_q <= index;
    tail_q <= line_i.sq_tail;
    head_q <= line_i.cq_head;
  end

  assign doorbell_o = '{
      brings_tail: brings_tail_q,
      brings_head: brings_head_q,
      index: index_q,
      tail: tail_q,
      head: head_q
  };

  // Addresses within a line, and the line's padding.
  wire unused_bits = ^{address_i[LineBits-1:0], control_i.base[LineBits-1:0], line_i.reserved,
                       line_i.reserved2};

endmodule
