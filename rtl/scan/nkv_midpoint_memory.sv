// Midpoints of a list: 8 rows x 16 tokens wide, so that a pass takes 16 tokens per cycle. Written 4
// tokens at a time. Reading takes two cycles; of what is not asked for, the output stays.
//
// The first KeptPages pages stay here. Of those behind them a page lies in a frame, that of its index's
// lower bits, from when it was filled until another page is.

module nkv_midpoint_memory
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages  // A power of two.
) (
  input  logic clk_i,

  // Of a page that stays; of others nothing is written.
  input  logic      write_i,
  input  page_t     write_page_i,
  input  quad_t     write_quad_i,
  input  midpoint_t write_data_i[Rows][PlaneTokens],

  // Of a page that lies in a frame.
  input  logic      fill_i,
  input  page_t     fill_page_i,
  input  quad_t     fill_quad_i,
  input  burst_t    fill_data_i,

  // Word `word` of a page: all of it, or one quad.
  input  logic       read_all_i,
  input  logic       read_quad_i,
  input  page_t      read_page_i,
  input  logic [1:0] read_word_i,
  input  logic [1:0] read_part_i,
  output midpoint_t  read_data_o[Rows][ScanTokens]
);

  localparam int unsigned KeptBits = $clog2(KeptPages);
  localparam int unsigned FrameBits = $clog2(MidpointFrames);
  wire write_kept = stays(write_page_i, KeptPages);
  wire [KeptBits+1:0] write_at = {write_page_i[KeptBits-1:0], write_quad_i[QuadBits-1:2]};
  wire [FrameBits+1:0] fill_at = {fill_page_i[FrameBits-1:0], fill_quad_i[QuadBits-1:2]};
  wire [KeptBits+1:0] read_at = {read_page_i[KeptBits-1:0], read_word_i};
  wire [FrameBits+1:0] frame_at = {read_page_i[FrameBits-1:0], read_word_i};
  logic frame_1;

  always_ff @(posedge clk_i) begin
    if (read_all_i || read_quad_i) frame_1 <= !stays(read_page_i, KeptPages);
  end

  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    for (genvar q = 0; q < WordQuads; q++) begin : gen_quads
      (* ram_style = "ultra" *) logic [63:0] words[KeptPages*PageWords];
      (* ram_style = "block" *) logic [63:0] frames[MidpointFrames*PageWords];
      logic [63:0] read_1, from_frame_1, read_2;
      logic reads_1;
      wire reads = read_all_i || (read_quad_i && read_part_i == 2'(q));
      wire [63:0] written = {write_data_i[r][3], write_data_i[r][2], write_data_i[r][1],
                             write_data_i[r][0]};
      always_ff @(posedge clk_i) begin
        if (write_i && write_kept && write_quad_i[1:0] == 2'(q)) words[write_at] <= written;
        if (fill_i && fill_quad_i[1:0] == 2'(q)) frames[fill_at] <= fill_data_i[64*r+:64];
      end
      always_ff @(posedge clk_i) begin
        reads_1 <= reads;
        if (reads) begin
          read_1 <= words[read_at];
          from_frame_1 <= frames[frame_at];
        end
        if (reads_1) read_2 <= frame_1 ? from_frame_1 : read_1;
      end
      for (genvar t = 0; t < PlaneTokens; t++) begin : gen_tokens
        assign read_data_o[r][q*PlaneTokens+t] = read_2[16*t+:16];
      end
    end
  end

  wire unused = ^{write_page_i, fill_page_i, fill_quad_i};

endmodule
