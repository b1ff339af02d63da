// The error bound of a row from its sums (ARITHMETIC.md 8.5), one of them per cycle: the groups' z, then
// for each channel the groups' acc, all seven beside the channel's output o_c. 23 cycles after the
// last one the bound stands.

module nkv_sample_bound
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::*;
  import nkv_tables_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,         // Before each command.

  input  logic        start_i,         // While idle. What follows is held until done_o.
  input  sum_t        total_i,         // Z
  input  logic [7:0]  sixteenths_i,    // z, not 0.
  input  log_t        log_error_i,

  output logic        ready_o,
  input  logic        valid_i,
  input  logic        last_i,          // Of the last channel.
  input  sum_t        sum_i,
  input  output_t     output_i,

  output logic        done_o,          // For one cycle; the answer stands until the next start.
  output logic        known_o,         // There is a beta.
  output log_t        log_bound_o,     // Else it is not one,
  output logic [31:0] bound_o          // and this infinity.
);

  localparam int unsigned TermBits = 26;         // Scaled sums, |x| < 2^25.
  localparam int unsigned ResidualBits = 25;     // |x| < 2^24
  localparam int unsigned Headroom = 24;         // By which a sum may have to grow.
  localparam int unsigned WideBits = SumBits + Headroom;
  localparam logic signed [TermBits-1:0] TermLimit = 26'sh1FF_FFFF;
  localparam logic signed [ResidualBits-1:0] ResidualLimit = 25'sh0FF_FFFF;
  typedef logic signed [WideBits-1:0] wide_t;
  typedef logic signed [TermBits-1:0] term_t;
  typedef logic signed [2*TermBits-1:0] product_t;
  typedef logic signed [ResidualBits-1:0] residual_t;
  typedef logic [2:0] place_t;
  localparam place_t LastPlace = place_t'(Groups - 1);

  typedef enum logic [2:0] {
    Idle,
    Scale,     // Until the bits of Z are known.
    Take,
    Drain,     // Until the last sum is in Y.
    Logs,      // Of Y, of the outputs' squares, of z and of Z.
    Judge,
    Table,
    Pack
  } state_e;
  state_e     state_q;
  logic [3:0] step_q;
  logic       zs_q;          // The sums are z.
  place_t     place_q;
  logic [6:0] total_bits_q;

  assign ready_o = state_q == Take;
  wire takes = valid_i && ready_o && !clear_i;
  wire ends = takes && last_i;

  // ---- Scaled: the shift, then the clamp ----
  typedef struct packed {
    logic   valid;
    logic   z;
    place_t place;
  } side_t;
  side_t   side_q[4];
  wide_t   wide_q;
  output_t output_1_q, output_2_q;
  term_t   term_q, late_term_q, z_q[Groups];

  function automatic term_t clamped(wide_t wide);
    if (wide > wide_t'(TermLimit)) return TermLimit;
    if (wide < -wide_t'(TermLimit)) return -TermLimit;
    return term_t'(wide);
  endfunction

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) for (int unsigned i = 0; i < 4; i++) side_q[i] <= '0;
    else begin
      side_q[0] <= '{valid: takes, z: zs_q, place: place_q};
      for (int unsigned i = 1; i < 4; i++) side_q[i] <= clear_i ? '0 : side_q[i-1];
    end
  end

  // ---- Residuals ----
  product_t  product_q;
  residual_t residual_q;
  wire logic signed [TermBits+1:0] difference = (TermBits + 2)'(late_term_q) -
      (TermBits + 2)'(product_q >>> 24);

  function automatic residual_t limited(logic signed [TermBits+1:0] number);
    if (number > (TermBits + 2)'(ResidualLimit)) return ResidualLimit;
    if (number < -(TermBits + 2)'(ResidualLimit)) return -ResidualLimit;
    return residual_t'(number);
  endfunction

  always_ff @(posedge clk_i) begin
    wide_q <= wide_t'({sum_i, Headroom'(0)}) >>> (total_bits_q - 1'b1);
    output_1_q <= output_i;
    term_q <= clamped(wide_q);
    output_2_q <= output_1_q;
    if (side_q[1].valid && side_q[1].z) z_q[side_q[1].place] <= term_q;
    late_term_q <= term_q;
    product_q <= output_2_q * z_q[side_q[1].place];
    residual_q <= limited(difference);
  end

  // ---- Squares of a channel, and of all ----
  logic signed [ResidualBits+2:0]   sum_q;
  logic signed [2*ResidualBits+2:0] squares_q, whole_squares_q;
  logic        whole_q, squared_q;
  logic signed [2*ResidualBits+5:0] square_of_sum_q;
  logic [63:0] spread_q, size_q;
  product_t    output_square_q;
  logic        output_squared_q;
  wire residual_valid = side_q[3].valid && !side_q[3].z;
  wire first_residual = side_q[3].place == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      whole_q <= 1'b0;
      squared_q <= 1'b0;
      output_squared_q <= 1'b0;
    end else begin
      whole_q <= residual_valid && side_q[3].place == LastPlace && !clear_i;
      squared_q <= whole_q && !clear_i;
      output_squared_q <= side_q[1].valid && !side_q[1].z && side_q[1].place == '0 && !clear_i;
    end
  end
  always_ff @(posedge clk_i) begin
    if (residual_valid) begin
      sum_q <= (first_residual ? '0 : sum_q) + (ResidualBits + 3)'(residual_q);
      squares_q <= (first_residual ? '0 : squares_q) +
          (2 * ResidualBits + 3)'(residual_q) * (2 * ResidualBits + 3)'(residual_q);
    end
    whole_squares_q <= squares_q;
    square_of_sum_q <= (2 * ResidualBits + 6)'(sum_q) * (2 * ResidualBits + 6)'(sum_q);
    output_square_q <= product_t'(output_2_q) * product_t'(output_2_q);
    if (start_i) begin
      spread_q <= '0;
      size_q <= '0;
    end else begin
      if (squared_q) begin
        spread_q <= spread_q + 64'(whole_squares_q) * 64'(Groups) - 64'(square_of_sum_q);
      end
      if (output_squared_q) size_q <= size_q + 64'(output_square_q);
    end
  end

  // ---- Logarithms, one behind the other ----
  logic [63:0] number;
  logic [31:0] top;
  logic [6:0]  bits, whole_bits_q;
  logic [23:0] base_q;
  logic [17:0] slope_q;
  logic [15:0] rest_q;
  log_t        logs_q[4];
  always_comb begin
    unique case (step_q[1:0])
      2'd0: number = spread_q;
      2'd1: number = size_q;
      2'd2: number = 64'(sixteenths_i);
      default: number = total_i;
    endcase
    if (state_q == Scale) number = total_i;
  end
  nkv_top_bits u_top (
    .clk_i,
    .rst_ni,
    .valid_i (state_q inside {Scale, Logs}),
    .number_i(number),
    .top_o   (top),
    .bits_o  (bits)
  );
  wire [33:0] rise = slope_q * rest_q;
  wire log_t log = ((log_t'({1'b0, whole_bits_q}) - log_t'(1)) <<< FractionBits) +
      log_t'({1'b0, base_q}) + log_t'({1'b0, rise[33:16]});

  // ---- The bound ----
  wire log_t least = log_error_i - (log_t'(1) <<< FractionBits);
  wire log_t measured = ((logs_q[0] - logs_q[1]) >>> 1) + logs_q[2] - logs_q[3] +
      (log_t'(19) <<< FractionBits);
  logic        zero_q;
  logic [16:0] weight_base_q;
  logic [11:0] weight_slope_q;
  wire [21:0] weight_rise = weight_slope_q * log_bound_o[17:8];
  wire [16:0] mantissa = weight_base_q + 17'(weight_rise >> 10);

  always_ff @(posedge clk_i) begin
    base_q <= Log2Base[top[30:24]];
    slope_q <= Log2Slope[top[30:24]];
    rest_q <= top[23:8];
    whole_bits_q <= state_q == Logs && step_q == 4'(TopLatency + 3) ? 7'(TermBits - 1) : bits;
    unique case (state_q)
      Idle: begin
        zs_q <= 1'b1;
        place_q <= '0;
      end
      Scale: total_bits_q <= bits;
      Take: begin
        if (takes) begin
          place_q <= place_q == LastPlace ? '0 : place_q + 1'b1;
          if (place_q == LastPlace) zs_q <= 1'b0;
        end
      end
      Logs: if (step_q > 4'(TopLatency)) logs_q[2'(step_q - 4'(TopLatency + 1))] <= log;
      Judge: begin
        zero_q <= spread_q == '0;
        known_o <= total_i > 0 && (spread_q == '0 || size_q != '0);
        log_bound_o <= spread_q == '0 ? NoVariance : measured > least ? measured : least;
      end
      Table: begin
        weight_base_q <= Exp2Base[log_bound_o[23:18]];
        weight_slope_q <= Exp2Slope[log_bound_o[23:18]];
      end
      Pack: begin
        if (!known_o) bound_o <= 32'h7F80_0000;
        else if (zero_q) bound_o <= '0;
        else bound_o <= {1'b0, 8'(log_bound_o >>> FractionBits) + 8'd127, mantissa, 6'd0};
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      step_q <= '0;
      done_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= Idle;
      step_q <= '0;
      done_o <= 1'b0;
    end else begin
      done_o <= state_q == Pack;
      step_q <= step_q + 1'b1;
      unique case (state_q)
        Idle: begin
          step_q <= '0;
          if (start_i) state_q <= Scale;
        end
        Scale: if (step_q == 4'(TopLatency)) state_q <= Take;
        Take: begin
          step_q <= '0;
          if (ends) state_q <= Drain;
        end
        Drain: begin
          if (step_q == 4'd8) begin
            step_q <= '0;
            state_q <= Logs;
          end
        end
        Logs: if (step_q == 4'(TopLatency + 4)) state_q <= Judge;
        Judge: state_q <= Table;
        Table: state_q <= Pack;
        default: state_q <= Idle;
      endcase
    end
  end

  wire unused = ^{top[31], top[7:0], rise[15:0], weight_rise[9:0]};

endmodule
