// The fold's lanes: weights w of 8 channels and 4 rows, the nearest integers to q m 2^(g - 32), and
// what the terms need besides (ARITHMETIC.md, section 5): d, the distance to it in 2^-12, rounded
// up; the centre of the channel's codes, 4 * base + 128, and 128 + |centre|, both a quarter of that
// here.
//
// 6 cycles from a digest entry to its weights; the query comes one cycle after the entry.

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

  // Valid of registers _1.._5.
  logic [5:1] valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[4:1], valid_i};
  end

  // 1: what the entry says. A right shift by 16 + 0..24 is all that matters: from 40 on w is 0 and
  // d 0 or 1.
  logic [2:0] factor_1[FoldLanes];
  logic [4:0] shift_1[FoldLanes], shift_2[FoldLanes], shift_3[FoldLanes];
  logic [2:0] shift_4[FoldLanes];
  logic signed [8:0] centre_1[FoldLanes], centre_2[FoldLanes], centre_3[FoldLanes];
  logic signed [8:0] centre_4[FoldLanes], centre_5[FoldLanes];

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
          query_2[r][k] <= query_i[r][k];
          triple_2[r][k] <= (QueryBits + 2)'(query_i[r][k]) +
                            ((QueryBits + 2)'(query_i[r][k]) <<< 1);
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

  // 6: w and d.
  always_ff @(posedge clk_i) begin
    if (valid_q[5]) begin
      for (int k = 0; k < int'(FoldLanes); k++) begin
        centre_o[k] <= centre_5[k];
        spread_o[k] <= 8'd32 + (centre_5[k][8] ? -centre_5[k][7:0] : centre_5[k][7:0]);
        for (int r = 0; r < int'(HalfRows); r++) begin
          weight_o[r][k] <= fixed_5[r][k][23:12] + weight_t'({1'b0, fixed_5[r][k][11]});
          distance_o[r][k] <= fixed_5[r][k][11] ? -fixed_5[r][k][11:0]
                                                : fixed_5[r][k][11:0] + 12'(sticky_5[r][k]);
        end
      end
    end
  end

endmodule
