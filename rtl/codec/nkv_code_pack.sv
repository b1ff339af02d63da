// Codes of two chunks per cycle to bursts, token-major: a byte each, or with INT4 a byte for channels
// c and c + dim / 2 of a row. Always taken; a block's codes fill their last burst.

module nkv_code_pack
  import nkv_pkg::*;
  import nkv_quant_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       valid_i,
  input  logic       is_nibble_i,
  input  chunks_t    chunks_i,               // Of a row.
  input  chunk_t     chunk_i,                // The first one's place in its row.
  input  logic [7:0] code_i[2*ChunkLanes],   // With INT4 below 16.

  output logic       valid_o,
  output burst_t     burst_o
);

  // A unit is the codes of eight channels. Its partner in the other half of the row comes `chunks`
  // units earlier.
  localparam int unsigned UnitLanes = 8;
  localparam int unsigned Units = 2 * ChunkLanes / UnitLanes;
  localparam int unsigned PlaceBits = ChunkBits + 1;
  typedef logic [4*UnitLanes-1:0] nibbles_t;
  typedef logic [8*UnitLanes-1:0] unit_t;
  typedef logic [PlaceBits+1:0] place_t;

  nibbles_t now[Units];
  nibbles_t past_q[Chunks];            // The last is the latest.
  nibbles_t span[Chunks+Units];
  unit_t    paired[Units], plain[Units];
  logic [Units-1:0] is_high;
  always_comb begin
    for (int unsigned u = 0; u < Units; u++) begin
      // Two units are a chunk; the row may end behind the first chunk.
      automatic place_t at = place_t'({chunk_i, 1'b0}) + place_t'(u);
      for (int unsigned i = 0; i < UnitLanes; i++) begin
        now[u][4*i+:4] = code_i[UnitLanes*u+i][3:0];
        plain[u][8*i+:8] = code_i[UnitLanes*u+i];
      end
      if (at >= place_t'({chunks_i, 1'b0})) at = at - place_t'({chunks_i, 1'b0});
      is_high[u] = at >= place_t'(chunks_i);
    end
    for (int unsigned i = 0; i < Chunks; i++) span[i] = past_q[i];
    for (int unsigned i = 0; i < Units; i++) span[Chunks+i] = now[i];
    for (int unsigned u = 0; u < Units; u++) begin
      automatic nibbles_t partner = span[4'(Chunks + u) - chunks_i];
      for (int unsigned i = 0; i < UnitLanes; i++) begin
        paired[u][8*i+:8] = {now[u][4*i+:4], partner[4*i+:4]};
      end
    end
  end

  // The upper halves' units, moved together.
  unit_t units[Units];
  logic [2:0] count;
  always_comb begin
    for (int unsigned u = 0; u < Units; u++) units[u] = paired[u];
    count = 3'(Units);
    if (!is_nibble_i) begin
      for (int unsigned u = 0; u < Units; u++) units[u] = plain[u];
    end else begin
      count = '0;
      for (int unsigned u = 0; u < Units; u++) begin
        if (is_high[u]) begin
          units[count[1:0]] = paired[u];
          count = count + 3'd1;
        end
      end
    end
  end

  unit_t units_q[Units];
  logic [2:0] count_q;
  logic valid_q;
  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int unsigned i = 0; i + Units < Chunks; i++) past_q[i] <= past_q[i+Units];
      for (int unsigned i = 0; i < Units; i++) past_q[Chunks-Units+i] <= now[i];
      for (int unsigned u = 0; u < Units; u++) units_q[u] <= units[u];
      count_q <= count;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= 1'b0;
    else valid_q <= valid_i && count != '0;
  end

  logic half_valid, is_second_q;
  unit_t half[Units];
  nkv_granule_pack #(.GranuleBits(8 * UnitLanes), .Granules(Units)) u_pack (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .valid_i(valid_q), .count_i(count_q), .granule_i(units_q),
    .valid_o(half_valid), .granule_o(half)
  );

  always_ff @(posedge clk_i) begin
    if (half_valid) begin
      for (int unsigned u = 0; u < Units; u++) begin
        if (is_second_q) burst_o[64*(Units+u)+:64] <= half[u];
        else burst_o[64*u+:64] <= half[u];
      end
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      is_second_q <= 1'b0;
      valid_o <= 1'b0;
    end else begin
      is_second_q <= is_second_q ^ half_valid;
      valid_o <= half_valid && is_second_q;
    end
  end

endmodule
