// Cells of transformed rows: numbers of a few bits by the row's mean magnitude: ARITHMETIC.md 11.5. A
// word per cycle, the words of a row without a gap; they leave so.

module nkv_code_cells
  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
#(
  parameter int unsigned Lanes = ExactLanes
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  logic        is_value_i,         // Held, as are these, from a cycle before the first word on.
  input  dim_t        dim_i,
  input  word_index_t last_index_i,       // Of a row's words.
  input  logic        valid_i,
  input  word_index_t index_i,
  input  residual_t   z_i[Lanes],

  output logic        valid_o,
  output word_index_t index_o,
  output residual_t   z_o[Lanes],
  output cell_t       cell_o[Lanes]
);

  // 2^16 cells of .28 and .54 standard deviations of a normal z, told by its mean magnitude.
  localparam int unsigned KeyCells = 186_750;
  localparam int unsigned ValueCells = 96_833;
  localparam int unsigned CellsBits = $clog2(KeyCells * Channels + 1);
  localparam int unsigned RateBits = 15;
  localparam int unsigned CellSteps = 2;
  localparam cell_t KeyMost = cell_t'((1 << (KeyCodePlanes - 1)) - 1);
  localparam cell_t ValueMost = cell_t'((1 << (ValueCodePlanes - 1)) - 1);
  typedef logic signed [15:0] wide_cell_t;

  // ---- Cells per z ----
  logic [14:0] magnitude_q[Lanes];
  logic        valid_q, sum_valid, rate_valid;
  word_index_t index_q;
  length_t     sum;
  logic [CellsBits-1:0] cells_q;
  logic [RateBits-1:0]  rate;

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < Lanes; i++) begin
      magnitude_q[i] <= 15'(z_i[i][15] ? -z_i[i] : z_i[i]);
    end
    index_q <= index_i;
    cells_q <= CellsBits'(is_value_i ? ValueCells : KeyCells) * CellsBits'(dim_i);
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= 1'b0;
    else if (clear_i) valid_q <= 1'b0;
    else valid_q <= valid_i;
  end

  nkv_code_sum #(
    .Lanes(Lanes),
    .Bits(15),
    .SumBits(LengthBits)
  ) u_sum (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i (valid_q),
    .first_i (index_q == '0),
    .last_i  (index_q == last_index_i),
    .number_i(magnitude_q),
    .valid_o (sum_valid),
    .sum_o   (sum)
  );

  // Of a row of zeros any rate gives the same cells.
  nkv_code_divide #(
    .LeftBits(CellsBits),
    .RightBits(LengthBits),
    .QuotientBits(RateBits)
  ) u_rate (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i   (sum_valid),
    .left_i    (cells_q),
    .right_i   (sum),
    .valid_o   (rate_valid),
    .quotient_o(rate)
  );

  // ---- The row's words again ----
  logic [16*Lanes-1:0] coming, held;
  logic                held_valid;
  word_index_t         held_index;
  logic [RateBits-1:0] held_rate;
  for (genvar i = 0; i < Lanes; i++) begin : gen_coming
    assign coming[16*i+:16] = z_i[i];
  end

  nkv_code_hold #(
    .Width(16 * Lanes),
    .Depth(32),
    .KnownBits(RateBits)
  ) u_hold (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i,
    .word_i       (coming),
    .last_index_i,
    .known_valid_i(rate_valid),
    .known_i      (rate),
    .valid_o      (held_valid),
    .index_o      (held_index),
    .word_o       (held),
    .known_o      (held_rate)
  );

  wire cell_t most = is_value_i ? ValueMost : KeyMost;
  for (genvar i = 0; i < Lanes; i++) begin : gen_cells
    wire residual_t z = residual_t'(held[16*i+:16]);
    logic signed [31:0] product_q;
    residual_t z_q;
    wire wide_cell_t wide = product_q[31:16];
    always_ff @(posedge clk_i) begin
      product_q <= z * signed'({1'b0, held_rate});
      z_q <= z;
      z_o[i] <= z_q;
      cell_o[i] <= cell_t'(wide);
      if (wide > wide_cell_t'(most)) cell_o[i] <= most;
      if (wide < -wide_cell_t'(most) - 16'sd1) cell_o[i] <= ~most;
    end
    wire unused = ^product_q[15:0];
  end

  logic [CellSteps-1:0] out_valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) out_valid_q <= '0;
    else if (clear_i) out_valid_q <= '0;
    else out_valid_q <= {out_valid_q[CellSteps-2:0], held_valid};
  end
  assign valid_o = out_valid_q[CellSteps-1];
  nkv_delay #(
    .Width($bits(word_index_t)),
    .Cycles(CellSteps)
  ) u_index (
    .clk_i,
    .data_i(held_index),
    .data_o(index_o)
  );

endmodule
