// A write's address and data to the two channels that AXI has for them. Each is offered until it is
// taken, whatever becomes of the other. No cycle is added; one write per cycle.

module nkv_write_split (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic valid_i,     // Held until ready_o.
  output logic ready_o,

  output logic aw_valid_o,
  input  logic aw_ready_i,
  output logic w_valid_o,
  input  logic w_ready_i
);

  logic aw_done_q, w_done_q;

  assign aw_valid_o = valid_i && !aw_done_q;
  assign w_valid_o = valid_i && !w_done_q;
  assign ready_o = (aw_done_q || aw_ready_i) && (w_done_q || w_ready_i);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      aw_done_q <= 1'b0;
      w_done_q <= 1'b0;
    end else if (valid_i) begin
      aw_done_q <= !ready_o && (aw_done_q || aw_ready_i);
      w_done_q <= !ready_o && (w_done_q || w_ready_i);
    end
  end

endmodule
