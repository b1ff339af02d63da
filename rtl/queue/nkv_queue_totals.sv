// Counters of each queue, as sums over commands that have ended: one memory, into which the ten numbers
// of a command are added one a cycle, read by the bus of the registers. All are 0 after reset_i, and a
// queue's change together. Section "Registers" of the contract's reference: TOTAL_*.

module nkv_queue_totals
  import nkv_abi_pkg::*;
  import nkv_queue_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        reset_i,

  input  logic        ended_valid_i,
  output logic        ended_ready_o,
  // verilator lint_off UNUSEDSIGNAL
  input  ended_t      ended_i,

  input  csr_access_t access_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic        known_o,       // The access is to one of these registers.
  output logic [63:0] rdata_o        // In the cycle after it.
);

  // In the order of the registers.
  localparam int unsigned Totals = 10;
  localparam int unsigned IndexBits = 4;
  typedef logic [IndexBits-1:0] index_t;
  typedef logic [QueueBits+IndexBits-1:0] place_t;

  (* ram_style = "distributed" *) logic [63:0] totals[2**(QueueBits + IndexBits)];
  logic [MaxQueues-1:0] counted_q;   // Memory holds numbers of this queue; else they are 0.
  logic        adds_q;
  index_t      index_q;
  queue_t      queue_q;
  logic [63:0] number_q[Totals];

  assign ended_ready_o = !adds_q;
  wire place_t place = {queue_q, index_q};
  wire [63:0] so_far = counted_q[queue_q] ? totals[place] : '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      adds_q <= 1'b0;
      index_q <= '0;
      counted_q <= '0;
    end else if (reset_i) begin
      adds_q <= 1'b0;
      index_q <= '0;
      counted_q <= '0;
    end else if (adds_q) begin
      index_q <= index_q + 1'b1;
      if (index_q == index_t'(Totals - 1)) begin
        adds_q <= 1'b0;
        index_q <= '0;
        counted_q[queue_q] <= 1'b1;
      end
    end else begin
      adds_q <= ended_valid_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (adds_q) totals[place] <= so_far + number_q[index_q];
    if (ended_valid_i && ended_ready_o) begin
      queue_q <= ended_i.started.queue_index;
      number_q[0] <= 64'd1;
      number_q[1] <= 64'(ended_i.outcome.stream_bursts);
      number_q[2] <= 64'(ended_i.outcome.refine_bursts);
      number_q[3] <= 64'(ended_i.outcome.exact_bursts);
      number_q[4] <= 64'(ended_i.outcome.value_bursts);
      number_q[5] <= 64'(ended_i.activity.written_bursts);
      number_q[6] <= ended_i.activity.ticks;
      number_q[7] <= 64'(ended_i.activity.read_refused_ticks);
      number_q[8] <= 64'(ended_i.activity.write_refused_ticks);
      number_q[9] <= 64'(ended_i.activity.memory_wait_ticks);
    end
  end

  // ---- Registers: a block of 128 bytes for each queue ----
  localparam int unsigned StrideBits = $clog2(RegTotalCommandsStride);
  wire queue_t read_queue = access_i.address[StrideBits+QueueBits-1:StrideBits];
  wire index_t read_index = access_i.address[IndexBits+2:3];

  assign known_o = access_i.address[31:StrideBits+QueueBits] ==
      RegTotalCommands[31:StrideBits+QueueBits];
  always_ff @(posedge clk_i) begin
    if (access_i.valid && known_o) begin
      rdata_o <= counted_q[read_queue] ? totals[{read_queue, read_index}] : '0;
    end
  end

endmodule
