// Keeps q of Rows query rows, written word by word. A word of all rows is read per cycle and there
// in the next.

module nkv_query_store
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic        clk_i,

  input  logic        write_i,
  input  row_index_t  row_i,
  input  word_index_t word_i,
  input  query_t      query_i[ExactLanes],

  input  logic        read_i,
  input  word_index_t read_word_i,
  output query_t      query_o[Products]
);

  for (genvar row = 0; row < Rows; row++) begin : gen_row
    for (genvar lane = 0; lane < ExactLanes; lane++) begin : gen_lane
      (* ram_style = "distributed" *) query_t cells[RowWords];
      always_ff @(posedge clk_i) begin
        if (write_i && row_i == row_index_t'(row)) cells[word_i] <= query_i[lane];
        if (read_i) query_o[row*ExactLanes+lane] <= cells[read_word_i];
      end
    end
  end

endmodule
