// Numbers of one query row to integers: ARITHMETIC.md section 1.1, q = ±(m >> (1 + Eq - e)). A chunk
// per cycle, 4 cycles later at the output.

module nkv_query_align
  import nkv_exact_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,

  input  logic      valid_i,
  input  logic      hidden_i,  // Gives zeros.
  input  exponent_t top_i,     // Eq
  input  number_t   number_i[ChunkChannels],

  output query_t    query_o[ChunkChannels]
);

  localparam int unsigned Lanes = ChunkChannels;

  logic [2:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  logic hidden_q;
  logic [4:0] distance_q[Lanes];
  logic [2:0] fine_q[Lanes];
  logic [Lanes-1:0] aligned_negative_q, coarse_negative_q, shifted_negative_q;
  significand_t aligned_q[Lanes];
  significand_t coarse_q[Lanes];
  significand_t shifted_q[Lanes];

  // From 24 on nothing is left of m.
  function automatic logic [4:0] distance_of(exponent_t top, exponent_t own);
    logic [ExponentBits:0] distance = 9'(top) - 9'(own) + 9'd1;
    return distance > 9'd24 ? 5'd24 : 5'(distance);
  endfunction

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      hidden_q <= hidden_i;
      for (int unsigned i = 0; i < Lanes; i++) begin
        distance_q[i] <= distance_of(top_i, number_i[i].exponent);
        aligned_q[i] <= number_i[i].significand;
        aligned_negative_q[i] <= number_i[i].negative;
      end
    end
    if (valid_q[0]) begin
      for (int unsigned i = 0; i < Lanes; i++) begin
        coarse_q[i] <= hidden_q ? '0 : aligned_q[i] >> {distance_q[i][4:3], 3'd0};
        fine_q[i] <= distance_q[i][2:0];
      end
      coarse_negative_q <= aligned_negative_q;
    end
    if (valid_q[1]) begin
      for (int unsigned i = 0; i < Lanes; i++) shifted_q[i] <= coarse_q[i] >> fine_q[i];
      shifted_negative_q <= coarse_negative_q;
    end
    if (valid_q[2]) begin
      for (int unsigned i = 0; i < Lanes; i++) begin
        query_o[i] <= shifted_negative_q[i] ? -query_t'(shifted_q[i]) : query_t'(shifted_q[i]);
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[1:0], valid_i};
  end

endmodule
