// The running softmax sums of Rows query rows: z and acc of ARITHMETIC.md section 4. 32 channels of
// a value per cycle; the sums are exact: 64 bits of two's complement, of which acc needs 59.
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
// BOUNDED has eight sums a row (section 8) against one M: each word says which of them it is for, and whether
// its weight leaves z; a value to be subtracted comes negated. Passes go over all eight.
//
// There are two sets of sums. One grows; the other is read, in cycles in which the first does not write,
// 3 cycles after the read was taken. A swap lets them change places. After reset both are noise until
// a clear, which is for the set that grows. That set may be read too, while it stands still.

module nkv_value_sum
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::sample_group_t;
  import nkv_sample_pkg::Sums;
#(
  localparam int unsigned ChannelBits = $clog2(Channels)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  word_index_t            last_word_i,       // Of every token; held while not idle_o,
  input  logic                   grouped_i,         // as is this: all eight sums, else only sum 0.
  output logic                   ready_o,           // Takes a word, a raise or a clear.
  output logic                   idle_o,

  input  logic                   clear_i,           // Taken with ready_o, instead of a word.
  input  logic                   clear_groups_i,    // The same for sums 1 to 7; with grouped_i.
  input  logic                   swap_i,            // While idle_o.
  input  logic                   raise_valid_i,     // Taken with ready_o, instead of a word.
  input  logic [5:0]             raise_i[Rows],

  input  logic                   key_valid_i,       // A key's word comes: its factors end in zeros.
  input  logic                   word_valid_i,      // Taken with ready_o.
  input  word_index_t            word_index_i,      // From 0 on for each token.
  input  sample_group_t          word_sum_i,        // 0 unless grouped_i.
  input  logic                   word_subtract_i,   // The token's units, from z.
  input  weight_t                weight_i[Rows],    // The token's; 0 where it does not count.
  input  shift_t                 shift_i[Rows],     // At most LargestShift.
  input  units_t                 units_i[Rows],
  output factor_t                factor_o[Rows],
  input  product_t               product_i[Products],

  // Of the set aside: acc, or z, of a row's sum.
  input  logic                   read_valid_i,
  output logic                   read_ready_o,
  input  logic                   read_z_i,
  input  row_index_t             read_row_i,
  input  logic [ChannelBits-1:0] read_channel_i,
  input  sample_group_t          read_sum_i,
  output logic                   acc_valid_o,
  output sum_t                   acc_o,
  output sum_t                   z_o[Rows],         // Of sum 0, while no z is read.

  // Of the set that grows, while idle_o; always taken, before reads of the other. acc_o answers as well.
  input  logic                   growing_valid_i,
  input  logic                   growing_z_i,
  input  row_index_t             growing_row_i,
  input  logic [ChannelBits-1:0] growing_channel_i,
  input  sample_group_t          growing_sum_i
);

  localparam int unsigned LaneBits = $clog2(ExactLanes);
  localparam int unsigned TermBits = nkv_abi_pkg::ValueBits + nkv_abi_pkg::WeightBits;
  // Of a sum over a list, each of whose tokens counts at most twice, as itself and as its page's mean, and
  // which raises only make smaller. A page's rest adds no more than its means may take away again.
  localparam int unsigned KeptBits = TermBits + ListTokensLog2 + 1;
  localparam sample_group_t LastSum = sample_group_t'(Sums - 1);
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
  logic take, drained, pass_word_ends, pass_ends, passes_end, none_remains, clears_q;
  word_index_t pass_word_q;
  sample_group_t pass_sum_q;

  assign ready_o = state_q == Take;
  assign take = word_valid_i && ready_o;
  assign drained = valid_q == '0;
  assign idle_o = ready_o && drained && !take;
  assign pass_word_ends = pass_word_q == last_word_i;
  assign pass_ends = pass_word_ends && (!grouped_i || pass_sum_q == LastSum);
  assign passes_end = pass_ends && none_remains;

  always_comb begin
    none_remains = 1'b1;
    for (int unsigned i = 0; i < Rows; i++) none_remains &= remaining_q[i] == '0;
  end

  always_ff @(posedge clk_i) begin
    if (ready_o) begin
      clears_q <= clear_i || clear_groups_i;
      for (int unsigned i = 0; i < Rows; i++) begin
        remaining_q[i] <= clear_i || clear_groups_i ? '0 : raise_i[i];
      end
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
      pass_sum_q <= '0;
    end else begin
      valid_q <= {valid_q[Latency-2:0], take};
      unique case (state_q)
        Take: begin
          if (raise_valid_i || clear_i || clear_groups_i) state_q <= Drain;
          pass_sum_q <= sample_group_t'(clear_groups_i && !clear_i);
        end
        Drain: if (drained) state_q <= none_remains && !clears_q ? Take : Pass;
        Pass: begin
          pass_word_q <= pass_word_ends ? '0 : pass_word_q + 1'b1;
          if (pass_ends) pass_sum_q <= '0;
          else if (pass_word_ends) pass_sum_q <= pass_sum_q + 1'b1;
          if (passes_end) state_q <= Take;
        end
        default: state_q <= Take;
      endcase
    end
  end

  // ---- Factors of the multipliers, and what their products add ----------------------------------
  word_index_t index_q[Latency];
  sample_group_t sum_q[Latency];
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
    unique case (coarse)
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
      sum_q[0] <= word_sum_i;
    end else if (key_valid_i) begin
      for (int unsigned i = 0; i < Rows; i++) factor_o[i][QueryPlace-1:0] <= '0;
    end
    for (int unsigned i = 1; i < ProductLatency; i++) begin
      if (valid_q[i-1]) coarse_q[i] <= coarse_q[i-1];
    end
    for (int unsigned i = 1; i < Latency; i++) begin
      if (valid_q[i-1]) begin
        index_q[i] <= index_q[i-1];
        sum_q[i] <= sum_q[i-1];
      end
    end
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
    logic          bank;
    sample_group_t sum;
    word_index_t   word;
  } place_t;
  logic writes, bank_q;  // Where the set that grows stands.
  logic read_growing_q, read_is_z_q;
  sample_group_t read_sum_q;
  word_index_t read_word_q;
  place_t place;
  kept_t old[Products];

  assign writes = valid_q[Latency-1] || state_q == Pass;

  always_comb begin
    if (state_q == Pass) place = '{bank: bank_q, sum: pass_sum_q, word: pass_word_q};
    else if (valid_q[Latency-1]) begin
      place = '{bank: bank_q, sum: sum_q[Latency-1], word: index_q[Latency-1]};
    end else place = '{bank: bank_q ^ !read_growing_q, sum: read_sum_q, word: read_word_q};
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) bank_q <= 1'b0;
    else if (swap_i) bank_q <= !bank_q;
  end

  for (genvar row = 0; row < Rows; row++) begin : gen_row
    for (genvar lane = 0; lane < ExactLanes; lane++) begin : gen_lane
      (* ram_style = "distributed" *) kept_t cells[2*Sums*RowWords];
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

  // The set that grows is read where it is added to, the other beside it.
  logic [1:0] read_valid_q;
  wire adds_units = valid_q[0] && index_q[0] == '0;
  wire passes_units = state_q == Pass && pass_word_q == '0;
  sample_group_t growing_sum, aside_sum;
  sum_t growing_z[Rows];

  always_comb begin
    growing_sum = read_sum_q;
    if (state_q == Pass) growing_sum = pass_sum_q;
    else if (valid_q[0]) growing_sum = sum_q[0];
    aside_sum = read_valid_q[0] && read_is_z_q ? read_sum_q : '0;
  end

  for (genvar row = 0; row < Rows; row++) begin : gen_z
    (* ram_style = "distributed" *) sum_t cells[2*Sums];
    assign growing_z[row] = cells[{bank_q, growing_sum}];
    assign z_o[row] = cells[{!bank_q, aside_sum}];
    logic signed [UnitBits:0] more_q;
    always_ff @(posedge clk_i) begin
      if (take) more_q <= word_subtract_i ? -signed'({1'b0, units_i[row]}) : {1'b0, units_i[row]};
      if (adds_units || passes_units) begin
        cells[{bank_q, growing_sum}] <=
            passes_units ? stepped(growing_z[row], step_q[row]) : growing_z[row] + sum_t'(more_q);
      end
    end
  end

  // ---- Read-out: sixteen of the places, then the one --------------------------------------------
  localparam int unsigned Halves = 2 * Rows;
  logic [2:0] aside_valid_q;
  logic [$clog2(Halves)-1:0] read_half_q, selected_half_q;
  logic [LaneBits-2:0] read_lane_q;
  logic selected_is_z_q;
  kept_t selected_q[Halves];
  sum_t selected_z_q;

  // What is taken now reads in the next cycle, in which nothing may write.
  assign read_ready_o = ready_o && !valid_q[Latency-2] && !growing_valid_i;
  wire reads = read_valid_i && read_ready_o;
  wire row_index_t read_row = growing_valid_i ? growing_row_i : read_row_i;
  wire [ChannelBits-1:0] read_channel = growing_valid_i ? growing_channel_i : read_channel_i;
  wire row_index_t z_row = read_half_q[1+:RowIndexBits];

  always_ff @(posedge clk_i) begin
    if (reads || growing_valid_i) begin
      read_growing_q <= growing_valid_i;
      read_is_z_q <= growing_valid_i ? growing_z_i : read_z_i;
      read_sum_q <= growing_valid_i ? growing_sum_i : read_sum_i;
      read_word_q <= word_index_t'(read_channel >> LaneBits);
      read_half_q <= {read_row, read_channel[LaneBits-1]};
      read_lane_q <= read_channel[LaneBits-2:0];
    end
    if (read_valid_q[0]) begin
      for (int unsigned i = 0; i < Halves; i++) selected_q[i] <= old[{4'(i), read_lane_q}];
      selected_z_q <= read_growing_q ? growing_z[z_row] : z_o[z_row];
      selected_half_q <= read_half_q;
      selected_is_z_q <= read_is_z_q;
    end
    if (read_valid_q[1]) begin
      acc_o <= selected_is_z_q ? selected_z_q : sum_t'(selected_q[selected_half_q]);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_valid_q <= '0;
      aside_valid_q <= '0;
    end else begin
      read_valid_q <= {read_valid_q[0], reads || growing_valid_i};
      aside_valid_q <= {aside_valid_q[1:0], reads};
    end
  end

  assign acc_valid_o = aside_valid_q[2];

endmodule
