// Where the chunks of a block of rows stand, burst after burst.

module nkv_quant_places
  import nkv_quant_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  chunks_t     chunks_i,  // Of a row; held through the block.
  input  logic        step_i,    // On to the next burst; after the last, to the next block's first.
  output chunk_pair_t place_o
);

  token_t token_q;
  chunk_t chunk_q;

  wire chunk_t last_chunk = chunk_t'(chunks_i - 1'b1);
  wire first_ends = chunk_q == last_chunk;
  wire chunk_t second_chunk = first_ends ? '0 : chunk_q + 1'b1;
  wire token_t second_token = first_ends ? token_q + 1'b1 : token_q;
  wire second_ends = second_chunk == last_chunk;

  assign place_o.chunk = {second_chunk, chunk_q};
  assign place_o.token = {second_token, token_q};
  assign place_o.last = second_ends && second_token == '1;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      token_q <= '0;
      chunk_q <= '0;
    end else if (step_i) begin
      chunk_q <= second_ends ? '0 : second_chunk + 1'b1;
      token_q <= second_ends ? second_token + 1'b1 : second_token;
    end
  end

endmodule
