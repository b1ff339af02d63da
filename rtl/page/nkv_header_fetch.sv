// Fetches the headers of visited pages ahead of their use: looks an entry up, asks for its page's
// header, and hands visit and entry on in order; up to `Ahead` headers are on their way or judged and
// waiting. With `serial_i` one page at a time, so that what is done to one page is seen by the next.

`include "nkv_assert.svh"

module nkv_header_fetch
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter int unsigned Ahead = 4
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,
  input  logic          serial_i,

  input  logic          visit_valid_i,
  output logic          visit_ready_o,
  input  visit_t        visit_i,
  output page_index_t   page_o,           // To look up; the entry follows by one cycle.
  input  page_entry_t   entry_i,

  output logic          request_valid_o,
  input  logic          request_ready_i,
  output read_request_t request_o,

  output logic          pending_valid_o,  // Headers asked for, in order.
  input  logic          pending_ready_i,
  output visit_t        pending_visit_o,
  output page_entry_t   pending_entry_o,
  input  logic          released_i,       // A page has been dealt with.
  output logic          idle_o
);

  typedef struct packed {
    visit_t      visit;
    page_entry_t entry;
  } pending_t;

  typedef logic [$clog2(Ahead):0] count_t;
  count_t under_way_q;
  logic   looked_up_q;
  visit_t visit_q;

  wire has_room = under_way_q < (serial_i ? count_t'(1) : count_t'(Ahead));
  wire send = request_valid_o && request_ready_i;

  assign visit_ready_o = !looked_up_q && has_room;
  assign page_o = visit_i.page;
  wire take = visit_valid_i && visit_ready_o;

  assign request_valid_o = looked_up_q;
  page_entry_t entry_q;
  logic        fresh_q;  // The entry stands at the list's output in the first cycle only.
  wire page_entry_t entry = fresh_q ? entry_i : entry_q;
  assign request_o = '{
      tag: '{sink: SinkHeader, last_bytes: 7'(BurstBytes), default: '0},
      bursts: burst_count_t'(PageHeaderBytes / BurstBytes),
      address: 64'(entry.page) * PageGrainBytes
  };

  assign idle_o = under_way_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      under_way_q <= '0;
      looked_up_q <= 1'b0;
      fresh_q <= 1'b0;
      visit_q <= '0;
      entry_q <= '0;
    end else if (clear_i) begin
      under_way_q <= '0;
      looked_up_q <= 1'b0;
    end else begin
      under_way_q <= under_way_q + count_t'(take) - count_t'(released_i);
      fresh_q <= take;
      if (fresh_q) entry_q <= entry_i;
      if (take) begin
        looked_up_q <= 1'b1;
        visit_q <= visit_i;
      end else if (send) begin
        looked_up_q <= 1'b0;
      end
    end
  end

  pending_t pending;
  logic pending_room;
  logic [$clog2(Ahead):0] unused_used;
  nkv_fifo #(
    .T(pending_t),
    .Depth(Ahead)
  ) u_pending (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (send),
    .in_ready_o (pending_room),
    .in_data_i  ('{visit: visit_q, entry: entry}),
    .out_valid_o(pending_valid_o),
    .out_ready_i(pending_ready_i),
    .out_data_o (pending),
    .used_o     (unused_used)
  );
  assign pending_visit_o = pending.visit;
  assign pending_entry_o = pending.entry;

  `NKV_ASSERT_STAYS(RequestStays_A, request_valid_o, request_ready_i, request_o, clear_i)
  `NKV_ASSERT_STAYS(PendingStays_A, pending_valid_o, pending_ready_i, {pending_visit_o, pending_entry_o}, clear_i)
  `NKV_ASSERT_ROOM(PendingHasRoom_A, send, pending_room)

endmodule
