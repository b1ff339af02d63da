// The planes of a page, gathered from the codes' words into bursts: PageTokens rows of bits, one
// after the other. A word per cycle; a burst is read in the cycle in which it is asked for.

module nkv_plane_store
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
#(
  localparam int unsigned PlaneBursts = PageTokens * Channels / BurstBits,
  localparam int unsigned BurstIndexBits = $clog2(PlaneBursts),
  localparam int unsigned PlaneBits = $clog2(KeyPlanes)
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,

  input  logic                      start_i,      // Of a page.
  input  logic                      valid_i,
  input  logic                      half_i,       // Only the first half of the word is the row's.
  input  logic                      last_i,       // Of the page.
  input  logic [ExactLanes-1:0]     plane_i[KeyPlanes],
  output logic                      complete_o,

  input  logic [PlaneBits-1:0]      plane_select_i,
  input  logic [BurstIndexBits-1:0] index_i,
  output burst_t                    burst_o
);

  localparam int unsigned Words = BurstBits / ExactLanes;
  localparam int unsigned LaneBits = $clog2(Words);
  localparam int unsigned Halves = 2;
  localparam int unsigned HalfBits = ExactLanes / Halves;

  logic [BurstIndexBits+LaneBits-1:0] next_q;  // Place of the next word.
  logic   last_q;
  logic   packed_valid[KeyPlanes];
  burst_t burst[KeyPlanes];

  for (genvar p = 0; p < KeyPlanes; p++) begin : gen_planes
    logic [HalfBits-1:0] half[Halves];
    logic [HalfBits-1:0] packed_half[Halves];

    always_comb begin
      for (int unsigned i = 0; i < Halves; i++) half[i] = plane_i[p][HalfBits*i+:HalfBits];
    end

    nkv_granule_pack #(
      .GranuleBits(HalfBits),
      .Granules(Halves)
    ) u_pack (
      .clk_i,
      .rst_ni,
      .clear_i  (start_i),
      .valid_i,
      .count_i  (half_i ? 2'd1 : 2'd2),
      .granule_i(half),
      .valid_o  (packed_valid[p]),
      .granule_o(packed_half)
    );

    for (genvar w = 0; w < Words; w++) begin : gen_words
      (* ram_style = "distributed" *) logic [ExactLanes-1:0] cells[PlaneBursts];

      always_ff @(posedge clk_i) begin
        if (packed_valid[p] && next_q[LaneBits-1:0] == LaneBits'(w)) begin
          cells[next_q[LaneBits+:BurstIndexBits]] <= {packed_half[1], packed_half[0]};
        end
      end
      assign burst[p][ExactLanes*w+:ExactLanes] = cells[index_i];
    end
  end

  assign burst_o = burst[plane_select_i];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {next_q, last_q, complete_o} <= '0;
    end else if (start_i) begin
      {next_q, last_q, complete_o} <= '0;
    end else begin
      last_q <= valid_i && last_i;
      if (last_q) complete_o <= 1'b1;
      if (packed_valid[0]) next_q <= next_q + 1'b1;
    end
  end

endmodule
