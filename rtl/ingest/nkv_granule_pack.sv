// Pieces of a few granules each, one after the other without a gap, to words of Granules granules,
// each one cycle after the piece that fills it. A piece per cycle, always taken.

module nkv_granule_pack #(
  parameter int unsigned GranuleBits = 64,
  parameter int unsigned Granules = 8,       // Of a word; a power of two.
  localparam int unsigned IndexBits = $clog2(Granules)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   clear_i,    // Forgets what has not filled a word.

  input  logic                   valid_i,
  input  logic [IndexBits:0]     count_i,    // Granules of the piece, 1 to Granules.
  input  logic [GranuleBits-1:0] granule_i[Granules],

  output logic                   valid_o,
  output logic [GranuleBits-1:0] granule_o[Granules]
);

  typedef logic [IndexBits-1:0] index_t;

  index_t held_q;                            // Granules that wait for more.
  logic [GranuleBits-1:0] held_granule_q[Granules];
  logic [GranuleBits-1:0] rotated[Granules];
  wire [IndexBits:0] filled = (IndexBits + 1)'(held_q) + count_i;
  wire fills = filled[IndexBits];

  always_comb begin
    for (int unsigned i = 0; i < Granules; i++) rotated[i] = granule_i[index_t'(i)-held_q];
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int unsigned i = 0; i < Granules; i++) begin
        automatic logic [GranuleBits-1:0] granule =
            index_t'(i) < held_q ? held_granule_q[i] : rotated[i];
        if (fills) granule_o[i] <= granule;
        held_granule_q[i] <= fills ? rotated[i] : granule;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_q <= '0;
      valid_o <= 1'b0;
    end else if (clear_i) begin
      held_q <= '0;
      valid_o <= 1'b0;
    end else begin
      if (valid_i) held_q <= index_t'(filled);
      valid_o <= valid_i && fills;
    end
  end

endmodule
