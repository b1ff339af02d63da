// Codes of two chunks at a time out of a block's bursts: the reverse of nkv_code_pack. A block's
// codes may begin at any piece of 16 bytes of its first burst; what follows them in its last is
// dropped. They are there, from the bursts that came, while valid_o stands; step_i moves on.

module nkv_code_window
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_quant_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       in_valid_i,
  output logic       in_ready_o,
  input  burst_t     in_data_i,

  input  logic       begin_i,                // A block begins with the next step.
  input  logic [1:0] piece_i,                // Its first.
  input  logic       is_nibble_i,            // Held through the block,
  input  chunks_t    chunks_i,               // of a row, too.
  input  chunk_t     chunk_i,                // The first one's place in its row.
  input  logic       last_i,                 // The step is the block's last.
  output logic       valid_o,
  input  logic       step_i,
  output logic [7:0] code_o[2*ChunkLanes]
);

  // A unit of the block is 8 bytes: eight codes, or twice eight of half a row each.
  localparam int unsigned UnitLanes = 8;
  localparam int unsigned Units = 2 * ChunkLanes / UnitLanes;
  localparam int unsigned BurstUnits = BurstBytes / UnitLanes;
  typedef logic [8*UnitLanes-1:0] unit_t;
  typedef logic [3:0] place_t;

  burst_t   burst_q[2];
  logic [1:0] count_q;                       // Bursts that are here.
  logic     stale_q;                         // The first is what a block has left.
  logic [2:0] at_q;                          // Of the first code's unit, with INT4 of its row's.

  // ---- Where the codes stand ----
  wire [2:0] at = begin_i ? {piece_i, 1'b0} : at_q;
  place_t index[Units];
  logic [Units-1:0] is_high;
  place_t beyond;                            // The row that is under way after this step.
  always_comb begin
    beyond = {1'b0, at};
    for (int unsigned u = 0; u < Units; u++) begin
      automatic logic [4:0] row = {chunk_i, 1'b0} + 5'(u);
      automatic logic [4:0] base = {2'b0, at};
      automatic logic [4:0] units = 5'({chunks_i, 1'b0});
      if (row >= units) begin
        row = row - units;
        base = base + 5'(chunks_i);
      end
      is_high[u] = is_nibble_i && row >= 5'(chunks_i);
      if (is_nibble_i) index[u] = place_t'(base + row - (is_high[u] ? 5'(chunks_i) : 5'd0));
      else index[u] = place_t'(at) + place_t'(u);
      if (u == Units - 1) beyond = place_t'(base + (row == units - 5'd1 ? 5'(chunks_i) : 5'd0));
    end
    if (!is_nibble_i) beyond = place_t'(at) + place_t'(Units);
  end

  wire leaves = beyond[3];
  wire rests = beyond[2:0] != '0;
  logic reaches;
  always_comb begin
    reaches = 1'b0;
    for (int unsigned u = 0; u < Units; u++) reaches = reaches | index[u][3];
  end
  assign valid_o = !stale_q && count_q != '0 && (count_q[1] || !reaches);

  unit_t units[2*BurstUnits];
  always_comb begin
    for (int unsigned u = 0; u < 2 * BurstUnits; u++) begin
      units[u] = burst_q[u/BurstUnits][64*(u%BurstUnits)+:64];
    end
    for (int unsigned u = 0; u < Units; u++) begin
      for (int unsigned i = 0; i < UnitLanes; i++) begin
        automatic logic [7:0] both = units[index[u]][8*i+:8];
        code_o[UnitLanes*u+i] = both;
        if (is_nibble_i) code_o[UnitLanes*u+i] = {4'd0, is_high[u] ? both[7:4] : both[3:0]};
      end
    end
  end

  // ---- Bursts ----
  wire drops_rest = stale_q && count_q != '0;
  wire drops = drops_rest || (step_i && (leaves || last_i));
  wire [1:0] kept = count_q - 2'(drops);
  assign in_ready_o = !kept[1];
  wire takes = in_valid_i && in_ready_o;

  always_ff @(posedge clk_i) begin
    if (drops) burst_q[0] <= burst_q[1];
    if (takes) burst_q[kept[0]] <= in_data_i;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q <= '0;
      stale_q <= 1'b0;
      at_q <= '0;
    end else begin
      count_q <= kept + 2'(takes);
      // A last step that reached into the next burst leaves the rest of that one.
      if (step_i) stale_q <= last_i && leaves && rests;
      else if (drops_rest) stale_q <= 1'b0;
      if (step_i) at_q <= beyond[2:0];
    end
  end

endmodule
