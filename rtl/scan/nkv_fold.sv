// The fold: what a page's digest makes of the query rows (ARITHMETIC.md, section 5): weights w, the
// constant K, sum of w, W = sum of |w|, sum of w^2, and the remainder's part of the radius.
//
// 8 channels of 4 rows per cycle, rows 0..3 of all channels first: 32 cycles a page.
// Weights leave 9 cycles after they were begun, a half's terms 18..21 cycles after its last
// channels, one row per cycle.

module nkv_fold
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  localparam int unsigned QueryBits = nkv_abi_pkg::QueryBits,
  localparam int unsigned WordBits = $clog2(Words),
  localparam int unsigned DigestBursts = 16,
  localparam int unsigned DigestBits = $clog2(DigestBursts)
) (
  input  logic clk_i,
  input  logic rst_ni,

  // Of the command; steady while pages pass.
  input  logic [7:0] key_exponent_i,
  input  logic [2:0] words_i,             // Digest bursts of a page, 1..4

  // The query: integers of 32 channels of a row, zero from head_dim on. One beat takes 4 cycles.
  input  logic                                       query_valid_i,
  output logic                                       query_ready_o,
  input  row_t                                       query_row_i,
  input  logic [WordBits-1:0]                        query_word_i,
  input  logic [WordChannels-1:0][QueryBits-1:0]     query_data_i,

  // Digest bursts of all pages, in order.
  input  logic   digest_valid_i,
  output logic   digest_ready_o,
  input  burst_t digest_data_i,

  // Pages, in order.
  input  logic               page_valid_i,
  output logic               page_ready_o,
  input  slot_t              page_slot_i,
  input  logic signed [15:0] page_step_exponent_i,

  // Weights of lanes' groups, for rows 4 * half + 0..3. Room for a half is taken before it begins.
  input  logic                half_room_i,
  output logic                half_begins_o,
  output logic                weight_valid_o,
  output logic                weight_half_o,
  output slot_t               weight_slot_o,
  output logic [WordBits-1:0] weight_word_o,
  output logic [1:0]          weight_step_o,
  output logic                weight_last_o,   // Of the half
  output weight_t             weight_o[HalfRows][FoldLanes],

  output logic       terms_valid_o,
  output row_terms_t terms_o
);

  localparam int unsigned Stages = 8;       // From digest entries to weights
  localparam int unsigned LeastCycles = 16;  // Between ends of halves: what their terms need

  // ---- The query's copy -------------------------------------------------------------------
  logic [1:0] query_step_q;
  assign query_ready_o = query_step_q == 2'd3;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) query_step_q <= '0;
    else if (query_valid_i) query_step_q <= query_step_q + 1'b1;
  end

  // ---- Digest bursts of up to four pages --------------------------------------------------
  (* ram_style = "distributed" *) burst_t digests[DigestBursts];
  logic [DigestBits-1:0] digest_write_q, digest_read_q, digest_base_q;
  logic [DigestBits:0] digests_held_q;  // From the page in progress on
  assign digest_ready_o = !digests_held_q[DigestBits];
  wire digest_push = digest_valid_i && digest_ready_o;

  always_ff @(posedge clk_i) begin
    if (digest_push) digests[digest_write_q] <= digest_data_i;
  end

  // ---- Which channels and rows ------------------------------------------------------------
  logic                running_q, half_q;
  slot_t               slot_q;
  logic [2:0]          words_done_q;
  logic [1:0]          step_q;
  logic [3:0]          since_q;       // Since a half ended, up to LeastCycles - 1
  logic signed [6:0]   base_shift_q;
  wire [WordBits-1:0]  word = words_done_q[WordBits-1:0];
  wire                 last_step = step_q == 2'd3 && words_done_q + 1'b1 == words_i;
  wire                 half_start = words_done_q == '0 && step_q == '0;
  wire digest_there = {{(DigestBits - 2) {1'b0}}, words_done_q} < digests_held_q;
  wire issue = running_q && digest_there && (!half_start || half_room_i) &&
               (!last_step || since_q == 4'(LeastCycles - 1));
  wire half_last = issue && last_step;
  wire page_last = half_last && half_q;
  assign half_begins_o = issue && half_start;
  assign page_ready_o = !running_q || page_last;
  wire page_start = page_valid_i && page_ready_o;

  // 16 - g of a channel without delta; within -31..24 it tells all that nkv_fold_weights needs.
  wire signed [17:0] page_shift =
      signed'({10'b0, key_exponent_i}) - 18'(page_step_exponent_i) - 18'sd136;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      running_q <= 1'b0;
      half_q <= 1'b0;
      words_done_q <= '0;
      step_q <= '0;
      since_q <= '1;
      slot_q <= '0;
      base_shift_q <= '0;
      digest_write_q <= '0;
      digest_read_q <= '0;
      digest_base_q <= '0;
      digests_held_q <= '0;
    end else begin
      digests_held_q <= digests_held_q + (DigestBits + 1)'(digest_push) -
                        (page_last ? (DigestBits + 1)'(words_i) : '0);
      if (digest_push) digest_write_q <= digest_write_q + 1'b1;
      if (half_last) since_q <= '0;
      else if (since_q != 4'(LeastCycles - 1)) since_q <= since_q + 1'b1;
      if (running_q) begin
        if (issue) begin
          step_q <= step_q + 1'b1;
          if (step_q == 2'd3) begin
            words_done_q <= words_done_q + 1'b1;
            digest_read_q <= digest_read_q + 1'b1;
          end
        end
        if (half_last) begin
          half_q <= !half_q;
          words_done_q <= '0;
          step_q <= '0;
          // The second half reads the page's digest again.
          if (half_q) begin
            running_q <= 1'b0;
            digest_base_q <= digest_read_q + 1'b1;
          end else begin
            digest_read_q <= digest_base_q;
          end
        end
      end
      if (page_start) begin
        running_q <= 1'b1;
        slot_q <= page_slot_i;
        base_shift_q <= page_shift > 18'sd24 ? 7'sd24 :
                        page_shift < -18'sd31 ? -7'sd31 : 7'(page_shift);
      end
    end
  end

  // ---- The pipeline -----------------------------------------------------------------------
  // stage[i] marks what stands in the registers named _i.
  typedef struct packed {
    logic  half;
    logic  begins;
    logic  last;
    slot_t slot;
  } stage_t;
  logic [Stages:0] valid_q;
  stage_t stage[0:Stages];
  logic [WordBits-1:0] word_q[0:Stages];
  logic [1:0] step_of_q[0:Stages];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Stages-1:0], issue};
  end

  always_ff @(posedge clk_i) begin
    if (issue) begin
      stage[0] <= '{half: half_q, begins: half_start, last: half_last, slot: slot_q};
      word_q[0] <= word;
      step_of_q[0] <= step_q;
    end
    for (int i = 1; i <= int'(Stages); i++) begin
      if (valid_q[i-1]) begin
        stage[i] <= stage[i-1];
        word_q[i] <= word_q[i-1];
        step_of_q[i] <= step_of_q[i-1];
      end
    end
  end

  logic [15:0] entry_0[FoldLanes];
  logic signed [6:0] base_shift_0;
  logic signed [QueryBits-1:0] query_1[HalfRows][FoldLanes];
  wire burst_t digest = digests[digest_read_q];
  wire [4:0] query_at = {stage[0].half, word_q[0], step_of_q[0]};

  always_ff @(posedge clk_i) begin
    if (issue) begin
      base_shift_0 <= base_shift_q;
      for (int k = 0; k < int'(FoldLanes); k++) begin
        logic [FoldSteps-1:0][15:0] entries;
        entries = digest[64*k+:64];
        entry_0[k] <= entries[step_q];
      end
    end
  end

  for (genvar r = 0; r < HalfRows; r++) begin : gen_query_rows
    for (genvar k = 0; k < FoldLanes; k++) begin : gen_query_lanes
      (* ram_style = "distributed" *) logic signed [QueryBits-1:0]
          elements[2*Channels/FoldLanes];
      wire [FoldSteps-1:0][QueryBits-1:0] arriving = query_data_i[FoldSteps*k+:FoldSteps];
      always_ff @(posedge clk_i) begin
        if (query_valid_i && query_row_i[RowBits-2:0] == (RowBits - 1)'(r)) begin
          elements[{query_row_i[RowBits-1], query_word_i, query_step_q}] <=
              arriving[query_step_q];
        end
        if (valid_q[0]) query_1[r][k] <= elements[query_at];
      end
    end
  end

  weight_t weight[HalfRows][FoldLanes];
  logic [11:0] distance[HalfRows][FoldLanes];
  logic signed [8:0] centre[FoldLanes];
  logic [7:0] spread[FoldLanes];

  nkv_fold_weights u_weights (
    .clk_i,
    .rst_ni,
    .valid_i(valid_q[0]),
    .entry_i(entry_0),
    .base_shift_i(base_shift_0),
    .query_i(query_1),
    .weight_o(weight),
    .distance_o(distance),
    .centre_o(centre),
    .spread_o(spread)
  );

  assign weight_valid_o = valid_q[Stages];
  assign weight_half_o = stage[Stages].half;
  assign weight_slot_o = stage[Stages].slot;
  assign weight_word_o = word_q[Stages];
  assign weight_step_o = step_of_q[Stages];
  assign weight_last_o = stage[Stages].last;
  assign weight_o = weight;

  nkv_fold_terms u_terms (
    .clk_i,
    .rst_ni,
    .valid_i(valid_q[Stages]),
    .half_i(stage[Stages].half),
    .begins_i(stage[Stages].begins),
    .last_i(stage[Stages].last),
    .slot_i(stage[Stages].slot),
    .weight_i(weight),
    .distance_i(distance),
    .centre_i(centre),
    .spread_i(spread),
    .terms_valid_o,
    .terms_o
  );

endmodule
