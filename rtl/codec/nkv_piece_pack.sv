// Pieces of 16 bytes, one or four at a time, one after the other, to bursts. A block ends with four;
// what is left of it then goes out as a shorter burst, filled up with zeros.

module nkv_piece_pack
  import nkv_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       in_valid_i,
  output logic       in_ready_o,
  input  burst_t     in_data_i,
  input  logic       in_single_i,  // Only the first piece counts.
  input  logic       in_last_i,    // Of the block.

  output logic       idle_o,       // Nothing waits to go out.
  output logic       out_valid_o,
  input  logic       out_ready_i,
  output burst_t     out_data_o,
  output logic       out_last_o,
  output logic [6:0] out_bytes_o
);

  localparam int unsigned Pieces = 4;
  typedef logic [BurstBits/Pieces-1:0] piece_t;

  piece_t held_q[Pieces-1];
  logic [1:0] count_q;             // That are held.
  logic flush_q, out_valid_q;

  wire moves = !out_valid_q || out_ready_i;
  assign in_ready_o = moves && !flush_q;
  wire takes = in_valid_i && in_ready_o;
  wire [2:0] filled = 3'(count_q) + (in_single_i ? 3'd1 : 3'd4);
  wire fills = filled[2];

  piece_t given[Pieces], rotated[Pieces], next[Pieces];
  always_comb begin
    for (int unsigned i = 0; i < Pieces; i++) given[i] = in_data_i[128*i+:128];
    for (int unsigned i = 0; i < Pieces; i++) rotated[i] = given[2'(i)-count_q];
    for (int unsigned i = 0; i < Pieces - 1; i++) begin
      next[i] = 2'(i) < count_q ? held_q[i] : rotated[i];
    end
    next[Pieces-1] = rotated[Pieces-1];
  end

  always_ff @(posedge clk_i) begin
    if (takes) begin
      for (int unsigned i = 0; i < Pieces - 1; i++) held_q[i] <= fills ? rotated[i] : next[i];
    end
    if (takes && fills) begin
      for (int unsigned i = 0; i < Pieces; i++) out_data_o[128*i+:128] <= next[i];
      out_last_o <= in_last_i && count_q == '0;
      out_bytes_o <= 7'd64;
    end else if (flush_q && moves) begin
      for (int unsigned i = 0; i < Pieces - 1; i++) begin
        out_data_o[128*i+:128] <= 2'(i) < count_q ? held_q[i] : '0;
      end
      out_data_o[128*(Pieces-1)+:128] <= '0;
      out_last_o <= 1'b1;
      out_bytes_o <= {1'b0, count_q, 4'd0};
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q <= '0;
      flush_q <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      if (moves) out_valid_q <= (takes && fills) || flush_q;
      if (takes) begin
        count_q <= filled[1:0];
        flush_q <= in_last_i && filled[1:0] != '0;
      end else if (moves && flush_q) begin
        count_q <= '0;
        flush_q <= 1'b0;
      end
    end
  end

  assign idle_o = !out_valid_q && !flush_q;
  assign out_valid_o = out_valid_q;

endmodule
