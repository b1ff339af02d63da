// Key rows as the middles of their leading planes' cells, in bf16. Takes pages and all of their digests and
// leading planes in the order of nkv_page_stream; when a page has come, its rows go out, 16 elements a cycle,
// while the next one waits.

module nkv_midpoint_return
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  parameter int unsigned Ahead = 16        // Pages that may be on their way.
) (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,
  input  logic [2:0]   planes_i,           // Held: 1 to KeyPlanes.

  input  logic         page_valid_i,
  output logic         page_ready_o,
  input  page_header_t header_i,
  input  token_mask_t  rows_i,             // Not zero.

  input  logic         beat_valid_i,
  output logic         beat_ready_o,
  input  read_beat_t   beat_i,

  input  logic         issue_i,            // There is room for some words more.
  output logic         word_valid_o,       // Half a word of a row, in the lower half.
  output logic [15:0]  element_o[ExactLanes]
);

  localparam int unsigned TokenBits = $clog2(PageTokens);
  localparam int unsigned Latency = 4;     // From a word's choice to its elements.
  localparam int unsigned PlaneBursts = PageTokens * Channels / BurstBits;
  localparam int unsigned PlaneBurstBits = $clog2(PlaneBursts);
  localparam int unsigned BurstChunks = BurstBits / ChunkChannels;  // Of one plane.
  localparam int unsigned DigestBits = 16;
  localparam int unsigned DigestBursts = Channels * DigestBits / BurstBits;
  localparam int unsigned BurstDigests = BurstBits / (ChunkChannels * DigestBits);

  typedef struct packed {
    logic signed [15:0]  step_exponent;
    logic [ChunkBits:0]  chunks;           // Of a row.
    token_mask_t         rows;
  } described_t;

  logic       page_valid, page_done;
  described_t page;
  logic [$clog2(Ahead):0] unused_pages;

  nkv_fifo #(
    .T(described_t),
    .Depth(Ahead)
  ) u_pages (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (page_valid_i),
    .in_ready_o (page_ready_o),
    .in_data_i  ('{
        step_exponent: header_i.k_step_exponent,
        chunks: (ChunkBits + 1)'(header_i.head_dim / 16'(ChunkChannels)),
        rows: rows_i
    }),
    .out_valid_o(page_valid),
    .out_ready_i(page_done),
    .out_data_o (page),
    .used_o     (unused_pages)
  );

  // ---- A page comes ----
  burst_t digests[DigestBursts];
  burst_t planes[KeyPlanes][PlaneBursts];
  logic                      whole_q;      // All of it is here.
  logic [PlaneBurstBits-1:0] burst_q;      // Of its array, that comes next.
  wire [3:0] plane = beat_i.tag.array - 4'(PageArrayKPlane0);
  wire       is_digest = beat_i.tag.array == 4'(PageArrayKDigest);
  wire       comes = beat_valid_i && beat_ready_o;
  wire [PlaneBurstBits-1:0] burst = beat_i.first ? '0 : burst_q;

  assign beat_ready_o = !whole_q;

  always_ff @(posedge clk_i) begin
    if (comes) begin
      burst_q <= burst + 1'b1;
      if (is_digest) digests[burst[$clog2(DigestBursts)-1:0]] <= beat_i.data;
      else planes[plane[$clog2(KeyPlanes)-1:0]][burst] <= beat_i.data;
    end
  end

  // ---- Its rows, a chunk at a time ----
  token_mask_t        left_q;              // Of the page: rows that have not begun.
  logic               begun_q;
  logic [ChunkBits-1:0] chunk_q;
  wire token_mask_t   left = begun_q ? left_q : page.rows;
  logic [TokenBits-1:0] token;
  always_comb begin
    token = '0;
    for (int i = int'(PageTokens) - 1; i >= 0; i--) if (left[i]) token = TokenBits'(i);
  end
  wire chooses = whole_q && page_valid && issue_i;
  wire row_ends = (ChunkBits + 1)'(chunk_q) + 1'b1 == page.chunks;
  wire token_mask_t then_left = left & (left - 1'b1);
  assign page_done = chooses && row_ends && then_left == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {whole_q, begun_q, chunk_q} <= '0;
    end else if (clear_i) begin
      {whole_q, begun_q, chunk_q} <= '0;
    end else begin
      if (comes && beat_i.last && plane == 4'(planes_i) - 4'd1) whole_q <= 1'b1;
      if (page_done) {whole_q, begun_q} <= '0;
      else if (chooses) begun_q <= 1'b1;
      if (chooses) chunk_q <= row_ends ? '0 : chunk_q + 1'b1;
    end
  end
  always_ff @(posedge clk_i) if (chooses) left_q <= row_ends ? then_left : left;

  // ---- What is stored of the chunk ----
  localparam int unsigned PlaceBits = TokenBits + ChunkBits;
  wire [PlaceBits-1:0] place = PlaceBits'(token) * PlaceBits'(page.chunks) + PlaceBits'(chunk_q);
  logic [KeyPlanes-1:0][BurstBits-1:0] plane_burst;
  logic [$clog2(BurstChunks)-1:0] place_1;
  logic [$clog2(BurstDigests)-1:0] half_1;
  burst_t digest_burst;
  logic signed [15:0] step_exponent_1;
  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < KeyPlanes; p++) begin
      plane_burst[p] <= planes[p][place[PlaceBits-1:$clog2(BurstChunks)]];
    end
    digest_burst <= digests[chunk_q[ChunkBits-1:$clog2(BurstDigests)]];
    place_1 <= place[$clog2(BurstChunks)-1:0];
    half_1 <= chunk_q[$clog2(BurstDigests)-1:0];
    step_exponent_1 <= page.step_exponent;
  end

  // ---- Values ----
  for (genvar i = 0; i < int'(ExactLanes); i++) begin : gen_lane
    if (i < int'(ChunkChannels)) begin : gen_value
      logic [7:0] code;
      always_comb begin
        code = 8'h80 >> planes_i;          // Half a cell.
        for (int unsigned p = 0; p < KeyPlanes; p++) begin
          if (p < 32'(planes_i)) begin
            code[7-p] = plane_burst[p][($clog2(BurstBits))'(ChunkChannels * 32'(place_1) + 32'(i))];
          end
        end
      end
      nkv_midpoint_value u_value (
        .clk_i,
        .digest_i       (digest_burst[($clog2(BurstBits))'(
            DigestBits * (ChunkChannels * 32'(half_1) + 32'(i)))+:DigestBits]),
        .step_exponent_i(step_exponent_1),
        .code_i         (code),
        .value_o        (element_o[i])
      );
    end else begin : gen_nothing
      assign element_o[i] = '0;
    end
  end

  logic [Latency-1:0] valid_q;
  assign word_valid_o = valid_q[Latency-1];
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= clear_i ? '0 : {valid_q[Latency-2:0], chooses};
  end

  wire unused = ^{beat_i, header_i, plane};

endmodule
