// Elements times their gains as integers of one scale: ARITHMETIC.md 11.3. A word per cycle, latency
// 9. Gains come later than their elements, because decoding them needs none.

module nkv_code_fix
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
  import nkv_codes_pkg::*;
#(
  parameter int unsigned Lanes = ExactLanes
) (
  input  logic     clk_i,
  input  logic     rst_ni,
  input  logic     clear_i,

  input  dtype_e   dtype_i,             // Held, not fp32.
  input  top_t     top_i,               // X of the tensor; held while its words are under way.
  input  logic     valid_i,
  input  element_t element_i[Lanes],
  input  octaves_t gain_i[Lanes],       // Of the word that came 4 cycles before.

  output logic     valid_o,
  output fixed_t   fixed_o[Lanes]
);

  localparam int unsigned MostShift = FixedBits;
  localparam int unsigned DroppedBits = 2 * HighBits + 1 - FixedBits;  // Of a product.
  typedef logic [FixedBits-1:0] magnitude_t;
  typedef logic [$clog2(MostShift+1)-1:0] shift_t;

  logic [31:0]      element[Lanes];
  logic             decoded;
  logic [Lanes-1:0] negative, unused_finite;
  exponent_t        exponent[Lanes];
  significand_t     significand[Lanes];
  logic [4:0]       valid_q;

  for (genvar i = 0; i < Lanes; i++) begin : gen_elements
    assign element[i] = 32'(element_i[i]);
  end

  nkv_number_decode #(
    .Lanes(Lanes),
    .Binary32(1'b0)
  ) u_decode (
    .clk_i,
    .rst_ni,
    .valid_i,
    .dtype_i,
    .element_i    (element),
    .valid_o      (decoded),
    .negative_o   (negative),
    .finite_o     (unused_finite),
    .exponent_o   (exponent),
    .significand_o(significand)
  );

  for (genvar i = 0; i < Lanes; i++) begin : gen_lanes
    logic [3:0]          negative_q;
    logic [HighBits-1:0] high_q;
    logic [11:0]         octave_q;
    top_t                power_q;
    logic [HighBits+11:0] product_q;
    shift_t              shift_q;
    logic [1:0]          fine_q;
    magnitude_t          coarse_q, magnitude_q;
    wire top_t below = top_i - power_q;
    wire shift_t coarse = shift_q & ~shift_t'(3);
    always_ff @(posedge clk_i) begin
      negative_q <= {negative_q[2:0], negative[i]};
      high_q <= significand[i][SignificandBits-1-:HighBits];
      octave_q <= octave(gain_i[i][3:0]);
      power_q <= top_t'(exponent[i]) + top_t'(signed'(gain_i[i][7:4]));
      // Of elements that are zero the shift says nothing.
      product_q <= (HighBits + 12)'(high_q) * (HighBits + 12)'(octave_q);
      shift_q <= below > top_t'(MostShift) ? shift_t'(MostShift) : shift_t'(below);
      coarse_q <= magnitude_t'(product_q >> DroppedBits) >> coarse;
      fine_q <= shift_q[1:0];
      magnitude_q <= coarse_q >> fine_q;
      fixed_o[i] <= negative_q[3] ? -signed'(magnitude_q) : signed'(magnitude_q);
    end
    wire unused = ^significand[i][SignificandBits-HighBits-1:0];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[3:0], decoded};
  end
  assign valid_o = valid_q[4];

endmodule
