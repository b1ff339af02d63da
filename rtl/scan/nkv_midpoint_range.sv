// The highest and the lowest midpoint of every row that count for a tail's reference
// (ARITHMETIC.md, section 7.2): those of visible tokens that are not saturated.

module nkv_midpoint_range
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,
  input  logic      clear_i,

  // Midpoints as they are written.
  input  logic      valid_i,
  input  midpoint_t midpoint_i[Rows][PlaneTokens],
  input  logic      visible_i[PlaneTokens],

  output logic      any_o,             // Midpoints have come.
  output midpoint_t highest_o[Rows],   // Below the lowest one if there is none.
  output midpoint_t lowest_o[Rows]
);

  // Two pairs of four tokens, then the four with what was.
  logic      valid_q;
  midpoint_t high_q[Rows][2], low_q[Rows][2];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int r = 0; r < int'(Rows); r++) begin
        for (int pair = 0; pair < 2; pair++) begin
          automatic midpoint_t high[2], low[2];
          for (int t = 0; t < 2; t++) begin
            automatic midpoint_t midpoint = midpoint_i[r][2*pair+t];
            automatic logic counts = visible_i[2*pair+t] &&
                midpoint != MidpointLimit && midpoint != -MidpointLimit;
            high[t] = counts ? midpoint : -MidpointLimit;
            low[t] = counts ? midpoint : MidpointLimit;
          end
          high_q[r][pair] <= high[0] > high[1] ? high[0] : high[1];
          low_q[r][pair] <= low[0] < low[1] ? low[0] : low[1];
        end
      end
    end
    for (int r = 0; r < int'(Rows); r++) begin
      automatic midpoint_t high = high_q[r][0] > high_q[r][1] ? high_q[r][0] : high_q[r][1];
      automatic midpoint_t low = low_q[r][0] < low_q[r][1] ? low_q[r][0] : low_q[r][1];
      if (clear_i) begin
        highest_o[r] <= -MidpointLimit;
        lowest_o[r] <= MidpointLimit;
      end else if (valid_q) begin
        if (high > highest_o[r]) highest_o[r] <= high;
        if (low < lowest_o[r]) lowest_o[r] <= low;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      any_o <= 1'b0;
    end else begin
      valid_q <= valid_i && !clear_i;
      if (clear_i) any_o <= 1'b0;
      else if (valid_q) any_o <= 1'b1;
    end
  end

endmodule
