// Interrupts as levels: a bit of the status for each line, which stays until software puts it back.
// Completions of a queue ask for one when so many wait as its COALESCE says, or the oldest of them has
// waited so long; with either 0, each at once. Others ask at once.
// - None is lost: a cause in the very cycle in which software clears its bit sets it.
// - None waits for ever: a completion is told at its time at the latest, and Queues cycles more.
// Sections "Registers": INTERRUPT_STATUS, INTERRUPT_MASK, COALESCE of the contract's reference.

module nkv_interrupts #(
  parameter int unsigned Queues = 16,     // A power of two, 2 at least.
  parameter int unsigned Others = 3,
  parameter int unsigned CountBits = 16,
  parameter int unsigned TickBits = 32,   // Queues are fewer than 2**TickBits.
  localparam int unsigned IndexBits = $clog2(Queues),
  localparam int unsigned Lines = Others + Queues
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 reset_i,

  input  logic [Queues-1:0][CountBits-1:0] completions_i,
  input  logic [Queues-1:0][TickBits-1:0]  wait_ticks_i,
  input  logic [Lines-1:0]     mask_i,

  input  logic                 posted_valid_i,
  input  logic [IndexBits-1:0] posted_queue_i,
  input  logic [Others-1:0]    others_i,  // For a cycle each.

  input  logic [Lines-1:0]     clear_i,   // Others in the low bits, then the queues.
  output logic [Lines-1:0]     status_o,
  output logic [Lines-1:0]     irq_o
);

  typedef logic [CountBits-1:0] count_t;
  typedef logic [TickBits:0] tick_t;      // A bit more than a time, so that none is missed.

  tick_t now_q;
  tick_t since_q[Queues];                 // When the first of those that wait was posted.
  count_t waiting_q[Queues];
  logic [Lines-1:0] status_q;
  logic [IndexBits-1:0] look_q;           // Each cycle another queue's time is looked at.

  wire count_t waiting = waiting_q[posted_queue_i];
  wire count_t more = waiting == '1 ? waiting : waiting + 1'b1;
  wire posted_asks = posted_valid_i && (more >= completions_i[posted_queue_i] ||
                                        wait_ticks_i[posted_queue_i] == '0);

  wire tick_t waited = now_q - since_q[look_q];
  wire time_asks = waiting_q[look_q] != '0 && (waiting_q[look_q] >= completions_i[look_q] ||
                                               waited >= {1'b0, wait_ticks_i[look_q]});

  logic [Queues-1:0] asks;
  always_comb begin
    asks = '0;
    if (posted_asks) asks[posted_queue_i] = 1'b1;
    if (time_asks) asks[look_q] = 1'b1;
  end

  assign status_o = status_q;
  assign irq_o = status_q & ~mask_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      now_q <= '0;
      look_q <= '0;
      status_q <= '0;
      for (int unsigned i = 0; i < Queues; i++) waiting_q[i] <= '0;
    end else if (reset_i) begin
      status_q <= '0;
      for (int unsigned i = 0; i < Queues; i++) waiting_q[i] <= '0;
    end else begin
      now_q <= now_q + 1'b1;
      look_q <= look_q + 1'b1;
      status_q <= (status_q & ~clear_i) | {asks, others_i};
      if (posted_valid_i) waiting_q[posted_queue_i] <= posted_asks ? '0 : more;
      // What is posted in this cycle is told with those before it.
      if (time_asks) waiting_q[look_q] <= '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (posted_valid_i && waiting == '0) since_q[posted_queue_i] <= now_q;
  end

endmodule
