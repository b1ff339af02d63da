// Sums over a page's channels for 4 rows, from 8 channels per cycle: sum of w, of |w|, of w^2, and
// of d times the channel's spread (ARITHMETIC.md, section 5).
//
// What began with begins_i and ended with last_i stands at the outputs 7 cycles after last_i, until
// the next half ends.

module nkv_fold_sums
  import nkv_scan_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        valid_i,
  input  logic        begins_i,
  input  logic        last_i,
  input  weight_t     weight_i[HalfRows][FoldLanes],
  input  logic [11:0] distance_i[HalfRows][FoldLanes],  // At most 2,048
  input  logic [7:0]  spread_i[FoldLanes],              // 32..191
  output sum_t        sum_o[HalfRows],
  output norm_t       norm_o[HalfRows],
  output squares_t    squares_o[HalfRows],
  output logic [25:0] slack_o[HalfRows]
);

  localparam int unsigned Stages = 6;

  // |w| = 64 h + l, w^2 = 2^12 h^2 + 2^7 h l + l^2, and the outer two do not overlap. Squares of 6 bits,
  // and products of 3 bits for h l: tables of one LUT a bit, which are a fifth of a multiplier.
  typedef logic [63:0][11:0] square_table_t;
  typedef logic [63:0][5:0] product_table_t;
  function automatic square_table_t make_squares();
    square_table_t squares;
    for (int i = 0; i < 64; i++) squares[i] = 12'(i * i);
    return squares;
  endfunction
  function automatic product_table_t make_products();
    product_table_t products;
    for (int i = 0; i < 64; i++) products[i] = 6'((i / 8) * (i % 8));
    return products;
  endfunction
  localparam square_table_t Squares = make_squares();
  localparam product_table_t Products = make_products();

  // x times 2 bits, without a multiplier block.
  function automatic logic [12:0] multiple(logic [11:0] x, logic [12:0] triple, logic [1:0] y);
    unique case (y)
      2'd0: return '0;
      2'd1: return {1'b0, x};
      2'd2: return {x, 1'b0};
      default: return triple;
    endcase
  endfunction

  logic [Stages:0] valid, last;
  logic [Stages-1:0] begins;
  logic [Stages:1] valid_q, last_q;
  logic [Stages-1:1] begins_q;
  assign valid = {valid_q, valid_i};
  assign begins = {begins_q, begins_i};
  assign last = {last_q, last_i};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      begins_q <= '0;
      last_q <= '0;
    end else begin
      valid_q <= valid[Stages-1:0];
      begins_q <= begins[Stages-2:0];
      last_q <= last[Stages-1:0];
    end
  end

  // Sum of w and W: three adders deep, then accumulated.
  logic [10:0] magnitude_1[HalfRows][FoldLanes];
  logic signed [13:0] sums_1[HalfRows][2];
  logic signed [14:0] sum_2[HalfRows];
  logic [12:0] norms_2[HalfRows][2];
  logic [13:0] norm_3[HalfRows];
  sum_t sum_q[HalfRows];
  norm_t norm_q[HalfRows];

  always_ff @(posedge clk_i) begin
    if (valid[0]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int i = 0; i < 2; i++) begin
          sums_1[r][i] <= (14'(weight_i[r][4*i]) + 14'(weight_i[r][4*i+1])) +
                          (14'(weight_i[r][4*i+2]) + 14'(weight_i[r][4*i+3]));
        end
        for (int k = 0; k < int'(FoldLanes); k++) begin
          magnitude_1[r][k] <= (weight_i[r][k][10:0] ^ {11{weight_i[r][k][11]}}) +
                               11'(weight_i[r][k][11]);
        end
      end
    end
    if (valid[1]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        sum_2[r] <= 15'(sums_1[r][0]) + 15'(sums_1[r][1]);
      end
    end
    if (valid[2]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        sum_q[r] <= sum_t'(sum_2[r]) + (begins[2] ? '0 : sum_q[r]);
      end
    end
    if (valid[1]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int i = 0; i < 2; i++) begin
          norms_2[r][i] <= (13'(magnitude_1[r][4*i]) + 13'(magnitude_1[r][4*i+1])) +
                           (13'(magnitude_1[r][4*i+2]) + 13'(magnitude_1[r][4*i+3]));
        end
      end
    end
    if (valid[2]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        norm_3[r] <= 14'(norms_2[r][0]) + 14'(norms_2[r][1]);
      end
    end
    if (valid[3]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        norm_q[r] <= norm_t'(norm_3[r]) + (begins[3] ? '0 : norm_q[r]);
      end
    end
  end

  // Squares.
  logic [21:0] outer_2[HalfRows][FoldLanes], square_3[HalfRows][FoldLanes];
  logic [10:0] inner_2[HalfRows][FoldLanes];
  logic [23:0] squares_4[HalfRows][2];
  logic [24:0] square_5[HalfRows];
  squares_t squares_q[HalfRows];

  always_ff @(posedge clk_i) begin
    if (valid[1]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int k = 0; k < int'(FoldLanes); k++) begin
          logic [5:0] low;
          logic [4:0] high;
          {high, low} = magnitude_1[r][k];
          outer_2[r][k] <= {Squares[{1'b0, high}][9:0], Squares[low]};
          inner_2[r][k] <= {Products[{1'b0, high[4:3], low[5:3]}][4:0], Products[{high[2:0], low[2:0]}]} +
                           {2'b0, Products[{high[2:0], low[5:3]}], 3'b0} +
                           {2'b0, Products[{1'b0, high[4:3], low[2:0]}], 3'b0};
        end
      end
    end
    if (valid[2]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int k = 0; k < int'(FoldLanes); k++) begin
          square_3[r][k] <= outer_2[r][k] + {4'b0, inner_2[r][k], 7'b0};
        end
      end
    end
    if (valid[3]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int i = 0; i < 2; i++) begin
          squares_4[r][i] <= (24'(square_3[r][4*i]) + 24'(square_3[r][4*i+1])) +
                             (24'(square_3[r][4*i+2]) + 24'(square_3[r][4*i+3]));
        end
      end
    end
    if (valid[4]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        square_5[r] <= 25'(squares_4[r][0]) + 25'(squares_4[r][1]);
      end
    end
    if (valid[5]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        squares_q[r] <= squares_t'(square_5[r]) + (begins[5] ? '0 : squares_q[r]);
      end
    end
  end

  // Distance times spread, 2 bits of the spread at a time; each pair of bits is summed over the
  // channels before their weights come in.
  logic [11:0] distance_1[HalfRows][FoldLanes];
  logic [12:0] triple_1[HalfRows][FoldLanes];
  logic [7:0] spread_1[FoldLanes];
  logic [12:0] part_2[HalfRows][4][FoldLanes];
  logic [14:0] parts_3[HalfRows][4][2];
  logic [15:0] part_4[HalfRows][4];
  logic [22:0] slack_5[HalfRows];
  logic [25:0] slack_q[HalfRows];

  always_ff @(posedge clk_i) begin
    if (valid[0]) begin
      spread_1 <= spread_i;
      distance_1 <= distance_i;
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int k = 0; k < int'(FoldLanes); k++) begin
          triple_1[r][k] <= {1'b0, distance_i[r][k]} + {distance_i[r][k], 1'b0};
        end
      end
    end
    if (valid[1]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int i = 0; i < 4; i++) begin
          for (int k = 0; k < int'(FoldLanes); k++) begin
            part_2[r][i][k] <= multiple(distance_1[r][k], triple_1[r][k], spread_1[k][2*i+:2]);
          end
        end
      end
    end
    if (valid[2]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int i = 0; i < 4; i++) begin
          for (int h = 0; h < 2; h++) begin
            parts_3[r][i][h] <= (15'(part_2[r][i][4*h]) + 15'(part_2[r][i][4*h+1])) +
                                (15'(part_2[r][i][4*h+2]) + 15'(part_2[r][i][4*h+3]));
          end
        end
      end
    end
    if (valid[3]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        for (int i = 0; i < 4; i++) part_4[r][i] <= 16'(parts_3[r][i][0]) + 16'(parts_3[r][i][1]);
      end
    end
    if (valid[4]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        slack_5[r] <= ({7'b0, part_4[r][0]} + {5'b0, part_4[r][1], 2'b0}) +
                      ({3'b0, part_4[r][2], 4'b0} + {1'b0, part_4[r][3], 6'b0});
      end
    end
    if (valid[5]) begin
      for (int r = 0; r < int'(HalfRows); r++) begin
        slack_q[r] <= 26'(slack_5[r]) + (begins[5] ? '0 : slack_q[r]);
      end
    end
  end

  // Copies of whole sums; the next half may begin behind them.
  always_ff @(posedge clk_i) begin
    if (valid[3] && last[3]) sum_o <= sum_q;
    if (valid[4] && last[4]) norm_o <= norm_q;
    if (valid[6] && last[6]) begin
      slack_o <= slack_q;
      squares_o <= squares_q;
    end
  end

endmodule
