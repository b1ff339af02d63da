// Register slice of a valid/ready stream, any payload type: every output is a register, so neither
// data nor ready pass through combinationally. A word takes one cycle; one word per cycle is
// sustained. A second register catches the word that comes while the first is held up.

`include "nkv_assert.svh"

module nkv_skid_buffer #(
  parameter type T = logic [7:0]
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic in_valid_i,
  output logic in_ready_o,
  input  T     in_data_i,

  output logic out_valid_o,
  input  logic out_ready_i,
  output T     out_data_o
);

  logic out_valid_q, ready_q;
  T out_q, skid_q;  // The skid register is full exactly while the slice is not ready.

  wire push = in_valid_i && ready_q;
  wire moves = out_ready_i || !out_valid_q;  // The output register is free for another word.

  assign in_ready_o = ready_q;
  assign out_valid_o = out_valid_q;
  assign out_data_o = out_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      out_valid_q <= 1'b0;
      ready_q <= 1'b1;
    end else if (moves) begin
      out_valid_q <= push || !ready_q;
      ready_q <= 1'b1;
    end else if (push) begin
      ready_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (moves) out_q <= ready_q ? in_data_i : skid_q;
    if (push) skid_q <= in_data_i;
  end

  `NKV_ASSERT(SkidIsOffered_A, ready_q || out_valid_q)

endmodule
