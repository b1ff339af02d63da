// Reads and writes in turn, for a memory controller that takes one of them at a time: while an address
// or data of a write is offered, no read is, and the other way round. Combinational but for whose turn
// it is.
// - Work-conserving: something is offered whenever anything is asked for.
// - What is offered stays until it is taken, and a write that was begun is finished.
// - Fair both ways: a read waits for one write at the most, and a write for one read.

module nkv_agilex_turns (
  input  logic clk_i,
  input  logic rst_ni,

  // Held until ready.
  input  logic ar_valid_i,
  output logic ar_ready_o,
  input  logic aw_valid_i,    // With w_valid_i: of one write. Alone: what is left of it.
  output logic aw_ready_o,
  input  logic w_valid_i,
  output logic w_ready_o,

  // The controller.
  output logic ar_valid_o,
  input  logic ar_ready_i,
  output logic aw_valid_o,
  input  logic aw_ready_i,
  output logic w_valid_o,
  input  logic w_ready_i
);

  logic reads, writes, unused_valid, unused_index;
  wire write_ends = (aw_ready_i || !aw_valid_i) && (w_ready_i || !w_valid_i);

  nkv_round_robin #(
    .Requests(2)
  ) u_turn (
    .clk_i,
    .rst_ni,
    .request_i({aw_valid_i || w_valid_i, ar_valid_i}),
    .valid_o  (unused_valid),
    .ready_i  (reads ? ar_ready_i : write_ends),
    .grant_o  ({writes, reads}),
    .index_o  (unused_index)
  );

  assign ar_valid_o = reads;
  assign aw_valid_o = writes && aw_valid_i;
  assign w_valid_o = writes && w_valid_i;
  assign ar_ready_o = reads && ar_ready_i;
  assign aw_ready_o = writes && aw_ready_i;
  assign w_ready_o = writes && w_ready_i;

endmodule
