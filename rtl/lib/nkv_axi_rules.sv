// What AXI4 asks of both sides of a port, asserted: offers stay, a burst ends where its length says and lies in one 4 KiB,
// and nothing is answered that was not asked for. It drives nothing, and is there in simulation alone.
//
// Beats are as wide as the port, addresses count up. Answers with one id keep the order of their accesses, so that the end of
// a read's burst is known exactly while no other one of its id is under way.

`ifndef SYNTHESIS

`include "nkv_assert.svh"

module nkv_axi_rules #(
  parameter int unsigned IdBits = 1,
  parameter int unsigned BeatBytes = 64,
  parameter int unsigned RBits = 1,  // Of what comes with each channel beside what is named here.
  parameter int unsigned WBits = 1,
  parameter int unsigned BBits = 1
) (
  input logic              clk_i,
  input logic              rst_ni,

  input logic              ar_valid_i,
  input logic              ar_ready_i,
  input logic [IdBits-1:0] ar_id_i,
  input logic [63:0]       ar_addr_i,
  input logic [7:0]        ar_len_i,  // Beats, less one.

  input logic              r_valid_i,
  input logic              r_ready_i,
  input logic [IdBits-1:0] r_id_i,
  input logic              r_last_i,
  input logic [RBits-1:0]  r_i,

  input logic              aw_valid_i,
  input logic              aw_ready_i,
  input logic [IdBits-1:0] aw_id_i,
  input logic [63:0]       aw_addr_i,
  input logic [7:0]        aw_len_i,

  input logic              w_valid_i,
  input logic              w_ready_i,
  input logic              w_last_i,
  input logic [WBits-1:0]  w_i,

  input logic              b_valid_i,
  input logic              b_ready_i,
  input logic [IdBits-1:0] b_id_i,
  input logic [BBits-1:0]  b_i
);

  `NKV_ASSERT_STAYS(ArStays_A, ar_valid_i, ar_ready_i, {ar_id_i, ar_addr_i, ar_len_i})
  `NKV_ASSERT_STAYS(RStays_A, r_valid_i, r_ready_i, {r_id_i, r_last_i, r_i})
  `NKV_ASSERT_STAYS(AwStays_A, aw_valid_i, aw_ready_i, {aw_id_i, aw_addr_i, aw_len_i})
  `NKV_ASSERT_STAYS(WStays_A, w_valid_i, w_ready_i, {w_last_i, w_i})
  `NKV_ASSERT_STAYS(BStays_A, b_valid_i, b_ready_i, {b_id_i, b_i})

  // Whether a burst ends in the 4 KiB in which it begins.
  localparam int unsigned Page = 4096;
  function automatic logic in_page(logic [$clog2(Page)-1:0] offset, logic [7:0] len);
    return 32'(offset) / BeatBytes + 32'(len) < Page / BeatBytes;
  endfunction
  `NKV_ASSERT(ArInPage_A, !ar_valid_i || in_page(ar_addr_i[11:0], ar_len_i))
  `NKV_ASSERT(AwInPage_A, !aw_valid_i || in_page(aw_addr_i[11:0], aw_len_i))

  // ---- What is owed: beats and bursts of reads, and writes, by id ----
  int unsigned beats[2**IdBits], bursts[2**IdBits], writes[2**IdBits];
  int unsigned whole;         // Writes whose data have come, and that are not answered.
  int unsigned sent;          // Beats of the write whose data come.
  int unsigned lengths[$];    // Of writes, as their addresses say,
  int unsigned counts[$];     // and as their data came: one of both is empty.

  // verilator lint_off BLKSEQ
  // verilator coverage_off
  always @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i < 2**IdBits; i++) begin
        beats[i] = 0;
        bursts[i] = 0;
        writes[i] = 0;
      end
      whole = 0;
      sent = 0;
      lengths.delete();
      counts.delete();
    end else begin
      // Answers first: none comes in the cycle of its access.
      if (r_valid_i) begin
        RAsked_A : assert (beats[r_id_i] != 0) else $error("RAsked_A: a beat that was not asked for");
        // The last beat of all is a last one, and as many are left as bursts at the least.
        RLast_A : assert (r_last_i ? bursts[r_id_i] != 1 || beats[r_id_i] == 1 : beats[r_id_i] > bursts[r_id_i])
        else $error("RLast_A: a burst of another length than its read's");
        if (r_ready_i) begin
          beats[r_id_i] = beats[r_id_i] - 1;
          if (r_last_i) bursts[r_id_i] = bursts[r_id_i] - 1;
        end
      end
      if (b_valid_i) begin
        BAsked_A : assert (writes[b_id_i] != 0 && whole != 0)
        else $error("BAsked_A: an answer without a write");
        if (b_ready_i) begin
          writes[b_id_i] = writes[b_id_i] - 1;
          whole = whole - 1;
        end
      end
      if (ar_valid_i && ar_ready_i) begin
        beats[ar_id_i] = beats[ar_id_i] + 32'(ar_len_i) + 1;
        bursts[ar_id_i] = bursts[ar_id_i] + 1;
      end
      if (aw_valid_i && aw_ready_i) begin
        writes[aw_id_i] = writes[aw_id_i] + 1;
        lengths.push_back(32'(aw_len_i) + 1);
      end
      if (w_valid_i && w_ready_i) begin
        sent = sent + 1;
        if (w_last_i) begin
          counts.push_back(sent);
          sent = 0;
          whole = whole + 1;
        end
      end
      if (lengths.size() != 0 && counts.size() != 0) begin
        WLast_A : assert (lengths[0] == counts[0]) else $error("WLast_A: a burst of another length than its write's");
        void'(lengths.pop_front());
        void'(counts.pop_front());
      end
      if (lengths.size() != 0) begin
        WEnds_A : assert (sent < lengths[0]) else $error("WEnds_A: no last beat where the write ends");
      end
    end
  end
  // verilator coverage_on
  // verilator lint_on BLKSEQ

endmodule

`endif
