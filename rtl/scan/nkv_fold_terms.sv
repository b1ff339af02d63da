// The fold's sums for 4 rows of a page, from weights of 8 channels per cycle: K, sum of w, W, sum
// of w^2, and the remainder's part of the radius (ARITHMETIC.md, section 5).
//
// A half page's rows leave one by one, 10..13 cycles after its last weights. The next half's last
// weights come 16 cycles later at least.

module nkv_fold_terms
  import nkv_scan_pkg::*;
(
  input  logic  clk_i,
  input  logic  rst_ni,

  input  logic  valid_i,
  input  logic  half_i,         // Rows 4 * half + 0..3
  input  logic  begins_i,
  input  logic  last_i,
  input  slot_t slot_i,
  input  weight_t           weight_i[HalfRows][FoldLanes],
  input  logic [11:0]       distance_i[HalfRows][FoldLanes],
  input  logic signed [8:0] centre_i[FoldLanes],
  input  logic [7:0]        spread_i[FoldLanes],

  output logic       terms_valid_o,
  output row_terms_t terms_o
);

  localparam int unsigned Stages = 7;

  // stage[i] marks what stands in the registers named _i.
  typedef struct packed {
    logic  half;
    logic  begins;
    logic  last;
    slot_t slot;
  } stage_t;
  logic [Stages:1] valid_q;
  stage_t stage[1:Stages];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Stages-1:1], valid_i};
  end
  always_ff @(posedge clk_i) begin
    if (valid_i) stage[1] <= '{half: half_i, begins: begins_i, last: last_i, slot: slot_i};
    for (int i = 2; i <= int'(Stages); i++) if (valid_q[i-1]) stage[i] <= stage[i-1];
  end

  // ---- Sums over channels, and their copies when a half ends -----------------------------
  logic signed [20:0] moment_1[HalfRows][FoldLanes];
  logic signed [24:0] moment_2[HalfRows][FoldLanes], moment_3[HalfRows][FoldLanes];
  logic terms_due;

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int k = 0; k < int'(FoldLanes); k++) begin
          moment_1[r][k] <= weight_i[r][k] * centre_i[k];
        end
      end
    end
    if (valid_q[1]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int k = 0; k < int'(FoldLanes); k++) begin
          moment_2[r][k] <= 25'(moment_1[r][k]) + (stage[1].begins ? '0 : moment_2[r][k]);
        end
      end
    end
    if (valid_q[2] && stage[2].last) moment_3 <= moment_2;
  end

  sum_t sum[HalfRows];
  norm_t norm[HalfRows];
  squares_t squares[HalfRows];
  logic [25:0] slack[HalfRows];

  nkv_fold_sums u_sums (
    .clk_i,
    .rst_ni,
    .valid_i(valid_i),
    .begins_i(begins_i),
    .last_i(last_i),
    .weight_i(weight_i),
    .distance_i(distance_i),
    .spread_i(spread_i),
    .sum_o(sum),
    .norm_o(norm),
    .squares_o(squares),
    .slack_o(slack)
  );
  assign terms_due = valid_q[7] && stage[7].last;

  // ---- The terms leave, a row per cycle ---------------------------------------------------
  logic [1:0] row_q, row_1, row_2;
  logic leaving_q, leaving_1, leaving_2;
  logic half_q, half_1, half_2;
  slot_t slot_q, slot_1, slot_2;
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
      half_q <= stage[7].half;
      slot_q <= stage[7].slot;
    end
    if (leaving_q) begin
      row_1 <= row_q;
      half_1 <= half_q;
      slot_1 <= slot_q;
      for (int k = 0; k < int'(FoldLanes); k++) lanes_1[k] <= moment_3[row_q][k];
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
