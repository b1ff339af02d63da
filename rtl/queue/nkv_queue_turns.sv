// Whose command starts next: start-time fair queueing, the weighted fair order for work whose size is
// known only when it is done. A queue's command carries a tag: the end of the queue's last command in
// virtual time, or the tag of the command that started last if that is later. The least tag goes
// first; a command's end is its tag plus its cost by its queue's weight.
// - Work-conserving: a queue that is ready goes when no other is.
// - Fair: with one engine, of two queues that are ready whenever they may be, costs by weight differ
//   over any time by no more than one largest command of each, by its weight. With several, a queue
//   has one of them at the most, and what it cannot take for that is not made up for later.
// - Latency: a command of a queue that is not ahead of its share (its tag is not later than that of
//   the command that started last) waits until an engine is free, and then for one of each other queue
//   at the most.
// - A pause saves nothing up, and stopping a queue forgives nothing.
// Weights count at a command's end. 0 counts as 1.
//
// One queue a cycle is looked at: a choice stands when every queue was looked at since the last start,
// and the one whose command ended last once more (`again_o`), with its new tag.
//
// A command that trails, while the next may start, has ended here: what it will write is known.

module nkv_queue_turns
  import nkv_queue_pkg::*;
#(
  parameter int unsigned Engines = 1,    // Commands that run at a time, each of another queue.
  parameter int unsigned CostBits = 26,
  localparam int unsigned EngineBits = Engines > 1 ? $clog2(Engines) : 1
) (
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic                reset_i,

  input  queue_t              look_i,    // This cycle's queue
  input  logic                ready_i,   // has a command that can start.
  output logic                again_o,   // It must be the one whose command ended last.

  output logic                valid_o,
  output queue_t              queue_o,
  input  logic                start_i,   // Its command starts,
  input  logic [EngineBits-1:0] start_engine_i,   // here.

  // A command has ended, or trails from now on, before the next starts there.
  input  logic                end_i,
  input  logic [EngineBits-1:0] end_engine_i,
  input  logic [3:0]          weight_i,  // Of its queue.
  input  logic [CostBits-1:0] cost_i
);

  localparam int unsigned Queues = nkv_abi_pkg::MaxQueues;

  // Virtual time of a unit of cost, by weight: whole numbers, because all weights divide 360,360.
  localparam int unsigned StepBits = 19;
  function automatic logic [StepBits-1:0] step(input logic [3:0] weight);
    unique case (weight)
      4'd2: return 19'd180180;
      4'd3: return 19'd120120;
      4'd4: return 19'd90090;
      4'd5: return 19'd72072;
      4'd6: return 19'd60060;
      4'd7: return 19'd51480;
      4'd8: return 19'd45045;
      4'd9: return 19'd40040;
      4'd10: return 19'd36036;
      4'd11: return 19'd32760;
      4'd12: return 19'd30030;
      4'd13: return 19'd27720;
      4'd14: return 19'd25740;
      4'd15: return 19'd24024;
      default: return 19'd360360;
    endcase
  endfunction

  // Tags lie at most one command apart, or as far as others come while one runs, so that their order
  // survives their wrap.
  localparam int unsigned TagBits = CostBits + StepBits + (Engines == 1 ? 2 : 16);
  typedef logic [TagBits-1:0] tag_t;
  function automatic logic earlier(input tag_t a, input tag_t b);
    tag_t distance;
    distance = a - b;
    return distance[TagBits-1];
  endfunction

  tag_t tag_q[Queues];
  logic [Queues-1:0] waits_q;      // The tag is that of a command that is ready.
  tag_t now_q, chosen_tag_q;
  tag_t started_tag_q[Engines];
  logic chosen_q;
  queue_t chosen_queue_q;
  logic [QueueBits:0] looks_q;     // Since the last start; its highest bit says that all were seen.

  // A command's end is reckoned in one cycle; in the next its queue is looked at and takes it.
  logic reckoned_q;
  tag_t reckoned_tag_q;

  wire tag_t kept = reckoned_q ? reckoned_tag_q : tag_q[look_i];
  wire tag_t tag = waits_q[look_i] || !earlier(kept, now_q) ? kept : now_q;
  wire ready = ready_i && !(start_i && chosen_queue_q == look_i);
  wire better = !chosen_q || chosen_queue_q == look_i || earlier(tag, chosen_tag_q);

  assign again_o = reckoned_q;
  assign valid_o = chosen_q && looks_q[QueueBits] && !reckoned_q;
  assign queue_o = chosen_queue_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      now_q <= '0;
      waits_q <= '0;
      chosen_q <= 1'b0;
      looks_q <= '0;
      reckoned_q <= 1'b0;
      for (int unsigned i = 0; i < Queues; i++) tag_q[i] <= '0;
    end else if (reset_i) begin
      now_q <= '0;
      waits_q <= '0;
      chosen_q <= 1'b0;
      looks_q <= '0;
      reckoned_q <= 1'b0;
      for (int unsigned i = 0; i < Queues; i++) tag_q[i] <= '0;
    end else begin
      reckoned_q <= end_i;
      waits_q[look_i] <= ready;
      tag_q[look_i] <= tag;
      if (ready && better) chosen_q <= 1'b1;
      else if (!ready && chosen_queue_q == look_i) chosen_q <= 1'b0;
      if (!looks_q[QueueBits] && !reckoned_q) looks_q <= looks_q + 1'b1;
      if (start_i) begin
        now_q <= chosen_tag_q;
        waits_q[chosen_queue_q] <= 1'b0;
        chosen_q <= 1'b0;
        looks_q <= '0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (ready && better) begin
      chosen_queue_q <= look_i;
      chosen_tag_q <= tag;
    end
    if (start_i) started_tag_q[start_engine_i] <= chosen_tag_q;
    if (end_i) begin
      reckoned_tag_q <= started_tag_q[end_engine_i] + tag_t'(cost_i) * tag_t'(step(weight_i));
    end
  end

endmodule
