// What nkv_write_split promises to a write that is held until ready_o: its address and its data are
// each taken exactly once, both by then, and offered until they are taken (AXI's rule), the one
// without regard to the other.

module nkv_write_split_proof (
  input logic clk_i,
  input logic valid_i,
  input logic aw_ready_i,
  input logic w_ready_i
);

  logic rst_n = 1'b0;
  logic ready, aw_valid, w_valid;
  logic waits = 1'b0;     // A write was offered in the last cycle and not taken.
  logic aw_taken = 1'b0;  // Of the write that is offered now.
  logic w_taken = 1'b0;

  nkv_write_split u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .valid_i,
    .ready_o(ready),
    .aw_valid_o(aw_valid),
    .aw_ready_i,
    .w_valid_o(w_valid),
    .w_ready_i
  );

  wire aw_has = aw_taken || (aw_valid && aw_ready_i);
  wire w_has = w_taken || (w_valid && w_ready_i);

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n) begin
      waits <= valid_i && !ready;
      aw_taken <= valid_i && !ready && aw_has;
      w_taken <= valid_i && !ready && w_has;
    end
  end

  always_comb begin
    if (rst_n) begin
      assume (!waits || valid_i);
      a_address_once : assert (aw_valid == (valid_i && !aw_taken));
      a_data_once : assert (w_valid == (valid_i && !w_taken));
      if (valid_i) a_ready_with_both : assert (ready == (aw_has && w_has));
    end
  end

endmodule
