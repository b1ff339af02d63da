// The mean value of a page's tokens that are not read (ARITHMETIC.md 7.4): takes the page's exact
// values as they pass, then the bursts of its V_SUM, and gives words like those of a value.
//
// A burst per cycle, a word from every two of them, 6 cycles after the second. Words of two pages are
// kept, in banks.

module nkv_tail_mean
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  logic        begin_i,               // A page; none of its words or bursts come with it.
  input  logic [6:0]  tokens_i,              // r, at least 1; held with the next two until its last word.
  input  exponent_t   list_exponent_i,       // Ev
  input  exponent_t   page_exponent_i,       // Not above it.
  input  dim_t        value_dim_i,

  input  logic        exact_valid_i,         // Words of its exact values.
  input  word_index_t exact_index_i,
  input  key_t        exact_i[ExactLanes],

  input  logic        sum_valid_i,           // Bursts of V_SUM, once those have passed;
  output logic        sum_ready_o,           // not after the page's last.
  input  burst_t      sum_i,

  input  logic        bank_i,                // Where the page's words go; held like the others.
  output logic [WordBits:0] words_o,         // Words of the page that are complete.
  input  logic        read_bank_i,
  input  word_index_t read_i,
  output key_t        word_o[ExactLanes]     // A cycle after its index.
);

  localparam int unsigned Lanes = BurstBits / 32;
  localparam int unsigned Halves = ExactLanes / Lanes;
  localparam int unsigned ExactBits = ValueBits + $clog2(PageTokens);
  localparam int unsigned RestBits = 33;
  localparam int unsigned ReciprocalBits = 17;
  localparam int unsigned Latency = 5;
  localparam logic signed [ValueBits-1:0] Limit = {1'b0, {(ValueBits - 1) {1'b1}}};
  typedef logic signed [ExactBits-1:0] exact_sum_t;
  typedef logic signed [RestBits-1:0] rest_t;
  typedef logic [ReciprocalBits-1:0] reciprocal_t;

  // round(2^16 / r)
  function automatic reciprocal_t reciprocal_of(logic [6:0] tokens);
    for (int unsigned r = 1; r <= PageTokens; r++) begin
      if (tokens == 7'(r)) return reciprocal_t'(((1 << 17) / r + 1) / 2);
    end
    return '0;
  endfunction

  // ---- Sums of the exact values ----
  logic [RowWords-1:0] any_q;               // Words that have a sum.
  wire exact_any = any_q[exact_index_i];
  logic [WordBits:0] burst_q;               // Of V_SUM, counted.
  wire word_index_t sum_word = word_index_t'(burst_q >> $clog2(Halves));
  wire sum_half = burst_q[0];
  exact_sum_t exact_sum[ExactLanes];

  for (genvar i = 0; i < int'(ExactLanes); i++) begin : g_exact
    exact_sum_t sums[RowWords];
    always_ff @(posedge clk_i) begin
      if (exact_valid_i) begin
        sums[exact_index_i] <= exact_sum_t'(exact_i[i]) + (exact_any ? sums[exact_index_i] : '0);
      end
    end
    assign exact_sum[i] = any_q[sum_word] ? sums[sum_word] : '0;
  end

  // ---- Bursts ----
  logic [WordBits:0] bursts_left_q;
  wire [WordBits:0] bursts = (WordBits + 1)'((value_dim_i - 1'b1) >> $clog2(Lanes));
  wire last_burst = bursts_left_q == '0;
  logic came_q;                             // All of them.
  wire sum_taken = sum_valid_i && sum_ready_o;
  assign sum_ready_o = !came_q;
  logic [Latency-1:0] valid_q;              // [i]: i + 1 cycles after a burst.
  logic [Latency-1:0] half_q;
  reciprocal_t        reciprocal_q;
  logic [4:0]         shift_q;
  logic signed [31:0] stored_q[Lanes];
  exact_sum_t         exact_q[Lanes];
  rest_t              rest_q[Lanes];
  logic signed [RestBits+ReciprocalBits:0] multiplied_q[Lanes], product_q[Lanes];
  logic signed [ValueBits-1:0] mean_q[Lanes];
  word_index_t        word_of_q[Latency];

  wire [8:0] distance = 9'(list_exponent_i) - 9'(page_exponent_i);

  always_ff @(posedge clk_i) begin
    if (begin_i) begin
      reciprocal_q <= reciprocal_of(tokens_i);
      shift_q <= distance[8] ? '0 : distance[7:5] != '0 ? '1 : distance[4:0];
    end
    if (sum_taken) begin
      for (int unsigned i = 0; i < Lanes; i++) begin
        stored_q[i] <= signed'(sum_i[32*i+:32]) >>> shift_q;
        exact_q[i] <= exact_sum[{sum_half, 4'(i)}];
      end
    end
    if (valid_q[0]) begin
      for (int unsigned i = 0; i < Lanes; i++) rest_q[i] <= rest_t'(stored_q[i]) - rest_t'(exact_q[i]);
    end
    if (valid_q[1]) begin
      for (int unsigned i = 0; i < Lanes; i++) multiplied_q[i] <= rest_q[i] * signed'({1'b0, reciprocal_q});
    end
    if (valid_q[2]) product_q <= multiplied_q;
    if (valid_q[3]) begin
      for (int unsigned i = 0; i < Lanes; i++) begin
        automatic logic signed [RestBits+ReciprocalBits-16:0] mean =
            product_q[i][RestBits+ReciprocalBits:16];
        if (mean > 35'(Limit)) mean_q[i] <= Limit;
        else if (mean < -35'(Limit)) mean_q[i] <= -Limit;
        else mean_q[i] <= mean[ValueBits-1:0];
      end
    end
    word_of_q[0] <= sum_word;
    for (int unsigned i = 1; i < Latency; i++) word_of_q[i] <= word_of_q[i-1];
  end

  // ---- Words ----
  // The last word of an odd number of bursts is complete with its first half.
  logic [Latency-1:0] last_q;

  for (genvar h = 0; h < int'(Halves); h++) begin : g_half
    for (genvar i = 0; i < int'(Lanes); i++) begin : g_lane
      logic signed [ValueBits-1:0] means[2*RowWords], read_q;
      // What a last word does not have is zero.
      wire writes = valid_q[Latency-1] && (half_q[Latency-1] == 1'(h) || h == 1);
      always_ff @(posedge clk_i) begin
        if (writes) begin
          means[{bank_i, word_of_q[Latency-1]}] <= half_q[Latency-1] == 1'(h) ? mean_q[i] : '0;
        end
        read_q <= means[{read_bank_i, read_i}];
      end
      assign word_o[h*int'(Lanes)+i] = key_t'(read_q);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      any_q <= '0;
      burst_q <= '0;
      bursts_left_q <= '0;
      came_q <= 1'b0;
      valid_q <= '0;
      half_q <= '0;
      last_q <= '0;
      words_o <= '0;
    end else if (clear_i || begin_i) begin
      any_q <= '0;
      burst_q <= '0;
      bursts_left_q <= bursts;
      came_q <= 1'b0;
      valid_q <= '0;
      words_o <= '0;
    end else begin
      if (exact_valid_i) any_q[exact_index_i] <= 1'b1;
      if (sum_taken) begin
        burst_q <= burst_q + 1'b1;
        bursts_left_q <= bursts_left_q - 1'b1;
        came_q <= last_burst;
      end
      valid_q <= {valid_q[Latency-2:0], sum_taken};
      half_q <= {half_q[Latency-2:0], sum_half};
      last_q <= {last_q[Latency-2:0], last_burst};
      if (valid_q[Latency-1] && (half_q[Latency-1] || last_q[Latency-1])) words_o <= words_o + 1'b1;
    end
  end

endmodule
