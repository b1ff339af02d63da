// The fold: what a page's digest makes of the query rows (ARITHMETIC.md, section 5): weights w, the
// constant K, sum of w, W = sum of |w|, sum of w^2, and the remainder's part of the radius.
//
// 8 channels of 4 rows per cycle, rows 0..3 of all channels first: 32 cycles a page.
// Weights leave 7 cycles after they were begun, a half's terms 16..19 cycles after its last
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
  input  logic       keep_terms_i,        // Give all terms; else only the sum of w is of use.

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
  output logic [WordBits-1:0] weight_word_o,
  output logic [1:0]          weight_step_o,
  output logic                weight_last_o,   // Of the half
  output weight_t             weight_o[HalfRows][FoldLanes],

  output logic       terms_valid_o,
  output row_terms_t terms_o
);

  localparam int unsigned Stages = 13;
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

  // w = q m 2^(g - 32) with fraction bits 32 - g in 16..100; from 40 on w = 0 and d is 0 or 1, so
  // 16 + 0..24 do. Of that, the part that all channels share, before delta (0..31) is added.
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
  logic [WordBits-1:0] word_q[0:6];
  logic [1:0] step_of_q[0:6];

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
    for (int i = 1; i <= int'(Stages); i++) if (valid_q[i-1]) stage[i] <= stage[i-1];
    for (int i = 1; i <= 6; i++) begin
      if (valid_q[i-1]) begin
        word_q[i] <= word_q[i-1];
        step_of_q[i] <= step_of_q[i-1];
      end
    end
  end

  // 0: digest entries. 1: what they say, and query elements.
  logic [15:0] entry_0[FoldLanes];
  logic signed [6:0] base_shift_0;
  logic [2:0] factor_1[FoldLanes];
  logic [4:0] shift_1[FoldLanes], shift_2[FoldLanes], shift_3[FoldLanes];
  logic [2:0] shift_4[FoldLanes];
  logic signed [8:0] centre_1[FoldLanes], centre_2[FoldLanes], centre_3[FoldLanes];
  logic signed [8:0] centre_4[FoldLanes], centre_5[FoldLanes], centre_6[FoldLanes];
  logic [7:0] spread_6[FoldLanes];
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
    if (valid_q[0]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        logic signed [6:0] shift;
        factor_1[k] <= entry_0[k][10:8];
        shift = base_shift_0 + signed'({2'b0, entry_0[k][15:11]});
        shift_1[k] <= shift < 0 ? 5'd0 : shift > 24 ? 5'd24 : shift[4:0];
        centre_1[k] <= 9'(signed'(entry_0[k][7:0])) + 9'sd32;
      end
    end
  end

  for (genvar r = 0; r < HalfRows; r++) begin : gen_query_rows
    for (genvar k = 0; k < FoldLanes; k++) begin : gen_query_lanes
      (* ram_style = "distributed" *) logic signed [QueryBits-1:0] elements[2 * Channels / FoldLanes];
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

  // 2, 3: q m. 4, 5: its bits from 2^-12 w on, and whether there are others.
  logic [2:0] factor_2[FoldLanes];
  logic signed [QueryBits-1:0] query_2[HalfRows][FoldLanes];
  logic signed [QueryBits+1:0] triple_2[HalfRows][FoldLanes];
  logic signed [QueryBits+3:0] product_3[HalfRows][FoldLanes];
  logic signed [QueryBits-1:0] coarse_4[HalfRows][FoldLanes], fixed_5[HalfRows][FoldLanes];
  logic sticky_4[HalfRows][FoldLanes], sticky_5[HalfRows][FoldLanes];

  always_ff @(posedge clk_i) begin
    if (valid_q[1]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        factor_2[k] <= factor_1[k];
        shift_2[k] <= shift_1[k];
        centre_2[k] <= centre_1[k];
        for (int r = 0; r < int'(HalfRows); r++) begin
          query_2[r][k] <= query_1[r][k];
          triple_2[r][k] <= (QueryBits + 2)'(query_1[r][k]) + ((QueryBits + 2)'(query_1[r][k]) <<< 1);
        end
      end
    end
    if (valid_q[2]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        shift_3[k] <= shift_2[k];
        centre_3[k] <= centre_2[k];
        for (int r = 0; r < int'(HalfRows); r++) begin
          // m = 8 or 12, and 0..3.
          logic signed [QueryBits+3:0] single, triple, high, low;
          single = (QueryBits + 4)'(query_2[r][k]);
          triple = (QueryBits + 4)'(triple_2[r][k]);
          high = factor_2[k][2] ? triple <<< 2 : single <<< 3;
          unique case (factor_2[k][1:0])
            2'd0: low = '0;
            2'd1: low = single;
            2'd2: low = single <<< 1;
            default: low = triple;
          endcase
          product_3[r][k] <= high + low;
        end
      end
    end
    if (valid_q[3]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        shift_4[k] <= shift_3[k][2:0];
        centre_4[k] <= centre_3[k];
        for (int r = 0; r < int'(HalfRows); r++) begin
          unique case (shift_3[k][4:3])
            2'd0: begin
              coarse_4[r][k] <= product_3[r][k][27:4];
              sticky_4[r][k] <= |product_3[r][k][3:0];
            end
            2'd1: begin
              coarse_4[r][k] <= QueryBits'(signed'(product_3[r][k][27:12]));
              sticky_4[r][k] <= |product_3[r][k][11:0];
            end
            2'd2: begin
              coarse_4[r][k] <= QueryBits'(signed'(product_3[r][k][27:20]));
              sticky_4[r][k] <= |product_3[r][k][19:0];
            end
            default: begin
              coarse_4[r][k] <= {QueryBits{product_3[r][k][27]}};
              sticky_4[r][k] <= |product_3[r][k];
            end
          endcase
        end
      end
    end
    if (valid_q[4]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        centre_5[k] <= centre_4[k];
        for (int r = 0; r < int'(HalfRows); r++) begin
          fixed_5[r][k] <= coarse_4[r][k] >>> shift_4[k];
          sticky_5[r][k] <= sticky_4[r][k] || |(coarse_4[r][k][6:0] & ~(7'h7f << shift_4[k]));
        end
      end
    end
  end

  // 6: w, the nearest integer, and d, the distance to it in 2^-12, rounded up.
  weight_t weight_6[HalfRows][FoldLanes];
  logic [11:0] distance_6[HalfRows][FoldLanes];

  always_ff @(posedge clk_i) begin
    if (valid_q[5]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        centre_6[k] <= centre_5[k];
        spread_6[k] <= 8'd32 + (centre_5[k][8] ? -centre_5[k][7:0] : centre_5[k][7:0]);
        for (int r = 0; r < int'(HalfRows); r++) begin
          weight_6[r][k] <= fixed_5[r][k][23:12] + weight_t'({1'b0, fixed_5[r][k][11]});
          distance_6[r][k] <= fixed_5[r][k][11] ? -fixed_5[r][k][11:0]
                                                : fixed_5[r][k][11:0] + 12'(sticky_5[r][k]);
        end
      end
    end
  end

  assign weight_valid_o = valid_q[6];
  assign weight_half_o = stage[6].half;
  assign weight_word_o = word_q[6];
  assign weight_step_o = step_of_q[6];
  assign weight_last_o = stage[6].last;
  assign weight_o = weight_6;

  // 7..13: sums over channels, and their copies when a half ends. The centre of a channel's codes
  // is 4 * base + 128 = 4 * centre, and its spread 128 + |4 * base + 128| = 4 * spread.
  logic signed [20:0] moment_7[HalfRows][FoldLanes];
  logic signed [24:0] moment_8[HalfRows][FoldLanes], moment_9[HalfRows][FoldLanes];
  logic terms_due;

  always_ff @(posedge clk_i) begin
    if (valid_q[6] && keep_terms_i) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int k = 0; k < int'(FoldLanes); k++) begin
          moment_7[r][k] <= weight_6[r][k] * centre_6[k];
        end
      end
    end
    if (valid_q[7] && keep_terms_i) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int k = 0; k < int'(FoldLanes); k++) begin
          moment_8[r][k] <= (stage[7].begins ? '0 : moment_8[r][k]) + 25'(moment_7[r][k]);
        end
      end
    end
    if (valid_q[8] && stage[8].last && keep_terms_i) moment_9 <= moment_8;
  end

  sum_t sum[HalfRows];
  norm_t norm[HalfRows];
  squares_t squares[HalfRows];
  logic [25:0] slack[HalfRows];

  nkv_fold_sums u_sums (
    .clk_i,
    .rst_ni,
    .valid_i(valid_q[6]),
    .begins_i(stage[6].begins),
    .last_i(stage[6].last),
    .keep_terms_i,
    .weight_i(weight_6),
    .distance_i(distance_6),
    .spread_i(spread_6),
    .sum_o(sum),
    .norm_o(norm),
    .squares_o(squares),
    .slack_o(slack)
  );
  assign terms_due = valid_q[13] && stage[13].last;

  // ---- The terms leave, a row per cycle ---------------------------------------------------
  logic [1:0] row_q, row_1, row_2;
  logic leaving_q, leaving_1, leaving_2;
  logic half_13, half_1, half_2;
  slot_t slot_13, slot_1, slot_2;
  logic signed [24:0] lanes_1[FoldLanes];
  logic signed [26:0] quads_2[2];
  sum_t sum_1, sum_2;
  norm_t norm_1, norm_2;
  squares_t squares_1, squares_2;
  logic [25:0] slack_1, slack_2;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      leaving_q <= 1'b0;
      leaving_1 <= 1'b0;
      leaving_2 <= 1'b0;
      terms_valid_o <= 1'b0;
      row_q <= '0;
    end else begin
      leaving_1 <= leaving_q;
      leaving_2 <= leaving_1;
      terms_valid_o <= leaving_2;
      if (terms_due) begin
        leaving_q <= 1'b1;
        row_q <= '0;
      end else if (leaving_q) begin
        row_q <= row_q + 1'b1;
        if (row_q == 2'd3) leaving_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (terms_due) begin
      half_13 <= stage[13].half;
      slot_13 <= stage[13].slot;
    end
    if (leaving_q) begin
      row_1 <= row_q;
      half_1 <= half_13;
      slot_1 <= slot_13;
      for (int k = 0; k < int'(FoldLanes); k++) lanes_1[k] <= moment_9[row_q][k];
      sum_1 <= sum[row_q];
      norm_1 <= norm[row_q];
      squares_1 <= squares[row_q];
      slack_1 <= slack[row_q];
    end
    if (leaving_1) begin
      row_2 <= row_1;
      half_2 <= half_1;
      slot_2 <= slot_1;
      for (int i = 0; i < 2; i++) begin
        quads_2[i] <= (27'(lanes_1[4*i]) + 27'(lanes_1[4*i+1])) +
                      (27'(lanes_1[4*i+2]) + 27'(lanes_1[4*i+3]));
      end
      sum_2 <= sum_1;
      norm_2 <= norm_1;
      squares_2 <= squares_1;
      slack_2 <= slack_1;
    end
    if (leaving_2) begin
      terms_o.slot <= slot_2;
      terms_o.row <= {half_2, row_2};
      terms_o.constant <= (constant_t'(quads_2[0]) + constant_t'(quads_2[1])) <<< 2;
      terms_o.sum <= sum_2;
      terms_o.norm <= norm_2;
      terms_o.squares <= squares_2;
      // Sum of d * 4 * spread in 2^-12, rounded up.
      terms_o.slack <= slack_2[25:10] + 16'(|slack_2[9:0]);
    end
  end

endmodule
