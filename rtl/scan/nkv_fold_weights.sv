// The fold's lanes: weights w of 8 channels and 4 rows, the nearest integers to q m 2^(g - 32), and
// what the terms need besides (ARITHMETIC.md, section 5): d, the distance to it in 2^-12, rounded
// up; the centre of the channel's codes, 4 * base + 128, and 128 + |centre|, both a quarter of that
// here.
//
// 8 cycles from a digest entry to its weights; the query comes one cycle after the entry.

module nkv_fold_weights
  import nkv_scan_pkg::*;
#(
  localparam int unsigned QueryBits = nkv_abi_pkg::QueryBits
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic              valid_i,
  input  logic [15:0]       entry_i[FoldLanes],    // Of the digest: base, m, delta
  input  logic signed [6:0] base_shift_i,          // 16 - g before delta is added, -31..24
  input  logic signed [QueryBits-1:0] query_i[HalfRows][FoldLanes],

  output weight_t           weight_o[HalfRows][FoldLanes],
  output logic [11:0]       distance_o[HalfRows][FoldLanes],
  output logic signed [8:0] centre_o[FoldLanes],
  output logic [7:0]        spread_o[FoldLanes]
);

  // Valid of registers _1.._7.
  logic [7:1] valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[6:1], valid_i};
  end

  // 1: what the entry says. A right shift by 16 + 0..24 is all that matters: from 40 on w is 0 and
  // d 0 or 1.
  logic [2:0] factor_1[FoldLanes];
  logic [4:0] shift_1[FoldLanes], shift_2[FoldLanes], shift_3[FoldLanes], shift_4[FoldLanes];
  logic [4:0] shift_5[FoldLanes];
  logic [2:0] shift_6[FoldLanes];
  logic signed [8:0] centre_1[FoldLanes], centre_2[FoldLanes], centre_3[FoldLanes], centre_4[FoldLanes];
  logic signed [8:0] centre_5[FoldLanes], centre_6[FoldLanes], centre_7[FoldLanes];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        logic signed [6:0] shift;
        factor_1[k] <= entry_i[k][10:8];
        shift = base_shift_i + signed'({2'b0, entry_i[k][15:11]});
        shift_1[k] <= shift < 0 ? 5'd0 : shift > 24 ? 5'd24 : shift[4:0];
        centre_1[k] <= 9'(signed'(entry_i[k][7:0])) + 9'sd32;
      end
    end
  end

  // 2..5: q m by the bits of m, of which the highest is set: what a bit adds is q or nothing, and stands in
  // registers before it is added. 6, 7: its bits from 2^-12 w on but for the last place of the shift, and
  // whether there are others.
  typedef logic signed [QueryBits-1:0] query_t;
  logic [1:0] factor_2[FoldLanes];
  logic factor_3[FoldLanes];
  query_t query_2[HalfRows][FoldLanes], query_3[HalfRows][FoldLanes];
  query_t part_2[HalfRows][FoldLanes], part_3[HalfRows][FoldLanes], part_4[HalfRows][FoldLanes];
  logic signed [QueryBits+1:0] product_3[HalfRows][FoldLanes];
  logic signed [QueryBits+2:0] product_4[HalfRows][FoldLanes];
  logic signed [QueryBits+3:0] product_5[HalfRows][FoldLanes];
  query_t coarse_6[HalfRows][FoldLanes], fine_7[HalfRows][FoldLanes];
  logic sticky_6[HalfRows][FoldLanes], sticky_7[HalfRows][FoldLanes];
  logic odd_7[FoldLanes];

  always_ff @(posedge clk_i) begin
    if (valid_q[1]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        factor_2[k] <= factor_1[k][1:0];
        shift_2[k] <= shift_1[k];
        centre_2[k] <= centre_1[k];
        for (int r = 0; r < int'(HalfRows); r++) begin
          query_2[r][k] <= query_i[r][k];
          part_2[r][k] <= factor_1[k][2] ? query_i[r][k] : '0;
        end
      end
    end
    if (valid_q[2]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        factor_3[k] <= factor_2[k][0];
        shift_3[k] <= shift_2[k];
        centre_3[k] <= centre_2[k];
        for (int r = 0; r < int'(HalfRows); r++) begin
          query_3[r][k] <= query_2[r][k];
          part_3[r][k] <= factor_2[k][1] ? query_2[r][k] : '0;
          product_3[r][k] <= ((QueryBits + 2)'(query_2[r][k]) <<< 1) + (QueryBits + 2)'(part_2[r][k]);
        end
      end
    end
    if (valid_q[3]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        shift_4[k] <= shift_3[k];
        centre_4[k] <= centre_3[k];
        for (int r = 0; r < int'(HalfRows); r++) begin
          part_4[r][k] <= factor_3[k] ? query_3[r][k] : '0;
          product_4[r][k] <= ((QueryBits + 3)'(product_3[r][k]) <<< 1) + (QueryBits + 3)'(part_3[r][k]);
        end
      end
    end
    if (valid_q[4]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        shift_5[k] <= shift_4[k];
        centre_5[k] <= centre_4[k];
        for (int r = 0; r < int'(HalfRows); r++) begin
          product_5[r][k] <= ((QueryBits + 4)'(product_4[r][k]) <<< 1) + (QueryBits + 4)'(part_4[r][k]);
        end
      end
    end
    if (valid_q[5]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        shift_6[k] <= shift_5[k][2:0];
        centre_6[k] <= centre_5[k];
        for (int r = 0; r < int'(HalfRows); r++) begin
          unique case (shift_5[k][4:3])
            2'd0: begin
              coarse_6[r][k] <= product_5[r][k][27:4];
              sticky_6[r][k] <= |product_5[r][k][3:0];
            end
            2'd1: begin
              coarse_6[r][k] <= QueryBits'(signed'(product_5[r][k][27:12]));
              sticky_6[r][k] <= |product_5[r][k][11:0];
            end
            2'd2: begin
              coarse_6[r][k] <= QueryBits'(signed'(product_5[r][k][27:20]));
              sticky_6[r][k] <= |product_5[r][k][19:0];
            end
            default: begin
              coarse_6[r][k] <= {QueryBits{product_5[r][k][27]}};
              sticky_6[r][k] <= |product_5[r][k];
            end
          endcase
        end
      end
    end
    if (valid_q[6]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        centre_7[k] <= centre_6[k];
        odd_7[k] <= shift_6[k][0];
        for (int r = 0; r < int'(HalfRows); r++) begin
          fine_7[r][k] <= coarse_6[r][k] >>> {shift_6[k][2:1], 1'b0};
          sticky_7[r][k] <= sticky_6[r][k] || |(coarse_6[r][k][5:0] & ~(6'h3f << {shift_6[k][2:1], 1'b0}));
        end
      end
    end
  end

  // 8: w and d.
  always_ff @(posedge clk_i) begin
    if (valid_q[7]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        centre_o[k] <= centre_7[k];
        spread_o[k] <= 8'd32 + (centre_7[k][7:0] ^ {8{centre_7[k][8]}}) + 8'(centre_7[k][8]);
        for (int r = 0; r < int'(HalfRows); r++) begin
          query_t fixed;
          logic sticky;
          fixed = odd_7[k] ? fine_7[r][k] >>> 1 : fine_7[r][k];
          sticky = sticky_7[r][k] || (odd_7[k] && fine_7[r][k][0]);
          weight_o[r][k] <= fixed[23:12] + weight_t'({1'b0, fixed[11]});
          // 2^12 less the fraction where w was rounded up, which what else there is makes no larger.
          distance_o[r][k] <= (fixed[11:0] ^ {12{fixed[11]}}) + 12'(fixed[11] || sticky);
        end
      end
    end
  end

endmodule
