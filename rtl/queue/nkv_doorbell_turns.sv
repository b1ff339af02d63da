// Doorbells in device memory on their way to the registers: each becomes a write of its queue's SQ_TAIL
// in a cycle in which nobody else uses the bus. A queue's doorbells may overtake one another only as
// their tails do: a later one takes the place of one that still waits.

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

  logic [MaxQueues-1:0] waits_q;
  logic [15:0] tail_q[MaxQueues];

  // The lowest first: tails seldom wait.
  wire [MaxQueues-1:0] first = waits_q & (~waits_q + 1'b1);
  queue_t turn;
  always_comb begin
    turn = '0;
    for (int unsigned i = 0; i < MaxQueues; i++) if (first[i]) turn |= queue_t'(i);
  end
  wire takes = waits_q != '0 && !access_i.valid;

  always_comb begin
    access_o = access_i;
    if (takes) begin
      access_o = '{
          valid: 1'b1,
          write: 1'b1,
          address: RegSqTail + RegSqTailStride * 32'(turn),
          data: 64'(tail_q[turn])
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
        if (doorbell_i[i].valid) waits_q[doorbell_i[i].index] <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < Slices; i++) begin
      if (doorbell_i[i].valid) tail_q[doorbell_i[i].index] <= doorbell_i[i].tail;
    end
  end

endmodule
