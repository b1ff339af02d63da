// The running softmax sums of Rows query rows: z and acc of ARITHMETIC.md section 4. 32 channels of
// a value per cycle; the sums are exact: 64 bits of two's complement, of which acc needs 63.
//
// A token comes as words, each with the token's weights; the value itself goes to the multipliers,
// whose right factors leave here a cycle after the word and whose products come back 5 cycles after
// it. (w v) >> n is taken as (v (w << s)) >> (n + s), with s in 0..16 such that n + s is 16, 32 or
// 48: the multiplier does the fine part of the shift.
//
// A raise by d (z and acc >>= d, per row) and a clear wait for the words before them and then pass
// over all words, a raise shifting by 4 or by 1 in each pass; nothing is taken meanwhile: 9 cycles
// and at most 18 passes.
//
// There are two sets of sums. One grows; the other is read, in cycles in which the first does not write,
// 3 cycles after the read was taken. A swap lets them change places. After reset both are noise until
// a clear, which is for the set that grows.

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
  output logic                   ready_o,           // Takes a word, a raise or a clear.
  output logic                   idle_o,

  input  logic                   clear_i,           // Taken with ready_o, instead of a word.
  input  logic                   swap_i,            // While idle_o.
  input  logic                   raise_valid_i,     // Taken with ready_o, instead of a word.
  input  logic [5:0]             raise_i[Rows],

  input  logic                   key_valid_i,       // A key's word comes: its factors end in zeros.
  input  logic                   word_valid_i,      // Taken with ready_o.
  input  word_index_t            word_index_i,      // From 0 on for each token.
  input  weight_t                weight_i[Rows],    // The token's; 0 where it does not count.
  input  shift_t                 shift_i[Rows],     // At most LargestShift.
  input  units_t                 units_i[Rows],
  output factor_t                factor_o[Rows],
  input  product_t               product_i[Products],

  // Of the set aside.
  input  logic                   read_valid_i,
  output logic                   read_ready_o,
  input  row_index_t             read_row_i,
  input  logic [ChannelBits-1:0] read_channel_i,
  output logic                   acc_valid_o,
  output sum_t                   acc_o,
  output sum_t                   z_o[Rows]
);

  localparam int unsigned LaneBits = $clog2(ExactLanes);
  localparam int unsigned TermBits = nkv_abi_pkg::ValueBits + nkv_abi_pkg::WeightBits;
  // Of a sum over a list, each of whose tokens counts once, and which raises only make smaller.
  localparam int unsigned KeptBits = TermBits + ListTokensLog2;
  localparam int unsigned CoarseStep = 16;
  localparam int unsigned ProductLatency = 6;
  localparam int unsigned Latency = 7;  // Of a word, until it is in the sums.

  typedef logic [1:0] coarse_t;         // (n + s) / CoarseStep
  typedef logic signed [TermBits-1:0] term_t;
  typedef logic signed [KeptBits-1:0] kept_t;

  typedef enum logic [1:0] {
    Take,
    Drain,  // Until the words before a raise or a clear are in the sums.
    Pass
  } state_e;

  // What one pass does to a row's sums.
  typedef enum logic [1:0] {
    Stay,
    ByOne,
    ByFour,
    Zero
  } step_e;

  function automatic step_e step_of(logic [5:0] remaining);
    if (remaining >= 6'd4) return ByFour;
    return remaining == '0 ? Stay : ByOne;
  endfunction

  function automatic sum_t stepped(sum_t sum, step_e step);
    unique case (step)
      ByFour: return sum >>> 4;
      ByOne: return sum >>> 1;
      Zero: return '0;
      default: return sum;
    endcase
  endfunction

  // ---- Order ------------------------------------------------------------------------------------
  state_e state_q;
  logic [Latency-1:0] valid_q;     // [i]: i + 1 cycles after a word was taken.
  logic [5:0] remaining_q[Rows];   // Of a raise.
  step_e step_q[Rows];             // Of the pass that runs; Stay while words are taken.
  logic take, drained, pass_ends, passes_end, none_remains, clears_q;
  word_index_t pass_word_q;

  assign ready_o = state_q == Take;
  assign take = word_valid_i && ready_o;
  assign drained = valid_q == '0;
  assign idle_o = ready_o && drained && !take;
  assign pass_ends = pass_word_q == last_word_i;
  assign passes_end = pass_ends && none_remains;

  always_comb begin
    none_remains = 1'b1;
    for (int unsigned i = 0; i < Rows; i++) none_remains &= remaining_q[i] == '0;
  end

  always_ff @(posedge clk_i) begin
    if (ready_o) begin
      clears_q <= clear_i;
      for (int unsigned i = 0; i < Rows; i++) remaining_q[i] <= clear_i ? '0 : raise_i[i];
    end
    if ((state_q == Drain && drained) || (state_q == Pass && pass_ends)) begin
      for (int unsigned i = 0; i < Rows; i++) begin
        automatic step_e step = step_of(remaining_q[i]);
        step_q[i] <= clears_q && state_q == Drain ? Zero : step;
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
        Take: if (raise_valid_i || clear_i) state_q <= Drain;
        Drain: if (drained) state_q <= none_remains && !clears_q ? Take : Pass;
        Pass: begin
          pass_word_q <= pass_ends ? '0 : pass_word_q + 1'b1;
          if (passes_end) state_q <= Take;
        end
        default: state_q <= Take;
      endcase
    end
  end

  // ---- Factors of the multipliers, and what their products add ----------------------------------
  word_index_t index_q[Latency];
  coarse_t coarse_q[ProductLatency][Rows];
  term_t term_q[Products];

  function automatic coarse_t coarse_of(shift_t shift);
    return shift == '0 ? 2'd1 : 2'((7'(shift) + 7'(CoarseStep - 1)) / 7'(CoarseStep));
  endfunction

  // s, 0 to 16, without waiting for (n + s) / CoarseStep.
  function automatic logic [4:0] fine_of(shift_t shift);
    return {shift == '0, -shift[3:0]};
  endfunction

  function automatic term_t term_of(product_t product, coarse_t coarse);
    case (coarse)
      2'd3: return term_t'(product >>> (3 * CoarseStep));
      2'd2: return term_t'(product >>> (2 * CoarseStep));
      default: return term_t'(product >>> CoarseStep);
    endcase
  endfunction

  always_ff @(posedge clk_i) begin
    if (take) begin
      for (int unsigned i = 0; i < Rows; i++) begin
        factor_o[i] <= factor_t'(weight_i[i]) << fine_of(shift_i[i]);
        coarse_q[0][i] <= coarse_of(shift_i[i]);
      end
      index_q[0] <= word_index_i;
    end else if (key_valid_i) begin
      for (int unsigned i = 0; i < Rows; i++) factor_o[i][QueryPlace-1:0] <= '0;
    end
    for (int unsigned i = 1; i < ProductLatency; i++) begin
      if (valid_q[i-1]) coarse_q[i] <= coarse_q[i-1];
    end
    for (int unsigned i = 1; i < Latency; i++) if (valid_q[i-1]) index_q[i] <= index_q[i-1];
    if (valid_q[ProductLatency-1]) begin
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) begin
          term_q[row*ExactLanes+i] <= term_of(product_i[row*ExactLanes+i],
                                              coarse_q[ProductLatency-1][row]);
        end
      end
    end else if (state_q == Drain) begin
      for (int unsigned row = 0; row < Rows; row++) begin
        for (int unsigned i = 0; i < ExactLanes; i++) term_q[row*ExactLanes+i] <= '0;
      end
    end
  end

  // ---- Sums -------------------------------------------------------------------------------------
  // One cycle reads, shifts, adds and writes, so that the same word may come in every cycle.
  typedef struct packed {
    logic        bank;
    word_index_t word;
  } place_t;
  logic writes, bank_q;  // Where the set that grows stands.
  word_index_t read_word_q;
  place_t place;
  kept_t old[Products];

  assign writes = valid_q[Latency-1] || state_q == Pass;

  always_comb begin
    if (state_q == Pass) place = '{bank: bank_q, word: pass_word_q};
    else if (valid_q[Latency-1]) place = '{bank: bank_q, word: index_q[Latency-1]};
    else place = '{bank: !bank_q, word: read_word_q};
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) bank_q <= 1'b0;
    else if (swap_i) bank_q <= !bank_q;
  end

  for (genvar row = 0; row < Rows; row++) begin : gen_row
    for (genvar lane = 0; lane < ExactLanes; lane++) begin : gen_lane
      (* ram_style = "distributed" *) kept_t cells[2*RowWords];
      assign old[row*ExactLanes+lane] = cells[place];
      // The term first: as the carry's plain operand it leaves the shift to the LUT of the sum.
      always_ff @(posedge clk_i) begin
        if (writes) begin
          cells[place] <= kept_t'(term_q[row*ExactLanes+lane]) +
                          kept_t'(stepped(sum_t'(old[row*ExactLanes+lane]), step_q[row]));
        end
      end
    end
  end

  wire adds_units = valid_q[0] && index_q[0] == '0;
  wire passes_units = state_q == Pass && pass_word_q == '0;

  for (genvar row = 0; row < Rows; row++) begin : gen_z
    sum_t cells[2];
    wire sum_t growing = cells[bank_q];
    assign z_o[row] = cells[!bank_q];
    units_t more_q;
    always_ff @(posedge clk_i) begin
      if (take) more_q <= units_i[row];
      if (adds_units || passes_units) begin
        cells[bank_q] <= passes_units ? stepped(growing, step_q[row]) : growing + sum_t'({1'b0, more_q});
      end
    end
  end

  // ---- Read-out: sixteen of the places, then the one --------------------------------------------
  localparam int unsigned Halves = 2 * Rows;
  logic [2:0] read_valid_q;
  logic [$clog2(Halves)-1:0] read_half_q, selected_half_q;
  logic [LaneBits-2:0] read_lane_q;
  kept_t selected_q[Halves];

  // What is taken now reads in the next cycle, in which nothing may write.
  assign read_ready_o = ready_o && !valid_q[Latency-2];
  wire reads = read_valid_i && read_ready_o;

  always_ff @(posedge clk_i) begin
    if (reads) begin
      read_word_q <= word_index_t'(read_channel_i >> LaneBits);
      read_half_q <= {read_row_i, read_channel_i[LaneBits-1]};
      read_lane_q <= read_channel_i[LaneBits-2:0];
    end
    if (read_valid_q[0]) begin
      for (int unsigned i = 0; i < Halves; i++) selected_q[i] <= old[{4'(i), read_lane_q}];
      selected_half_q <= read_half_q;
    end
    if (read_valid_q[1]) acc_o <= sum_t'(selected_q[selected_half_q]);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) read_valid_q <= '0;
    else read_valid_q <= {read_valid_q[1:0], reads};
  end

  assign acc_valid_o = read_valid_q[2];

endmodule
