// Words of 32 elements, of a byte or two each, one after the other without a gap, to bursts, each one
// cycle after the word that fills it. A word per cycle, always taken.

module nkv_element_pack
  import nkv_pkg::*;
#(
  localparam int unsigned PieceBits = 128,  // 16 elements of a byte, or 8 of two.
  localparam int unsigned Pieces = BurstBits / PieceBits
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    clear_i,    // Forgets what has not filled a burst.

  input  logic                    valid_i,
  input  logic                    is_wide_i,  // Elements of two bytes; else of their low one.
  input  logic [$clog2(Pieces):0] count_i,    // Pieces of the word, 1 to Pieces.
  input  logic [15:0]             element_i[ExactLanes],

  output logic                    valid_o,
  output burst_t                  burst_o
);

  logic [PieceBits-1:0] piece[Pieces];
  logic [PieceBits-1:0] packed_piece[Pieces];

  always_comb begin
    for (int unsigned p = 0; p < Pieces; p++) begin
      burst_o[PieceBits*p+:PieceBits] = packed_piece[p];
      for (int unsigned i = 0; i < PieceBits / 16; i++) begin
        piece[p][16*i+:16] = is_wide_i ? element_i[PieceBits/16*p+i]
            : p < Pieces / 2
            ? {element_i[PieceBits/8*p+2*i+1][7:0], element_i[PieceBits/8*p+2*i][7:0]} : '0;
      end
    end
  end

  nkv_granule_pack #(
    .GranuleBits(PieceBits),
    .Granules   (Pieces)
  ) u_pack (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i,
    .count_i,
    .granule_i(piece),
    .valid_o,
    .granule_o(packed_piece)
  );

endmodule
