// What a row's cells have to be multiplied by to give its z back, as a logarithm: F and its 16 * log2
// of ARITHMETIC.md 11.6. A word per cycle; an answer per row, in their order.

module nkv_code_fit
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
#(
  parameter int unsigned Lanes = ExactLanes
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  word_index_t last_index_i,       // Of a row's words; held.
  input  logic        valid_i,
  input  word_index_t index_i,
  input  residual_t   z_i[Lanes],
  input  cell_t       cell_i[Lanes],      // Of the same sign.

  output logic        valid_o,
  output logic        any_o,              // The row has a residual; otherwise the other is nothing.
  output logic [8:0]  log2_o              // Sixteenths of octaves.
);

  localparam int unsigned CoarseBits = 12;
  localparam int unsigned EnergyBits = 30;
  localparam int unsigned FitBits = CoarseBits + CellBits + $clog2(Channels);
  localparam int unsigned FractionBits = 8;
  localparam int unsigned RatioBits = 18;
  localparam int unsigned TopBits = 16;
  localparam int unsigned Sixteenths = 16;
  typedef logic [CoarseBits-1:0] coarse_t;

  // ceil(2^15 * 2^(i/16)), i = 1 to 15.
  localparam logic [Sixteenths-2:0][TopBits-1:0] Thresholds = '{
      16'd62758, 16'd60097, 16'd57549, 16'd55109, 16'd52773, 16'd50536, 16'd48393, 16'd46341,
      16'd44377, 16'd42495, 16'd40694, 16'd38968, 16'd37316, 16'd35734, 16'd34219
  };

  // ---- Products: magnitudes are enough, because z and its cell's value have one sign ----
  logic [2*CoarseBits-1:0] square_q[Lanes];
  logic [CoarseBits+CellBits-1:0] product_q[Lanes];
  for (genvar i = 0; i < Lanes; i++) begin : gen_lanes
    logic signed [CoarseBits-1:0] y_q;
    coarse_t             magnitude_q;
    logic [CellBits-1:0] value_q, late_value_q;   // |2u + 1|
    wire logic signed [16:0] rounded = 17'(z_i[i]) + 17'sd8;
    wire unused = ^rounded[3:0] ^ rounded[16];
    always_ff @(posedge clk_i) begin
      y_q <= rounded[15:4];
      value_q <= {cell_i[i][CellBits-2:0] ^ {CellBits - 1{cell_i[i][CellBits-1]}}, 1'b1};
      magnitude_q <= coarse_t'(y_q[CoarseBits-1] ? -y_q : y_q);
      late_value_q <= value_q;
      square_q[i] <= (2 * CoarseBits)'(magnitude_q) * (2 * CoarseBits)'(magnitude_q);
      product_q[i] <= (CoarseBits + CellBits)'(magnitude_q) * (CoarseBits + CellBits)'(late_value_q);
    end
  end

  logic [2:0]  valid_q;
  word_index_t index_late;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[1:0], valid_i};
  end
  nkv_delay #(
    .Width($bits(word_index_t)),
    .Cycles(3)
  ) u_index (
    .clk_i,
    .data_i(index_i),
    .data_o(index_late)
  );

  // ---- Sums and their ratio ----
  logic sums_valid, unused_valid;
  logic [EnergyBits-1:0]  energy;
  logic [FitBits-1:0] product;
  wire first = index_late == '0;
  wire last = index_late == last_index_i;

  nkv_code_sum #(
    .Lanes(Lanes),
    .Bits(2 * CoarseBits),
    .SumBits(EnergyBits)
  ) u_energy (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i (valid_q[2]),
    .first_i (first),
    .last_i  (last),
    .number_i(square_q),
    .valid_o (sums_valid),
    .sum_o   (energy)
  );
  nkv_code_sum #(
    .Lanes(Lanes),
    .Bits(CoarseBits + CellBits),
    .SumBits(FitBits)
  ) u_product (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i (valid_q[2]),
    .first_i (first),
    .last_i  (last),
    .number_i(product_q),
    .valid_o (unused_valid),
    .sum_o   (product)
  );

  logic ratio_valid, ratio_any;
  logic [RatioBits-1:0] ratio;
  nkv_code_divide #(
    .LeftBits(EnergyBits + FractionBits),
    .RightBits(FitBits),
    .QuotientBits(RatioBits)
  ) u_ratio (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i   (sums_valid),
    .left_i    ({energy, FractionBits'(0)}),
    .right_i   (product),
    .valid_o   (ratio_valid),
    .quotient_o(ratio)
  );
  nkv_delay #(
    .Width(1),
    .Cycles(RatioBits)
  ) u_any (
    .clk_i,
    .data_i(product != '0),
    .data_o(ratio_any)
  );

  // ---- Its logarithm: the highest bit, then comparisons ----
  logic [1:0]         log_valid_q, any_q;
  logic [4:0]         high, high_q;       // Place of the highest bit.
  logic [RatioBits-1:0] ratio_q;
  logic [TopBits-1:0] top_q;
  logic [4:0]         high_late_q;
  logic [3:0]         reached;
  always_comb begin
    high = '0;
    for (int unsigned i = 0; i < RatioBits; i++) if (ratio[i]) high = 5'(i);
    reached = '0;
    for (int unsigned i = 0; i < Sixteenths - 1; i++) if (top_q >= Thresholds[i]) reached = 4'(i + 1);
  end
  always_ff @(posedge clk_i) begin
    ratio_q <= ratio;
    high_q <= high;
    top_q <= TopBits'((RatioBits + TopBits)'({ratio_q, TopBits'(0)}) >> (high_q + 5'd1));
    high_late_q <= high_q;
    any_q <= {any_q[0], ratio_any};
    log2_o <= {high_late_q, 4'd0} + 9'(reached);
    any_o <= any_q[1];
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {log_valid_q, valid_o} <= '0;
    else if (clear_i) {log_valid_q, valid_o} <= '0;
    else {valid_o, log_valid_q} <= {log_valid_q, ratio_valid};
  end

endmodule
