// Doorbells in device memory on their way to the registers: each becomes a write of its queue's SQ_TAIL
// or CQ_HEAD, or of both, in cycles in which nobody else uses the bus. A queue's doorbells may overtake
// one another only as their counts do: a later one takes the place of one that still waits.

module nkv_doorbell_turns
  import nkv_abi_pkg::*;
  import nkv_inline_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned Slices = 1
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   reset_i,
  input  doorbell_t [Slices-1:0] doorbell_i,  // A queue's line lies in one slice.

  input  csr_access_t            access_i,    // The host's, first.
  output csr_access_t            access_o
);

  // A queue's tail, then its head, and so on.
  localparam int unsigned Counts = 2 * MaxQueues;
  typedef logic [$clog2(Counts)-1:0] place_t;
  logic [Counts-1:0] waits_q;
  logic [15:0] tail_q[MaxQueues];
  logic [15:0] head_q[MaxQueues];

  // The lowest first: counts seldom wait.
  wire [Counts-1:0] first = waits_q & (~waits_q + 1'b1);
  place_t turn;
  always_comb begin
    turn = '0;
    for (int unsigned i = 0; i < Counts; i++) if (first[i]) turn |= place_t'(i);
  end
  wire takes = waits_q != '0 && !access_i.valid;
  wire queue_t queue_index = turn[1+:$bits(queue_t)];
  wire is_head = turn[0];
  wire [15:0] count = is_head ? head_q[queue_index] : tail_q[queue_index];

  always_comb begin
    access_o = access_i;
    if (takes) begin
      access_o = '{
          valid: 1'b1,
          write: 1'b1,
          address: (is_head ? RegCqHead : RegSqTail) + RegSqTailStride * 32'(queue_index),
          data: 64'(count)
      };
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      waits_q <= '0;
    end else if (reset_i) begin
      waits_q <= '0;
    end else begin
      if (takes) waits_q[turn] <= 1'b0;
      for (int unsigned i = 0; i < Slices; i++) begin
        if (doorbell_i[i].brings_tail) waits_q[{doorbell_i[i].index, 1'b0}] <= 1'b1;
        if (doorbell_i[i].brings_head) waits_q[{doorbell_i[i].index, 1'b1}] <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < Slices; i++) begin
      if (doorbell_i[i].brings_tail) tail_q[doorbell_i[i].index] <= doorbell_i[i].tail;
      if (doorbell_i[i].brings_head) head_q[doorbell_i[i].index] <= doorbell_i[i].head;
    end
  end

endmodule
