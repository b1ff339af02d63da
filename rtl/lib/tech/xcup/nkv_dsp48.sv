// A DSP48E2 that multiplies and adds: sum = left * right + addends, each of which has its own way in.
//
// Registers: InputStages before the multiplier, one behind it, one for the sum. adds_i comes with the
// cycle before the sum's, in which the multiplier's register is written.

module nkv_dsp48 #(
  parameter int unsigned InputStages = 2,
  parameter int unsigned Cascade = 0      // 0: add_i with adds_i. 1: the cascade with adds_i. 2: add_i with
                                          // adds_i, and the cascade's upper part, from bit 17 on.
) (
  input  logic               clk_i,
  input  logic [3:0]         enable_i,    // Of the registers, in the order of the way; the first only
                                          // with two input stages.
  input  logic signed [26:0] left_i,
  input  logic signed [17:0] right_i,
  input  logic               adds_i,
  input  logic signed [47:0] add_i,
  input  logic signed [47:0] cascade_i,   // Another one's cascade_o, beside this one.
  output logic signed [47:0] cascade_o,
  output logic signed [47:0] sum_o
);

  // What the multiplexers W and Z take: nothing, C, the cascade, the cascade's upper part.
  localparam logic [1:0] TakesC = 2'b11;
  localparam logic [2:0] TakesCascade = 3'b001;
  localparam logic [2:0] TakesUpper = 3'b101;
  localparam logic [3:0] TakesProduct = 4'b0101;

  logic [1:0] w;
  logic [2:0] z;
  assign w = adds_i && Cascade != 1 ? TakesC : '0;
  assign z = Cascade == 2 ? TakesUpper : Cascade == 1 && adds_i ? TakesCascade : '0;

  // verilator lint_off PINMISSING
  DSP48E2 #(
    .AREG     (InputStages),
    .BREG     (InputStages),
    .ACASCREG (InputStages),
    .BCASCREG (InputStages),
    .CREG     (0),
    .MREG     (1),
    .PREG     (1),
    .OPMODEREG(1),
    .USE_MULT ("MULTIPLY"),
    .AMULTSEL ("A"),
    .BMULTSEL ("B")
  ) u_dsp (
    .CLK          (clk_i),
    .A            ({{3{left_i[26]}}, left_i}),
    .B            (right_i),
    .C            (add_i),
    .D            ('0),
    .PCIN         (cascade_i),
    .PCOUT        (cascade_o),
    .P            (sum_o),
    .OPMODE       ({w, z, TakesProduct}),
    .ALUMODE      ('0),
    .INMODE       ('0),
    .CARRYIN      (1'b0),
    .CARRYINSEL   ('0),
    .CEA1         (enable_i[0]),
    .CEB1         (enable_i[0]),
    .CEA2         (enable_i[1]),
    .CEB2         (enable_i[1]),
    .CEM          (enable_i[2]),
    .CECTRL       (enable_i[2]),
    .CEP          (enable_i[3]),
    .CEAD         (1'b0),
    .CEALUMODE    (1'b1),
    .CEC          (1'b0),
    .CECARRYIN    (1'b0),
    .CED          (1'b0),
    .CEINMODE     (1'b1),
    .ACIN         ('0),
    .BCIN         ('0),
    .CARRYCASCIN  (1'b0),
    .MULTSIGNIN   (1'b0),
    .RSTA         (1'b0),
    .RSTALLCARRYIN(1'b0),
    .RSTALUMODE   (1'b0),
    .RSTB         (1'b0),
    .RSTC         (1'b0),
    .RSTCTRL      (1'b0),
    .RSTD         (1'b0),
    .RSTINMODE    (1'b0),
    .RSTM         (1'b0),
    .RSTP         (1'b0)
  );
  // verilator lint_on PINMISSING

endmodule
