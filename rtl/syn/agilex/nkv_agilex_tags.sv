// Short ids for a memory controller whose own are too short: gives each access a tag that no other
// one in flight has, and the access's id back with the answer. A tag is free again in the cycle
// after its answer. Without a free tag nothing is ready.

`include "nkv_assert.svh"

module nkv_agilex_tags #(
  parameter int unsigned IdBits = 13,
  parameter int unsigned TagBits = 8
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  output logic               ready_o,
  input  logic               take_i,        // Only with ready_o.
  input  logic [IdBits-1:0]  id_i,
  output logic [TagBits-1:0] tag_o,         // With ready_o.

  input  logic               answer_i,      // Taken.
  input  logic [TagBits-1:0] answer_tag_i,
  output logic [IdBits-1:0]  answer_id_o    // Of answer_tag_i, in the same cycle.
);

  typedef logic [TagBits-1:0] tag_t;

  // Tags that were never given, then those that came back.
  logic [TagBits:0] fresh_q;
  wire has_fresh = !fresh_q[TagBits];
  logic back_valid, back_ready;  // There is room for every tag.
  logic [TagBits:0] unused_back;
  tag_t back;

  nkv_fifo #(
    .T(tag_t),
    .Depth(2**TagBits)
  ) u_back (
    .clk_i,
    .rst_ni,
    .clear_i    (1'b0),
    .in_valid_i (answer_i),
    .in_ready_o (back_ready),
    .in_data_i  (answer_tag_i),
    .out_valid_o(back_valid),
    .out_ready_i(take_i && !has_fresh),
    .out_data_o (back),
    .used_o     (unused_back)
  );

  assign ready_o = has_fresh || back_valid;
  assign tag_o = has_fresh ? fresh_q[TagBits-1:0] : back;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) fresh_q <= '0;
    else if (take_i && has_fresh) fresh_q <= fresh_q + 1'b1;
  end

  (* ram_style = "distributed" *) logic [IdBits-1:0] ids[2**TagBits];
  always_ff @(posedge clk_i) if (take_i) ids[tag_o] <= id_i;
  assign answer_id_o = ids[answer_tag_i];

  `NKV_ASSERT_ROOM(BackHasRoom_A, answer_i, back_ready)

endmodule
