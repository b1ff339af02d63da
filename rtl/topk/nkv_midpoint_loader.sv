// Midpoints that do not stay on chip (nkv_scan) come back here: of the pages that a feed goes over, ahead of
// it, each into the frame that its index names (nkv_midpoint_memory).
//
//   pages --> whose frame is free: asked for --> queue --> pages whose midpoints have come
//
// A page takes its frame as it enters the queue, and has it until whoever works on its midpoints is over with
// it, in any order. So a page that has left waits for nothing but what was asked for before it, and its
// bursts always find their place: reads that come behind them do not depend on those. Pages that stay on chip
// come first, and pass without a cycle; others take two, and no less than their 16 bursts if they have any.

module nkv_midpoint_loader
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_scan_pkg::stays;
  import nkv_scan_pkg::midpoints_at;
  import nkv_scan_pkg::PageMidpointBytes;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages,
  localparam int unsigned Overs = 3
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,          // Before each command.

  input  logic          loads_i,          // Midpoints are worked on; held while pages pass.

  input  logic          page_valid_i,     // Pages ascending.
  output logic          page_ready_o,
  input  page_index_t   page_i,
  input  logic          wanted_i,         // Midpoints of the page in the cycle before are.
  output logic          page_valid_o,
  input  logic          page_ready_i,
  output page_index_t   page_o,
  output logic          empty_o,          // No page is here.

  input  logic [Overs-1:0] over_i,        // Pages whose midpoints are worked on no more: once each of
  input  page_index_t   over_page_i[Overs],  // those that have passed with loads_i.

  output logic          request_valid_o,  // Of scratch memory.
  input  logic          request_ready_i,
  output read_request_t request_o,
  input  logic          beat_valid_i,     // Beats for SinkMidpoints; always taken.
  input  read_beat_t    beat_i,
  output logic          poisoned_o,       // Since clear_i; the first page that was.
  output page_index_t   poisoned_page_o
);

  localparam int unsigned FrameBits = $clog2(MidpointFrames);
  typedef logic [FrameBits-1:0] frame_t;

  typedef struct packed {
    page_index_t page;
    logic        wanted;
  } passing_t;
  passing_t first;
  logic [MidpointFrames-1:0] busy_q;
  logic [FrameBits:0] come_q;             // Pages in the queue whose midpoints have come.
  logic looked_up_q;
  logic queued, unused_queue_ready;
  logic [FrameBits:0] unused_used;

  // ---- Into the queue ----
  wire passes = !loads_i || stays(page_i, KeptPages);
  wire frame_t frame = page_i[FrameBits-1:0];
  wire may_enter = page_valid_i && looked_up_q && !busy_q[frame];
  wire enters = may_enter && (!wanted_i || request_ready_i);
  assign request_valid_o = may_enter && wanted_i;
  assign request_o = '{
      tag: '{sink: SinkMidpoints, page: page_i, last_bytes: 7'(BurstBytes), default: '0},
      bursts: burst_count_t'(PageMidpointBytes / BurstBytes),
      address: midpoints_at(page_i)
  };
  assign page_ready_o = passes ? page_ready_i && !queued : enters;

  nkv_fifo #(
    .T(passing_t),
    .Depth(MidpointFrames)
  ) u_queue (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (enters),
    .in_ready_o (unused_queue_ready),
    .in_data_i  ('{page: page_i, wanted: wanted_i}),
    .out_valid_o(queued),
    .out_ready_i(page_valid_o && page_ready_i),
    .out_data_o (first),
    .used_o     (unused_used)
  );

  // ---- Out of it ----
  assign page_valid_o = queued ? !first.wanted || come_q != '0 : page_valid_i && passes;
  assign page_o = queued ? first.page : page_i;
  assign empty_o = !queued;

  wire comes = beat_valid_i && beat_i.last;
  wire leaves = queued && first.wanted && page_valid_o && page_ready_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      looked_up_q <= 1'b0;
      come_q <= '0;
      busy_q <= '0;
    end else if (clear_i) begin
      looked_up_q <= 1'b0;
      come_q <= '0;
      busy_q <= '0;
    end else begin
      looked_up_q <= page_valid_i && !passes && !enters;
      come_q <= come_q + (FrameBits + 1)'(comes) - (FrameBits + 1)'(leaves);
      for (int unsigned i = 0; i < Overs; i++) begin
        if (over_i[i] && !stays(over_page_i[i], KeptPages)) busy_q[frame_t'(over_page_i[i])] <= 1'b0;
      end
      if (enters) busy_q[frame] <= 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      poisoned_o <= 1'b0;
      poisoned_page_o <= '0;
    end else if (clear_i) begin
      poisoned_o <= 1'b0;
    end else if (beat_valid_i && (beat_i.poison || beat_i.fault) && !poisoned_o) begin
      poisoned_o <= 1'b1;
      poisoned_page_o <= beat_i.tag.page;
    end
  end

  wire unused = ^beat_i;

endmodule
