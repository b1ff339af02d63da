// Of UltraScale+'s DSP48E2 (UG579) what nkv_dsp48 uses, for simulation: the multiplier, registers of A and B
// in one or two stages, of M, P and OPMODE, and of multiplexers W nothing and C, of Z nothing, PCIN and
// PCIN >> 17.

/* verilator lint_off DECLFILENAME */
/* verilator lint_off UNUSEDSIGNAL */
/* verilator lint_off UNUSEDPARAM */
module DSP48E2 #(
  parameter int AREG = 1,
  parameter int BREG = 1,
  parameter int ACASCREG = 1,
  parameter int BCASCREG = 1,
  parameter int CREG = 1,
  parameter int MREG = 1,
  parameter int PREG = 1,
  parameter int OPMODEREG = 1,
  parameter USE_MULT = "MULTIPLY",
  parameter AMULTSEL = "A",
  parameter BMULTSEL = "B"
) (
  input  logic               CLK,
  input  logic signed [29:0] A,
  input  logic signed [17:0] B,
  input  logic signed [47:0] C,
  input  logic        [26:0] D,
  input  logic signed [47:0] PCIN,
  output logic signed [47:0] PCOUT,
  output logic signed [47:0] P,
  input  logic         [8:0] OPMODE,
  input  logic         [3:0] ALUMODE,
  input  logic         [4:0] INMODE,
  input  logic               CARRYIN,
  input  logic         [2:0] CARRYINSEL,
  input  logic               CEA1, CEB1, CEA2, CEB2, CEM, CECTRL, CEP,
  input  logic               CEAD, CEALUMODE, CEC, CECARRYIN, CED, CEINMODE,
  input  logic        [29:0] ACIN,
  input  logic        [17:0] BCIN,
  input  logic               CARRYCASCIN, MULTSIGNIN,
  input  logic               RSTA, RSTALLCARRYIN, RSTALUMODE, RSTB, RSTC, RSTCTRL, RSTD, RSTINMODE,
  input  logic               RSTM, RSTP,
  output logic        [29:0] ACOUT,
  output logic        [17:0] BCOUT,
  output logic               CARRYCASCOUT, MULTSIGNOUT, OVERFLOW, PATTERNBDETECT, PATTERNDETECT, UNDERFLOW,
  output logic         [3:0] CARRYOUT,
  output logic         [7:0] XOROUT
);

  logic signed [26:0] a1, a2;
  logic signed [17:0] b1, b2;
  logic signed [44:0] m;
  logic signed [47:0] w, z;
  logic [8:0] opmode;

  initial begin
    if (!(AREG inside {1, 2}) || BREG != AREG || CREG != 0 || MREG != 1 || PREG != 1 || OPMODEREG != 1) begin
      $fatal(1, "not modelled");
    end
  end

  always_comb begin
    w = opmode[8:7] == 2'b11 ? C : '0;
    unique case (opmode[6:4])
      3'b001: z = PCIN;
      3'b101: z = PCIN >>> 17;
      default: z = '0;
    endcase
  end

  always_ff @(posedge CLK) begin
    if (CEA1) a1 <= A[26:0];
    if (CEB1) b1 <= B;
    if (CEA2) a2 <= AREG == 2 ? a1 : A[26:0];
    if (CEB2) b2 <= BREG == 2 ? b1 : B;
    if (CEM) m <= a2 * b2;
    if (CECTRL) begin
      opmode <= OPMODE;
      if (OPMODE[3:0] != 4'b0101 || OPMODE[8:7] == 2'b01 || OPMODE[8:7] == 2'b10 ||
          !(OPMODE[6:4] inside {3'b000, 3'b001, 3'b101})) $fatal(1, "OPMODE %b is not modelled", OPMODE);
    end
    if (CEP) P <= z + w + 48'(m);
  end

  assign PCOUT = P;
  assign {ACOUT, BCOUT, CARRYCASCOUT, MULTSIGNOUT, OVERFLOW, PATTERNBDETECT, PATTERNDETECT, UNDERFLOW, CARRYOUT,
          XOROUT} = '0;

endmodule
