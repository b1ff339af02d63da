// Writes of an engine, one burst each, and whether memory has them all: those of the command that runs,
// and those that trail from the command before it. At most 63 of either wait for memory's answer. A burst
// outside the window is dropped; commands are checked before they write.
//
// When memory refuses one, those that are asked for from then on are dropped: a page is published with the
// writes that follow its body's, so nobody finds one that memory does not hold.

`include "nkv_assert.svh"

module nkv_writer
  import nkv_pkg::*;
#(
  parameter logic [2:0] Client = '0     // Upper bits of the ids.
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,       // Forgets what was not accepted by memory yet.
  input  logic           forfeit_i,     // With clear_i: what memory owes will not come.
  output logic           quiet_o,       // It owes no answer.

  input  logic           request_valid_i,
  output logic           request_ready_o,
  input  write_request_t request_i,
  input  logic           trailing_i,    // It is one of those that trail.
  input  logic           inside_i,      // Guarded: it lies in the window,
  input  address_t       address_i,     // here.
  output logic           idle_o,        // Memory has all that was accepted, of those that do not trail,
  output logic           trailing_idle_o,  // and of those that do.
  input  logic           begins_i,      // Others begin, of those that do not trail,
  input  logic           trailing_ends_i,  // and of those that do.
  output logic           failed_o,      // Memory refused one of them,
  output logic           trailing_failed_o,
  output logic           w_valid_o,
  input  logic           w_ready_i,
  output axi_w_t         w_o,
  input  logic           b_valid_i,
  input  axi_b_t         b_i
);

  logic           full_q, trailing_q;
  write_request_t request_q;
  address_t       address_q;
  logic [1:0]     epoch_q;              // Of forfeits.
  logic [1:0][5:0] unanswered_q;        // [1]: of those that trail.
  logic [1:0]     failed_q;

  wire sent = w_valid_o && w_ready_i;
  wire answered = b_valid_i && b_i.id[AxiIdBits-1:1] == {Client, epoch_q, 6'b0};

  assign w_valid_o = full_q && unanswered_q[trailing_q] != '1;
  assign w_o = '{
      id: axi_id_t'({Client, epoch_q, 6'b0, trailing_q}),
      addr: address_q,
      strb: request_q.strobes,
      poison: 1'b0,
      data: request_q.data
  };
  assign request_ready_o = !full_q || sent;
  assign idle_o = !(full_q && !trailing_q) && unanswered_q[0] == '0;
  assign trailing_idle_o = !(full_q && trailing_q) && unanswered_q[1] == '0;
  assign {trailing_failed_o, failed_o} = failed_q;
  assign quiet_o = unanswered_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      full_q <= 1'b0;
      trailing_q <= 1'b0;
      request_q <= '0;
      address_q <= '0;
      failed_q <= '0;
    end else if (clear_i) begin
      full_q <= 1'b0;
      failed_q <= '0;
    end else begin
      if (request_ready_o) begin
        full_q <= request_valid_i && inside_i && !failed_q[trailing_i];
        if (request_valid_i) begin
          trailing_q <= trailing_i;
          request_q <= request_i;
          address_q <= address_i;
        end
      end
      failed_q <= failed_q & ~{trailing_ends_i, begins_i};
      if (answered && b_i.error) failed_q[b_i.id[0]] <= 1'b1;
    end
  end

  // Through clearings: what was sent will be written, though it is forgotten here.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      epoch_q <= '0;
      unanswered_q <= '0;
    end else if (forfeit_i) begin
      epoch_q <= epoch_q + 2'd1;
      unanswered_q <= '0;
    end else begin
      for (int unsigned i = 0; i < 2; i++) begin
        unanswered_q[i] <= unanswered_q[i] + 6'(sent && trailing_q == 1'(i)) -
            6'(answered && b_i.id[0] == 1'(i));
      end
    end
  end

  // The guard has made an address of it.
  wire unused_offset = ^request_q.address;

  `NKV_ASSERT_STAYS(WStays_A, w_valid_o, w_ready_i, w_o, clear_i)
  `NKV_ASSERT(AnswerIsOwed_A, !answered || unanswered_q[b_i.id[0]] != '0)

endmodule
