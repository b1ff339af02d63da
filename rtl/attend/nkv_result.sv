// Sums to outputs: the quotient of ARITHMETIC.md section 4.1, as binary32 or bf16. One per cycle,
// 43 cycles later at the output. Without tokens (z = 0) it is 0.

module nkv_result
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  parameter int unsigned TagBits = 8
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  exponent_t          value_exponent_i,  // Ev; held while sums are on their way.
  input  logic               bf16_i,            // Held too.

  input  logic               valid_i,
  input  logic [TagBits-1:0] tag_i,
  input  sum_t               acc_i,
  input  sum_t               z_i,               // Not negative.

  output logic               valid_o,
  output logic [TagBits-1:0] tag_o,
  output logic [31:0]        output_o           // A bf16 pattern in the low bits.
);

  localparam int unsigned TopBits = 32;
  localparam int unsigned QuotientBits = 33;
  localparam int unsigned Latency = 43;
  localparam logic [30:0] Largest = 31'h7f7f_ffff;
  localparam logic [30:0] Infinity = 31'h7f80_0000;

  typedef logic [TopBits-1:0] top_t;
  typedef logic [QuotientBits-1:0] quotient_t;
  typedef logic signed [TopBits+1:0] remainder_t;
  typedef logic [6:0] bit_count_t;
  typedef logic signed [9:0] power_t;

  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after valid_i.

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], valid_i};
  end

  assign valid_o = valid_q[Latency-1];

  nkv_delay #(
    .Width (TagBits),
    .Cycles(Latency)
  ) u_tag (
    .clk_i,
    .data_i(tag_i),
    .data_o(tag_o)
  );

  // ---- Leading bits -----------------------------------------------------------------------------
  logic [SumBits-1:0] acc_magnitude_q, z_q;
  logic negative_q, negative;
  top_t acc_top, z_top;
  bit_count_t acc_bits, z_bits;

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      acc_magnitude_q <= acc_i < 0 ? -acc_i : acc_i;
      negative_q <= acc_i < 0;
      z_q <= z_i;
    end
  end

  nkv_top_bits u_acc_top (
    .clk_i,
    .rst_ni,
    .valid_i (valid_q[0]),
    .number_i(acc_magnitude_q),
    .top_o   (acc_top),
    .bits_o  (acc_bits)
  );

  nkv_top_bits u_z_top (
    .clk_i,
    .rst_ni,
    .valid_i (valid_q[0]),
    .number_i(z_q),
    .top_o   (z_top),
    .bits_o  (z_bits)
  );

  nkv_delay #(
    .Width (1),
    .Cycles(TopLatency)
  ) u_negative (
    .clk_i,
    .data_i(negative_q),
    .data_o(negative)
  );

  // ---- Q = floor(A * 2^32 / Z): division without restoring, a bit per stage ---------------------
  // A remainder below zero is made good by adding in the next stage; the bits are those of the
  // restoring division.
  remainder_t remainder_q[QuotientBits];
  top_t divisor_q[QuotientBits];
  quotient_t quotient_q[QuotientBits];

  always_ff @(posedge clk_i) begin
    if (valid_q[TopLatency]) begin
      automatic remainder_t difference = remainder_t'(acc_top) - remainder_t'(z_top);
      remainder_q[0] <= difference;
      quotient_q[0] <= quotient_t'(!difference[TopBits+1]);
      divisor_q[0] <= z_top;
    end
    for (int unsigned i = 1; i < QuotientBits; i++) begin
      if (valid_q[TopLatency+i]) begin
        automatic remainder_t divisor = remainder_t'(divisor_q[i-1]);
        automatic remainder_t next = (remainder_q[i-1] << 1) +
                                     (remainder_q[i-1] < 0 ? divisor : -divisor);
        remainder_q[i] <= next;
        quotient_q[i] <= {quotient_q[i-1][QuotientBits-2:0], !next[TopBits+1]};
        divisor_q[i] <= divisor_q[i-1];
      end
    end
  end

  // ---- Sign, exponent, and whether there is anything --------------------------------------------
  localparam int unsigned AfterTops = 1 + TopLatency;
  localparam int unsigned AfterQuotient = AfterTops + QuotientBits;

  typedef struct packed {
    logic   zero;
    logic   negative;
    power_t exponent;  // Biased, of a quotient of 32 bits.
  } side_t;

  // What the exponent means, if the significand carries in rounding and if not.
  typedef struct packed {
    exponent_t exponent;
    logic      underflows;
    logic      overflows;
  } range_t;

  function automatic range_t range_of(power_t exponent);
    return '{exponent: exponent[7:0], underflows: exponent <= 0, overflows: exponent >= 10'sd255};
  endfunction

  side_t side, rounded_side_q;
  range_t plain_q, carrying_q;
  logic carried_zero_q, carried_negative_q;

  nkv_delay #(
    .Width ($bits(side_t)),
    .Cycles(QuotientBits)
  ) u_side (
    .clk_i,
    .data_i({acc_bits == '0 || z_bits == '0, negative,
             power_t'(acc_bits) - power_t'(z_bits) + power_t'(value_exponent_i)}),
    .data_o(side)
  );

  // ---- Rounding ---------------------------------------------------------------------------------
  quotient_t quotient;
  significand_t kept_q;
  logic rounds_up_q;
  logic [SignificandBits:0] carried_q;  // 2^24 after a carry.
  logic [31:0] binary32_q;

  assign quotient = quotient_q[QuotientBits-1];

  always_ff @(posedge clk_i) begin
    if (valid_q[AfterQuotient-1]) begin
      automatic logic is_long = quotient[QuotientBits-1];
      automatic logic [7:0] rest = is_long ? quotient[8:1] : quotient[7:0];
      automatic logic odd = is_long ? quotient[9] : quotient[8];
      automatic logic beyond = is_long && quotient[0];
      kept_q <= is_long ? quotient[32:9] : quotient[31:8];
      rounds_up_q <= rest > 8'h80 || (rest == 8'h80 && (odd || beyond));
      rounded_side_q <= side;
      rounded_side_q.exponent <= side.exponent + power_t'(is_long);
    end
    if (valid_q[AfterQuotient]) begin
      carried_q <= (SignificandBits + 1)'(kept_q) + (SignificandBits + 1)'(rounds_up_q);
      plain_q <= range_of(rounded_side_q.exponent);
      carrying_q <= range_of(rounded_side_q.exponent + 1'b1);
      carried_zero_q <= rounded_side_q.zero;
      carried_negative_q <= rounded_side_q.negative;
    end
    if (valid_q[AfterQuotient+1]) begin
      automatic range_t range = carried_q[SignificandBits] ? carrying_q : plain_q;
      if (carried_zero_q || range.underflows) binary32_q <= '0;
      else if (range.overflows) binary32_q <= {carried_negative_q, Largest};
      else binary32_q <= {carried_negative_q, range.exponent, carried_q[22:0]};
    end
    if (valid_q[AfterQuotient+2]) begin
      automatic logic [30:0] magnitude = binary32_q[30:0] + 31'h7fff + 31'(binary32_q[16]);
      if (magnitude >= Infinity) magnitude = Largest;
      output_o <= bf16_i ? {16'd0, binary32_q[31], magnitude[30:16]} : binary32_q;
    end
  end

endmodule
