// Planes of bits in, a burst of 64 tokens of 8 channels at a time; words of 32 elements of a token out,
// bit p of an element from plane p, two cycles after they are asked for. Room for both tensors of a page.
//
// Byte t of a channel's 64 bits has tokens 8 t to 8 t + 7. Bytes t of the 32 channels of a word lie in as
// many banks, for a burst of channels 8 g to 8 g + 7 is stored with its bytes turned by g.

module nkv_planes_turn
  import nkv_pkg::*;
  import nkv_planes_pkg::*;
(
  input  logic        clk_i,

  input  logic        write_i,
  input  logic        write_values_i,
  input  plane_t      plane_i,
  input  logic [3:0]  write_index_i,
  input  burst_t      data_i,

  input  logic        read_i,
  input  logic        read_values_i,
  input  logic [5:0]  token_i,
  input  logic [1:0]  word_i,
  output logic [ElementBits-1:0] word_o[32]
);

  localparam int unsigned Lanes = 8;   // Channels of a burst,
  localparam int unsigned Bytes = 8;   // and bytes of each.
  localparam int unsigned Groups = 4;  // Bursts that a word is of.

  // ---- A cycle later: the token's bits of every bank that has a byte of the word ----
  logic [ElementBits-1:0] picked_q[Lanes][Bytes];
  logic       read_q;
  logic [2:0] turn_q;
  wire  [2:0] turn = token_i[5:3] + {word_i[0], 2'd0};

  always_ff @(posedge clk_i) begin
    read_q <= read_i;
    if (read_i) turn_q <= turn;
  end

  for (genvar b = 0; b < Bytes; b++) begin : gen_byte
    wire [2:0] group = 3'(b) - turn;
    wire [2:0] written = 3'(b) - write_index_i[2:0];
    wire picks = read_i && !group[2];
    wire [4:0] read_place = {read_values_i, word_i, group[1:0]};
    for (genvar l = 0; l < Lanes; l++) begin : gen_lane
      (* ram_style = "distributed" *) logic [ElementBits-1:0][7:0] memory[32];
      always_ff @(posedge clk_i) begin
        if (write_i) begin
          memory[{write_values_i, write_index_i}][plane_i] <= data_i[64*l+8*32'(written)+:8];
        end
        if (picks) begin
          for (int unsigned p = 0; p < ElementBits; p++) begin
            picked_q[l][b][p] <= memory[read_place][p][token_i[2:0]];
          end
        end
      end
    end
  end

  // ---- Turned back ----
  always_ff @(posedge clk_i) begin
    if (read_q) begin
      for (int unsigned g = 0; g < Groups; g++) begin
        for (int unsigned l = 0; l < Lanes; l++) begin
          word_o[Lanes*g+l] <= picked_q[l][3'(g)+turn_q];
        end
      end
    end
  end

endmodule
