// What nkv_skid_buffer promises: words leave in the order in which they came, none is lost or made
// up, a word that waits does not change; a word per cycle is sustained; ready is a function of the
// past alone. One word, chosen at any time by pick_i, stands for all of them.

module nkv_skid_buffer_proof (
  input logic       clk_i,
  input logic       in_valid_i,
  input logic [3:0] in_data_i,
  input logic       out_ready_i,
  input logic       pick_i
);

  logic rst_n = 1'b0;
  logic in_ready, out_valid;
  logic [3:0] out_data;

  nkv_skid_buffer #(
    .T(logic [3:0])
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .in_valid_i,
    .in_ready_o(in_ready),
    .in_data_i,
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_data_o(out_data)
  );

  wire push = in_valid_i && in_ready;
  wire pop = out_valid && out_ready_i;

  logic [1:0] level = '0;   // Words held.
  logic followed = 1'b0;    // The chosen word is held,
  logic behind = 1'b0;      // behind another one,
  logic [3:0] word = '0;    // and it is this one.
  logic waited = 1'b0;      // A word was offered in the last cycle and not taken:
  logic [3:0] offered = '0; // this one.
  logic flowed = 1'b0;      // The output was free to move in the last cycle.

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n) begin
      level <= level + 2'(push) - 2'(pop);
      waited <= out_valid && !out_ready_i;
      if (followed) begin
        if (pop) {followed, behind} <= {behind, 1'b0};
      end else if (push && pick_i) begin
        followed <= 1'b1;
        behind <= level > 2'(pop);
        word <= in_data_i;
      end
      flowed <= out_ready_i;
    end
    offered <= out_data;
  end

  always_comb begin
    if (rst_n) begin
      // Both as functions of the model's registers: no path from this cycle's inputs.
      a_ready_of_the_past : assert (in_ready == (level < 2'd2));
      a_valid_of_the_past : assert (out_valid == (level != 2'd0));
      if (flowed) a_full_throughput : assert (in_ready);
      if (waited) a_word_holds : assert (out_valid && out_data == offered);
      if (followed && !behind) a_word_arrives : assert (out_valid && out_data == word);
      if (followed) a_word_is_held : assert ({1'b0, behind} < level);
    end
  end

endmodule
