// The highest and the lowest midpoint of every row that count for a tail's reference
// (ARITHMETIC.md, section 7.2): those of visible tokens that are not saturated.

module nkv_midpoint_range
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,
  input  logic      clear_i,

  // Midpoints as they are made, every other cycle at the most.
  input  logic      valid_i,
  input  midpoint_t midpoint_i[Rows][PlaneTokens],
  input  logic      visible_i[PlaneTokens],

  output logic      any_o,             // Midpoints have come, six cycles ago at the least.
  output midpoint_t highest_o[Rows],   // Below the lowest one if there is none.
  output midpoint_t lowest_o[Rows]
);

  // Tokens 0 and 1 go at once, 2 and 3 in the next cycle. 1: a pair. 2: which of it count, and which is the
  // larger. 3: the higher and the lower of those that count. Then with what was.
  logic later_q;
  logic [3:1] valid_q;
  midpoint_t later[Rows][2], pair_1[Rows][2], pair_2[Rows][2], high_3[Rows], low_3[Rows];
  logic later_visible[2], visible_1[2];
  logic counts_2[Rows][2], second_2[Rows], counts_3[Rows];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      later_q <= 1'b0;
      valid_q <= '0;
      any_o <= 1'b0;
    end else if (clear_i) begin
      later_q <= 1'b0;
      valid_q <= '0;
      any_o <= 1'b0;
    end else begin
      later_q <= valid_i;
      valid_q <= {valid_q[2:1], valid_i || later_q};
      if (valid_q[3]) any_o <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int r = 0; r < int'(Rows); r++) begin
        for (int i = 0; i < 2; i++) later[r][i] <= midpoint_i[r][2+i];
      end
      for (int i = 0; i < 2; i++) later_visible[i] <= visible_i[2+i];
    end
    if (valid_i || later_q) begin
      for (int r = 0; r < int'(Rows); r++) begin
        for (int i = 0; i < 2; i++) pair_1[r][i] <= valid_i ? midpoint_i[r][i] : later[r][i];
      end
      for (int i = 0; i < 2; i++) visible_1[i] <= valid_i ? visible_i[i] : later_visible[i];
    end
    if (valid_q[1]) begin
      for (int r = 0; r < int'(Rows); r++) begin
        for (int i = 0; i < 2; i++) begin
          automatic midpoint_t midpoint = pair_1[r][i];
          counts_2[r][i] <= visible_1[i] && midpoint != MidpointLimit && midpoint != -MidpointLimit;
          pair_2[r][i] <= midpoint;
        end
        second_2[r] <= pair_1[r][1] > pair_1[r][0];
      end
    end
    if (valid_q[2]) begin
      for (int r = 0; r < int'(Rows); r++) begin
        counts_3[r] <= counts_2[r][0] || counts_2[r][1];
        high_3[r] <= counts_2[r][1] && (second_2[r] || !counts_2[r][0]) ? pair_2[r][1] : pair_2[r][0];
        low_3[r] <= counts_2[r][1] && (!second_2[r] || !counts_2[r][0]) ? pair_2[r][1] : pair_2[r][0];
      end
    end
    for (int r = 0; r < int'(Rows); r++) begin
      if (clear_i) begin
        highest_o[r] <= -MidpointLimit;
        lowest_o[r] <= MidpointLimit;
      end else if (valid_q[3] && counts_3[r]) begin
        if (high_3[r] > highest_o[r]) highest_o[r] <= high_3[r];
        if (low_3[r] < lowest_o[r]) lowest_o[r] <= low_3[r];
      end
    end
  end

endmodule
