// What nkv_fifo promises: words leave in the order in which they came, none is lost or made up, a
// word that waits does not change, and the level is told exactly. One word, chosen at any time by
// pick_i, is followed through the queue, which stands for all of them.

module nkv_fifo_proof #(
  parameter int unsigned Depth = 4,
  parameter bit Block = 1'b0,
  localparam int unsigned LevelBits = $clog2(Depth) + 1
) (
  input logic       clk_i,
  input logic       clear_i,
  input logic       in_valid_i,
  input logic [3:0] in_data_i,
  input logic       out_ready_i,
  input logic       pick_i
);

  typedef logic [LevelBits-1:0] level_t;

  logic rst_n = 1'b0;
  logic in_ready, out_valid;
  logic [3:0] out_data;
  level_t used;

  nkv_fifo #(
    .T(logic [3:0]),
    .Depth(Depth),
    .Block(Block)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .clear_i,
    .in_valid_i,
    .in_ready_o(in_ready),
    .in_data_i,
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_data_o(out_data),
    .used_o(used)
  );

  wire push = in_valid_i && in_ready;
  wire pop = out_valid && out_ready_i;

  level_t level = '0;       // Words held.
  logic followed = 1'b0;    // The chosen word is held,
  level_t ahead = '0;       // behind so many others,
  logic [3:0] word = '0;    // and it is this one.
  logic waited = 1'b0;      // A word was offered in the last cycle and not taken:
  logic [3:0] offered = '0; // this one.

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (!rst_n || clear_i) begin
      level <= '0;
      followed <= 1'b0;
      waited <= 1'b0;
    end else begin
      level <= level + level_t'(push) - level_t'(pop);
      waited <= out_valid && !out_ready_i;
      if (followed) begin
        if (pop && ahead == '0) followed <= 1'b0;
        if (pop) ahead <= ahead - 1'b1;
      end else if (push && pick_i) begin
        followed <= 1'b1;
        ahead <= level - level_t'(pop);
        word <= in_data_i;
      end
    end
    offered <= out_data;
  end

  always_comb begin
    if (rst_n) begin
      a_level_is_told : assert (used == level);
      a_level_is_bounded : assert (level <= level_t'(Depth));
      a_ready_unless_full : assert (in_ready == (level < level_t'(Depth)));
      a_valid_unless_empty : assert (out_valid == (level != '0));
      if (waited) a_word_holds : assert (out_valid && out_data == offered);
      if (followed && ahead == '0) a_word_arrives : assert (out_valid && out_data == word);
      if (followed) a_word_is_held : assert (ahead < level);
    end
  end

endmodule
