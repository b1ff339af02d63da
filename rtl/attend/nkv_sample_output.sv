// o_c of ARITHMETIC.md 8.5: acc / Z with 24 fraction bits, truncated and clamped. One at most every 8
// cycles, 36 cycles later at the output, where it stands until the next one. Z comes the same way, before
// the first acc, and is Z until the next.
//
// Of the quotient Q of 4.1 no more than its 26 leading bits count: four dividers that take turns make
// a bit per cycle each.

module nkv_sample_output
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::*;
(
  input  logic    clk_i,
  input  logic    rst_ni,
  input  logic    clear_i,

  input  logic    valid_i,   // Not within 8 cycles of the last.
  input  logic    is_z_i,    // Else acc.
  input  sum_t    number_i,

  output output_t output_o
);

  localparam int unsigned TopBits = 32;
  localparam int unsigned QuotientBits = 26;  // Of acc / Z, one of them before the point.
  localparam int unsigned Dividers = 4;
  localparam int unsigned MagnitudeBits = 25;
  typedef logic [$clog2(Dividers)-1:0] turn_t;
  typedef logic [TopBits:0] remainder_t;
  typedef logic [QuotientBits-1:0] quotient_t;
  typedef logic [MagnitudeBits-1:0] magnitude_t;

  // ---- Leading bits ----
  logic [TopLatency:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  logic                negative_q, is_z_q, negative, is_z;
  logic [SumBits-1:0]  magnitude_q;
  logic [TopBits-1:0]  top, divisor_q;
  logic [6:0]          bits, z_bits_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[TopLatency-1:0], valid_i};
  end
  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      magnitude_q <= number_i < 0 ? -number_i : number_i;
      negative_q <= number_i < 0;
      is_z_q <= is_z_i;
    end
  end
  nkv_top_bits u_top (
    .clk_i,
    .rst_ni,
    .valid_i (valid_q[0]),
    .number_i(magnitude_q),
    .top_o   (top),
    .bits_o  (bits)
  );
  nkv_delay #(
    .Width (2),
    .Cycles(TopLatency)
  ) u_side (
    .clk_i,
    .data_i({negative_q, is_z_q}),
    .data_o({negative, is_z})
  );

  // ---- Dividers ----
  logic [QuotientBits:0]   divides_q;  // [i]: i + 1 cycles after a divider began.
  turn_t                   turn_q, done_turn_q;
  remainder_t              remainder_q[Dividers];
  quotient_t               quotient_q[Dividers];
  logic [7:0]              shift_q[Dividers];  // Below 0: beyond the clamp.
  logic                    divider_negative_q[Dividers];
  wire begins = valid_q[TopLatency] && !is_z;

  always_ff @(posedge clk_i) begin
    if (valid_q[TopLatency] && is_z) begin
      divisor_q <= top;
      z_bits_q <= bits;
    end
    for (int unsigned i = 0; i < Dividers; i++) begin
      automatic logic [TopBits+1:0] rest = {1'b0, remainder_q[i]} - {2'b0, divisor_q};
      automatic logic fits = !rest[TopBits+1];
      quotient_q[i] <= {quotient_q[i][QuotientBits-2:0], fits};
      remainder_q[i] <= (fits ? rest[TopBits:0] : remainder_q[i]) << 1;
      if (begins && turn_q == turn_t'(i)) begin
        remainder_q[i] <= remainder_t'(top);
        shift_q[i] <= 8'(z_bits_q) - 8'(bits) + 1'b1;
        divider_negative_q[i] <= negative;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      divides_q <= '0;
      turn_q <= '0;
      done_turn_q <= '0;
    end else if (clear_i) begin
      divides_q <= '0;
      turn_q <= '0;
      done_turn_q <= '0;
    end else begin
      divides_q <= {divides_q[QuotientBits-1:0], begins};
      if (begins) turn_q <= turn_q + 1'b1;
      if (divides_q[QuotientBits]) done_turn_q <= done_turn_q + 1'b1;
    end
  end

  // ---- Scaled and clamped ----
  quotient_t  whole_q;
  logic [7:0] whole_shift_q;
  logic       whole_negative_q, scaled_negative_q;
  magnitude_t scaled_q;
  wire quotient_t scaled = whole_q >> whole_shift_q[6:0];

  always_ff @(posedge clk_i) begin
    if (divides_q[QuotientBits]) begin
      whole_q <= quotient_q[done_turn_q];
      whole_shift_q <= shift_q[done_turn_q];
      whole_negative_q <= divider_negative_q[done_turn_q];
    end
    scaled_q <= whole_shift_q[7] || scaled[QuotientBits-1] ? '1 : scaled[MagnitudeBits-1:0];
    scaled_negative_q <= whole_negative_q;
    output_o <= scaled_negative_q ? -output_t'({1'b0, scaled_q}) : output_t'({1'b0, scaled_q});
  end

endmodule
