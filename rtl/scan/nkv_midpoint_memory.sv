// Midpoints of a list: 8 rows x 16 tokens wide, so that a pass takes 16 tokens per cycle. Written 4
// tokens at a time. Reading takes two cycles; of what is not asked for, the output stays.

module nkv_midpoint_memory
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic clk_i,

  input  logic      write_i,
  input  page_t     write_page_i,
  input  quad_t     write_quad_i,
  input  midpoint_t write_data_i[Rows][PlaneTokens],

  // Word `word` of a page: all of it, or one quad.
  input  logic       read_all_i,
  input  logic       read_quad_i,
  input  page_t      read_page_i,
  input  logic [1:0] read_word_i,
  input  logic [1:0] read_part_i,
  output midpoint_t  read_data_o[Rows][ScanTokens]
);

  localparam int unsigned Depth = ListPages * PageWords;
  wire [PageBits+1:0] write_at = {write_page_i, write_quad_i[QuadBits-1:2]};
  wire [PageBits+1:0] read_at = {read_page_i, read_word_i};

  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    for (genvar q = 0; q < WordQuads; q++) begin : gen_quads
      (* ram_style = "ultra" *) logic [63:0] words[Depth];
      logic [63:0] read_1, read_2;
      logic reads_1;
      wire reads = read_all_i || (read_quad_i && read_part_i == 2'(q));
      wire [63:0] written = {write_data_i[r][3], write_data_i[r][2], write_data_i[r][1],
                             write_data_i[r][0]};
      always_ff @(posedge clk_i) begin
        if (write_i && write_quad_i[1:0] == 2'(q)) words[write_at] <= written;
      end
      always_ff @(posedge clk_i) begin
        reads_1 <= reads;
        if (reads) read_1 <= words[read_at];
        if (reads_1) read_2 <= read_1;
      end
      for (genvar t = 0; t < PlaneTokens; t++) begin : gen_tokens
        assign read_data_o[r][q*PlaneTokens+t] = read_2[16*t+:16];
      end
    end
  end

endmodule
