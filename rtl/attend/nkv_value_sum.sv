// The running softmax sums of Rows query rows: z and acc of ARITHMETIC.md section 4. 32 channels of
// a value per cycle; the sums are exact, in 64 bits of two's complement.
//
// A token comes as words, each with the token's weights. (w v) >> n is taken as
// (v (w << s)) >> (n + s), with s in 0..15 such that n + s is a multiple of 16: the multiplier does
// the fine part of the shift, and only one of four is left to choose afterwards.
//
// A raise by d (z and acc >>= d, per row) waits for the words before it and then passes over all
// words, shifting by 4 or by 1 in each pass; nothing is taken meanwhile: 7 cycles and at most 18
// passes. Sums are read while idle, 3 cycles after read_valid_i.

module nkv_value_sum
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  localparam int unsigned ChannelBits = $clog2(Channels)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  word_index_t            last_word_i,       // Of every token; held while not idle_o.
  input  logic                   clear_i,           // Sums to zero; only while idle_o. Once after reset.
  output logic                   ready_o,           // Takes a word or a raise.
  output logic                   idle_o,

  input  logic                   raise_valid_i,     // Taken with ready_o, instead of a word.
  input  logic [5:0]             raise_i[Rows],

  input  logic                   word_valid_i,      // Taken with ready_o.
  input  word_index_t            word_index_i,      // From 0 on for each token.
  input  value_t                 word_i[ExactLanes],
  input  weight_t                weight_i[Rows],    // The token's; 0 where it does not count.
  input  shift_t                 shift_i[Rows],     // At most LargestShift.
  input  units_t                 units_i[Rows],

  input  logic                   read_valid_i,      // Only while idle_o.
  input  row_index_t             read_row_i,
  input  logic [ChannelBits-1:0] read_channel_i,
  output logic                   acc_valid_o,
  output sum_t                   acc_o,
  output sum_t                   z_o[Rows]          // While idle_o.
);

  localparam int unsigned Products = Rows * ExactLanes;
  localparam int unsigned LaneBits = $clog2(ExactLanes);
  localparam int unsigned FineBits = 4;
  localparam int unsigned CoarseStep = 1 << FineBits;
  localparam int unsigned ScaledBits = nkv_abi_pkg::WeightBits + CoarseStep;  // With a sign, 0.
  localparam int unsigned ProductBits = nkv_abi_pkg::ValueBits + ScaledBits;
  localparam int unsigned TermBits = nkv_abi_pkg::ValueBits + nkv_abi_pkg::WeightBits;
  localparam int unsigned Latency = 5;  // Of a word, until it is in the sums.

  typedef logic [1:0] coarse_t;
  typedef logic signed [ScaledBits-1:0] scaled_t;
  typedef logic signed [ProductBits-1:0] product_t;
  typedef logic signed [TermBits-1:0] term_t;

  typedef enum logic [1:0] {
    Take,
    Drain,  // Until the words before a raise are in the sums.
    Raise
  } state_e;

  // How far one pass shifts a row's sums.
  typedef enum logic [1:0] {
    Stay,
    ByOne,
    ByFour
  } step_e;

  function automatic step_e step_of(logic [5:0] remaining);
    if (remaining >= 6'd4) return ByFour;
    return remaining == '0 ? Stay : ByOne;
  endfunction

  function automatic sum_t stepped(sum_t sum, step_e step);
    unique case (step)
      ByFour: return sum >>> 4;
      ByOne: return sum >>> 1;
      default: return sum;
    endcase
  endfunction

  // ---- Order -----------------------------------------------------------------------------------
  state_e state_q;
  logic [Latency-1:0] valid_q;     // [i]: i + 1 cycles after a word was taken.
  logic [5:0] remaining_q[Rows];   // Of a raise.
  step_e step_q[Rows];             // Of the pass that runs; Stay while none does.
  logic take, drained, pass_ends, raise_ends, none_remains;
  word_index_t pass_word_q;
  logic [RowWords-1:0] fresh_q;    // Words of which no token was added since the clear: zero.

  assign ready_o = state_q == Take;
  assign take = word_valid_i && ready_o;
  assign drained = valid_q == '0;
  assign idle_o = ready_o && drained && !take;
  assign pass_ends = pass_word_q == last_word_i;
  assign raise_ends = pass_ends && none_remains;

  always_comb begin
    none_remains = 1'b1;
    for (int unsigned i = 0; i < Rows; i++) none_remains &= remaining_q[i] == '0;
  end

  always_ff @(posedge clk_i) begin
    if (ready_o && raise_valid_i) remaining_q <= raise_i;
    if ((state_q == Drain && drained) || (state_q == Raise && pass_ends)) begin
      for (int unsigned i = 0; i < Rows; i++) begin
        automatic step_e step = step_of(remaining_q[i]);
        step_q[i] <= step;
        remaining_q[i] <= remaining_q[i] - (step == ByFour ? 6'd4 : 6'(step == ByOne));
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Take;
      valid_q <= '0;
      pass_word_q <= '0;
    end else begin
      valid_q <= {valid_q[Latency-2:0], take};
      unique case (state_q)
        Take: if (raise_valid_i) state_q <= Drain;
        Drain: if (drained) state_q <= none_remains ? Take : Raise;
        Raise: begin
          pass_word_q <= pass_ends ? '0 : pass_word_q + 1'b1;
          if (raise_ends) state_q <= Take;
        end
        default: state_q <= Take;
      endcase
    end
  end

  // ---- Products ----------------------------------------------------------------------------------
  word_index_t index_q[Latency];
  value_t value_q[ExactLanes];
  value_t operand_q[ExactLanes];
  scaled_t scaled_q[Rows];
  scaled_t factor_q[Rows];
  coarse_t scaled_coarse_q[Rows];
  coarse_t factor_coarse_q[Rows];
  coarse_t multiplied_coarse_q[Rows];
  coarse_t product_coarse_q[Rows];
  product_t multiplied_q[Products];  // [row * ExactLanes + lane]
  product_t product_q[Products];
  term_t term_q[Products];

  always_ff @(posedge clk_i) begin
    if (take) begin
      value_q <= word_i;
      for (int unsigned i = 0; i < Rows; i++) begin
        scaled_q[i] <= scaled_t'(weight_i[i]) << FineBits'(-shift_i[i]);
        scaled_coarse_q[i] <= coarse_t'((7'(shift_i[i]) + 7'(CoarseStep - 1)) >> FineBits);
      end
    end
    if (valid_q[0]) begin
      operand_q <= value_q;
      factor_q <= scaled_q;
      factor_coarse_q <= scaled_coarse_q;
    end
    if (valid_q[1]) begin
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          multiplied_q[row*ExactLanes+i] <= operand_q[i] * factor_q[row];
        end
      end
      multiplied_coarse_q <= factor_coarse_q;
    end
    // The multipliers' own output registers.
    if (valid_q[2]) begin
      product_q <= multiplied_q;
      product_coarse_q <= multiplied_coarse_q;
    end
    if (valid_q[3]) begin
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          term_q[row*ExactLanes+i] <=
              term_t'(product_q[row*ExactLanes+i] >>> {product_coarse_q[row], FineBits'(0)});
        end
      end
    end else if (state_q == Drain) begin
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) term_q[row*ExactLanes+i] <= '0;
      end
    end
    if (take) index_q[0] <= word_index_i;
    for (int unsigned i = 1; i < Latency; i++) if (valid_q[i-1]) index_q[i] <= index_q[i-1];
  end

  // ---- Sums --------------------------------------------------------------------------------------
  // One cycle reads, shifts, adds and writes, so that the same word may come in every cycle.
  logic writes;
  word_index_t place, read_word_q;
  sum_t old[Products];

  assign writes = valid_q[Latency-1] || state_q == Raise;

  always_comb begin
    if (state_q == Raise) place = pass_word_q;
    else place = valid_q[Latency-1] ? index_q[Latency-1] : read_word_q;
  end

  for (genvar row = 0; row < Rows; row++) begin : gen_row
    for (genvar lane = 0; lane < ExactLanes; lane++) begin : gen_lane
      sum_t cells[RowWords];
      assign old[row*ExactLanes+lane] = fresh_q[place] ? '0 : cells[place];
      always_ff @(posedge clk_i) begin
        if (writes) begin
          cells[place] <= stepped(old[row*ExactLanes+lane], step_q[row]) +
                          sum_t'(term_q[row*ExactLanes+lane]);
        end
      end
    end
  end

  sum_t z_q[Rows];

  always_ff @(posedge clk_i) begin
    if (clear_i) begin
      for (int unsigned i = 0; i < Rows; i++) z_q[i] <= '0;
    end else if (take && word_index_i == '0) begin
      for (int unsigned i = 0; i < Rows; i++) z_q[i] <= z_q[i] + sum_t'(units_i[i]);
    end else if (state_q == Raise && pass_word_q == '0) begin
      for (int unsigned i = 0; i < Rows; i++) z_q[i] <= stepped(z_q[i], step_q[i]);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) fresh_q <= '1;
    else if (clear_i) fresh_q <= '1;
    else if (writes) fresh_q[place] <= 1'b0;
  end

  assign z_o = z_q;

  // ---- Read-out: sixteen of the places, then the one ------------------------------------------------
  localparam int unsigned Halves = 2 * Rows;
  logic [2:0] read_valid_q;
  logic [$clog2(Halves)-1:0] read_half_q, selected_half_q;
  logic [LaneBits-2:0] read_lane_q;
  sum_t selected_q[Halves];

  always_ff @(posedge clk_i) begin
    if (read_valid_i) begin
      read_word_q <= word_index_t'(read_channel_i >> LaneBits);
      read_half_q <= {read_row_i, read_channel_i[LaneBits-1]};
      read_lane_q <= read_channel_i[LaneBits-2:0];
    end
    if (read_valid_q[0]) begin
      for (int unsigned i = 0; i < Halves; i++) selected_q[i] <= old[{4'(i), read_lane_q}];
      selected_half_q <= read_half_q;
    end
    if (read_valid_q[1]) acc_o <= selected_q[selected_half_q];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) read_valid_q <= '0;
    else read_valid_q <= {read_valid_q[1:0], read_valid_i};
  end

  assign acc_valid_o = read_valid_q[2];

endmodule
