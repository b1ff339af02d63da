// What nkv_interrupts promises of a queue's completions, with COALESCE and mask that change at any time
// but for the waiting time, and a host that clears in any cycle. One queue, chosen freely at the start,
// stands for all.

module nkv_interrupts_proof #(
  parameter int unsigned Queues = 2,
  parameter int unsigned CountBits = 2,
  parameter int unsigned TickBits = 2,
  localparam int unsigned IndexBits = $clog2(Queues),
  localparam int unsigned Lines = 1 + Queues
) (
  input logic                             clk_i,
  input logic                             reset_i,
  input logic [Queues-1:0][CountBits-1:0] completions_i,
  input logic [Queues-1:0][TickBits-1:0]  wait_ticks_i,
  input logic [Lines-1:0]                 mask_i,
  input logic                             posted_valid_i,
  input logic [IndexBits-1:0]             posted_queue_i,
  input logic                             other_i,
  input logic [Lines-1:0]                 clear_i,
  input logic [IndexBits-1:0]             choice_i
);

  localparam int unsigned Bound = 2 ** TickBits - 1 + Queues;  // Cycles until a completion is told.
  localparam int unsigned BoundBits = $clog2(Bound + 2);

  logic rst_n = 1'b0;
  logic [IndexBits-1:0] chosen = '0;
  logic [Lines-1:0] status, irq;
  logic [Lines-1:0] status_before = '0;  // In the last cycle,
  logic [Lines-1:0] clear_before = '0;   // as these.
  logic other_before = 1'b0;
  logic reset_before = 1'b0;
  logic owed = 1'b0;                     // A completion came, and the line was not high since.
  logic fresh = 1'b0;                    // A completion came since the line last rose.
  logic [BoundBits-1:0] waited = '0;
  logic [Queues-1:0][TickBits-1:0] ticks = '0;

  nkv_interrupts #(
    .Queues(Queues),
    .Others(1),
    .CountBits(CountBits),
    .TickBits(TickBits)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .reset_i,
    .completions_i,
    .wait_ticks_i(ticks),
    .mask_i,
    .posted_valid_i,
    .posted_queue_i,
    .others_i(other_i),
    .clear_i,
    .status_o(status),
    .irq_o(irq)
  );

  logic told, told_before;
  always_comb begin
    told = 1'b0;
    told_before = 1'b0;
    for (int unsigned i = 0; i < Queues; ++i) begin
      if (chosen == IndexBits'(i)) begin
        told = status[1+i];
        told_before = status_before[1+i];
      end
    end
  end
  wire posts = posted_valid_i && posted_queue_i == chosen;

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (!rst_n) begin
      chosen <= choice_i;
      ticks <= wait_ticks_i;
    end else begin
      status_before <= status;
      clear_before <= clear_i;
      other_before <= other_i;
      reset_before <= reset_i;
      if (reset_i) owed <= 1'b0;
      else if (posts) owed <= 1'b1;
      else if (told) owed <= 1'b0;
      waited <= owed && !told && !reset_i ? waited + 1'b1 : '0;
      if (posts) fresh <= 1'b1;
      else if (told && !told_before) fresh <= 1'b0;
    end
  end

  always_comb begin
    if (rst_n) begin
      a_none_is_lost : assert (!owed || told || waited < BoundBits'(Bound));
      a_irq : assert (irq == (status & ~mask_i));
      if (!reset_before) begin
        a_stays_until_cleared : assert ((status_before & ~clear_before & ~status) == '0);
        if (other_before) a_others_at_once : assert (status[0]);
      end else begin
        a_reset_clears : assert (status == '0);
      end
      if (told && !told_before) a_not_for_nothing : assert (fresh);
    end
  end

endmodule
