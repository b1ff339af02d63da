// The log-sum-exp of a row from M and z: ARITHMETIC.md section 4.1. One at a time, a bit per cycle:
// done_o is high for one cycle, at most 175 cycles after start_i, and result_o stands from then
// until the next start. Without tokens (z = 0) it is minus infinity.

module nkv_log_sum_exp
  import nkv_attend_pkg::*;
  import nkv_tables_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        start_i,      // While idle; the rest is held until done_o.
  input  logic        base2_i,      // Else natural.
  input  reference_t  reference_i,  // M
  input  sum_t        z_i,          // Not negative.

  output logic        done_o,
  output logic [31:0] result_o      // Binary32.
);

  localparam int unsigned FractionBits = 24;  // Of logarithms.
  localparam int unsigned TableBits = 7;
  localparam int unsigned RestBits = 16;
  localparam int unsigned SlopeBits = 18;
  localparam int unsigned Ln2Bits = 32;
  localparam logic [Ln2Bits-1:0] Ln2 = 32'd2977044471;  // ln 2 * 2^32, truncated.
  localparam int unsigned LogBits = ReferenceBits + FractionBits + 2;
  localparam logic [7:0] PointExponent = 8'd102;        // Of a magnitude of 0 bits.
  localparam logic [31:0] MinusInfinity = 32'hff80_0000;

  typedef logic signed [LogBits-1:0] log_t;
  typedef logic signed [LogBits:0] log_sum_t;

  // One unit of z is 2^-41, and p of section 4.1 is bits_q - 1.
  localparam log_t WholeOffset = -log_t'(42);

  typedef enum logic [3:0] {
    Idle,
    NormaliseZ,    // Until its highest bit is at the top.
    ReadTable,
    Interpolate,
    Assemble,
    Multiply,      // By ln 2, from its lowest bit.
    Magnitude,
    Normalise,
    Judge,         // Whether to round up.
    Round,
    Pack
  } state_e;

  state_e state_q;
  logic [63:0] number_q;      // z, then |l|.
  logic [6:0] bits_q;         // That it would have, were its top bit set.
  logic [FractionBits-1:0] base_q;
  logic [SlopeBits-1:0] slope_q;
  logic [SlopeBits+RestBits-1:0] rise_q;
  log_t log2_q, log_q;
  logic [4:0] step_q;
  logic [FractionBits:0] rounded_q;
  logic negative_q, rounds_up_q, empty_q;
  logic [TableBits-1:0] index;
  logic [RestBits-1:0] rest;
  log_t whole;
  log_sum_t partial;
  logic normal, shifted;

  // Bits below the leading one.
  assign index = number_q[62-:TableBits];
  assign rest = number_q[62-TableBits-:RestBits];
  assign normal = number_q[63];
  assign shifted = normal || bits_q == '0;
  assign whole = log_t'(reference_i) + log_t'(bits_q) + WholeOffset;
  assign partial = log_sum_t'(log_q) + (Ln2[step_q] ? log_sum_t'(log2_q) : '0);

  always_ff @(posedge clk_i) begin
    unique case (state_q)
      Idle: begin
        number_q <= z_i;
        bits_q <= 7'd64;
        step_q <= '0;
        log_q <= '0;
      end
      NormaliseZ, Normalise: begin
        if (!shifted) begin
          number_q <= number_q << 1;
          bits_q <= bits_q - 1'b1;
        end
      end
      ReadTable: begin
        base_q <= Log2Base[index];
        slope_q <= Log2Slope[index];
      end
      Interpolate: rise_q <= slope_q * rest;
      Assemble: log2_q <= (whole <<< FractionBits) + log_t'({1'b0, base_q}) +
                          log_t'({1'b0, rise_q >> RestBits});
      Multiply: begin
        log_q <= base2_i ? log2_q : log_t'(partial >>> 1);
        step_q <= step_q + 1'b1;
      end
      Magnitude: begin
        number_q <= log_q < 0 ? -64'(log_q) : 64'(log_q);
        negative_q <= log_q < 0;
        bits_q <= 7'd64;
      end
      Judge: begin
        rounds_up_q <= number_q[39] && (number_q[38:0] != '0 || number_q[40]);
        empty_q <= z_i == '0;
      end
      Round: rounded_q <= (FractionBits + 1)'(number_q[63-:FractionBits]) +
                          (FractionBits + 1)'(rounds_up_q);
      Pack: begin
        if (empty_q) result_o <= MinusInfinity;
        else if (!normal) result_o <= '0;
        else begin
          result_o <= {negative_q, PointExponent + 8'(bits_q) + 8'(rounded_q[FractionBits]),
                       rounded_q[FractionBits-2:0]};
        end
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      done_o <= 1'b0;
    end else begin
      done_o <= state_q == Pack;
      unique case (state_q)
        Idle: if (start_i) state_q <= NormaliseZ;
        NormaliseZ: if (shifted) state_q <= ReadTable;
        ReadTable: state_q <= Interpolate;
        Interpolate: state_q <= Assemble;
        Assemble: state_q <= Multiply;
        Multiply: if (base2_i || step_q == '1) state_q <= Magnitude;
        Magnitude: state_q <= Normalise;
        Normalise: if (shifted) state_q <= Judge;
        Judge: state_q <= Round;
        Round: state_q <= Pack;
        Pack: state_q <= Idle;
        default: state_q <= Idle;
      endcase
    end
  end

endmodule
