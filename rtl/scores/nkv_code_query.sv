// Query rows before codes: ARITHMETIC.md 12.1, with the scale of a search (14.2). A word per cycle; the
// words of a row follow each other without a gap, and leave so, scaled to the row's largest one. What
// is said of a row comes Behind cycles after its last word has left.

module nkv_code_query
  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_codes_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  dim_t         dim_i,              // Channels of a row. Held, as is T.
  input  search_top_t  top_i,              // T
  input  logic         valid_i,
  input  word_index_t  index_i,
  input  exponent_t    exponent_i,         // Eq, held over the row's words.
  input  query_t       query_i[ExactLanes],  // Zero beyond the row's end.
  input  octaves_t     gain_i[ExactLanes],

  output logic         valid_o,
  output word_index_t  index_o,
  output query_t       scaled_o[ExactLanes],
  output logic         row_valid_o,        // For one cycle per row, in their order.
  output code_row_t    row_o
);

  localparam int unsigned Lanes = ExactLanes;
  localparam int unsigned MagnitudeBits = QueryBits - 1;
  localparam int unsigned GainedBits = MagnitudeBits + 12;
  localparam int unsigned OctaveBits = 5;                   // Of minus a gain: -8 to 8.
  localparam int unsigned TopBits = 7;                      // bits(y) + o: -7 to 43.
  localparam int unsigned EnergyBits = 2 * MagnitudeBits + $clog2(Channels);
  localparam int unsigned LogBits = 10;                     // Of an energy, in sixteenths.
  // Kappa is X + Eq - 183 + u, u = s - 23.
  localparam int unsigned PowerOffset = 206;
  // Lambda's constant, and 2 * lg of C = 2^23 in sixteenths.
  localparam int unsigned VarianceOffset = 59 + 2 * 16 * 23;
  localparam int unsigned SearchVariance = 176;
  typedef logic [MagnitudeBits-1:0] magnitude_t;
  typedef logic [GainedBits-1:0] gained_t;
  typedef logic signed [OctaveBits-1:0] octave_t;
  typedef logic signed [TopBits-1:0] row_top_t;

  wire word_index_t last_index = word_index_t'((dim_i - 1'b1) >> $clog2(Lanes));

  // ---- Elements less their gain: y, o, and what they reach ----
  typedef struct packed {
    logic    negative;
    octave_t octave;
    gained_t gained;
  } lane_t;
  lane_t [Lanes-1:0] gained_q;
  row_top_t reach_q[Lanes];
  logic [Lanes-1:0] any_q;
  for (genvar l = 0; l < Lanes; l++) begin : gen_lanes
    wire logic signed [8:0] minus_gain = -9'(gain_i[l]);
    magnitude_t  magnitude_q;
    logic [11:0] octave_of_q;
    octave_t     octave_q;
    logic        negative_q;
    row_top_t    bits;
    always_comb begin
      bits = '0;
      for (int unsigned i = 0; i < GainedBits; i++) begin
        if (gained_q[l].gained[i]) bits = row_top_t'(i + 1);
      end
    end
    always_ff @(posedge clk_i) begin
      magnitude_q <= magnitude_t'(query_i[l][QueryBits-1] ? -query_i[l] : query_i[l]);
      negative_q <= query_i[l][QueryBits-1];
      octave_of_q <= octave(minus_gain[3:0]);
      octave_q <= octave_t'(minus_gain >>> 4);
      gained_q[l] <= '{
          negative: negative_q,
          octave: octave_q,
          gained: gained_t'(magnitude_q) * gained_t'(octave_of_q)
      };
      reach_q[l] <= bits + row_top_t'(gained_q[l].octave);
      any_q[l] <= gained_q[l].gained != '0;
    end
  end

  // ---- The largest of a row, by fours ----
  localparam int unsigned Fours = Lanes / 4;
  row_top_t four_q[Fours], word_q, word, row_q;
  logic [Fours-1:0] four_any_q;
  logic word_any_q, row_any_q, known_valid_q;
  row_top_t four[Fours];
  always_comb begin
    for (int unsigned f = 0; f < Fours; f++) begin
      four[f] = row_top_t'(-(1 << (TopBits - 1)));
      for (int unsigned i = 4 * f; i < 4 * f + 4; i++) begin
        if (any_q[i] && reach_q[i] > four[f]) four[f] = reach_q[i];
      end
    end
    word = four_q[0];
    for (int unsigned f = 1; f < Fours; f++) if (four_q[f] > word) word = four_q[f];
  end
  always_ff @(posedge clk_i) begin
    four_q <= four;
    for (int unsigned f = 0; f < Fours; f++) four_any_q[f] <= any_q[4*f+:4] != '0;
    word_q <= word;
    word_any_q <= four_any_q != '0;
  end

  localparam int unsigned TopLatency = 5;       // From a word to what it reaches.
  logic [TopLatency-1:0] valid_q;
  word_index_t index_late;
  exponent_t   exponent_late, exponent_q;
  nkv_delay #(
    .Width($bits(word_index_t) + $bits(exponent_t)),
    .Cycles(TopLatency)
  ) u_late (
    .clk_i,
    .data_i({index_i, exponent_i}),
    .data_o({index_late, exponent_late})
  );
  always_ff @(posedge clk_i) begin
    if (valid_q[TopLatency-1]) begin
      row_q <= index_late == '0 || word_q > row_q ? word_q : row_q;
      row_any_q <= word_any_q || (row_any_q && index_late != '0);
      exponent_q <= exponent_late;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {valid_q, known_valid_q} <= '0;
    else if (clear_i) {valid_q, known_valid_q} <= '0;
    else begin
      valid_q <= {valid_q[TopLatency-2:0], valid_i};
      known_valid_q <= valid_q[TopLatency-1] && index_late == last_index;
    end
  end

  // ---- The row's words again, scaled to it ----
  typedef struct packed {
    logic      any;
    exponent_t exponent;
    row_top_t  top;
  } known_t;
  lane_t [Lanes-1:0] held;
  logic        held_valid;
  word_index_t held_index;
  known_t      held_row;
  nkv_code_hold #(
    .Width($bits(held)),
    .Depth(16),
    .KnownBits($bits(known_t))
  ) u_hold (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i      (valid_q[1]),
    .word_i       (gained_q),
    .last_index_i (last_index),
    .known_valid_i(known_valid_q),
    .known_i      ({row_any_q, exponent_q, row_q}),
    .valid_o      (held_valid),
    .index_o      (held_index),
    .word_o       (held),
    .known_o      (held_row)
  );

  // y * 2^(o - X + 23): X - o is at least the bits of y.
  localparam int unsigned Ahead = MagnitudeBits - 1;
  localparam int unsigned ScaleLatency = 2;
  magnitude_t scaled[Lanes];
  for (genvar l = 0; l < Lanes; l++) begin : gen_scale
    logic [TopBits-1:0]          down;
    logic [2:0]                  fine_q;
    logic [MagnitudeBits+6:0]    near_q;
    magnitude_t                  scaled_q;
    logic                        negative_q, negative_late_q;
    assign down = TopBits'(held_row.top) - TopBits'(held[l].octave) - 1'b1;
    always_ff @(posedge clk_i) begin
      near_q <= (MagnitudeBits + 7)'({held[l].gained, Ahead'(0)} >> {down[TopBits-1:3], 3'd0});
      fine_q <= down[2:0];
      scaled_q <= magnitude_t'(near_q >> fine_q);
      negative_q <= held[l].negative;
      negative_late_q <= negative_q;
    end
    assign scaled[l] = scaled_q;
    assign scaled_o[l] = negative_late_q ? -query_t'({1'b0, scaled_q}) : query_t'({1'b0, scaled_q});
  end

  logic [ScaleLatency-1:0] scaled_valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) scaled_valid_q <= '0;
    else if (clear_i) scaled_valid_q <= '0;
    else scaled_valid_q <= {scaled_valid_q[ScaleLatency-2:0], held_valid};
  end
  known_t scaled_row;
  nkv_delay #(
    .Width($bits(word_index_t) + $bits(known_t)),
    .Cycles(ScaleLatency)
  ) u_scaled (
    .clk_i,
    .data_i({held_index, held_row}),
    .data_o({index_o, scaled_row})
  );
  assign valid_o = scaled_valid_q[ScaleLatency-1];

  // ---- The row's energy, its logarithm in sixteenths, truncated ----
  localparam int unsigned SumLatency = $clog2(Lanes) + 1;
  localparam int unsigned TopsLatency = 5;
  localparam int unsigned Behind = 1 + SumLatency + 1 + TopsLatency + 2;
  logic [2*MagnitudeBits-1:0] square_q[Lanes];
  logic        square_valid_q, sum_valid;
  word_index_t square_index_q;
  logic [EnergyBits-1:0] energy, energy_q;
  logic [31:0] tops;
  logic [6:0]  bits;
  for (genvar l = 0; l < Lanes; l++) begin : gen_squares
    always_ff @(posedge clk_i) begin
      square_q[l] <= (2 * MagnitudeBits)'(scaled[l]) * (2 * MagnitudeBits)'(scaled[l]);
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) square_valid_q <= 1'b0;
    else if (clear_i) square_valid_q <= 1'b0;
    else square_valid_q <= valid_o;
  end
  always_ff @(posedge clk_i) square_index_q <= index_o;
  nkv_code_sum #(
    .Lanes(Lanes),
    .Bits(2 * MagnitudeBits),
    .SumBits(EnergyBits)
  ) u_energy (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i (square_valid_q),
    .first_i (square_index_q == '0),
    .last_i  (square_index_q == last_index),
    .number_i(square_q),
    .valid_o (sum_valid),
    .sum_o   (energy)
  );
  always_ff @(posedge clk_i) energy_q <= energy;
  logic sum_valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) sum_valid_q <= 1'b0;
    else if (clear_i) sum_valid_q <= 1'b0;
    else sum_valid_q <= sum_valid;
  end
  nkv_top_bits u_tops (
    .clk_i,
    .rst_ni,
    .valid_i (sum_valid_q),
    .number_i(64'(energy_q)),
    .top_o   (tops),
    .bits_o  (bits)
  );

  // log2 as in 4.1, of which the four leading fraction bits count.
  wire [6:0]  place = tops[30:24];
  wire [33:0] slope = 34'(nkv_tables_pkg::Log2Slope[place]) * 34'(tops[23:8]);
  wire [23:0] fraction = nkv_tables_pkg::Log2Base[place] + 24'(slope >> 16);
  logic [LogBits-1:0] log_q;
  always_ff @(posedge clk_i) log_q <= {6'(bits - 7'd1), fraction[23:20]};

  // ---- Kappa and Lambda for s = 0, then s ----
  logic [TopsLatency+1:0] row_valid_q;
  known_t      row;
  nkv_delay #(
    .Width($bits(known_t)),
    .Cycles(Behind - 1)
  ) u_row (
    .clk_i,
    .data_i(scaled_row),
    .data_o(row)
  );
  code_power_t    base_power, search_power;
  code_variance_t base_variance, goal;
  logic [7:0]     dim_log;
  // floor(16 * log2 of the channels)
  always_comb begin
    unique case (dim_i[6:4])
      3'd1: dim_log = 8'd64;
      3'd2: dim_log = 8'd80;
      3'd3: dim_log = 8'd89;
      3'd4: dim_log = 8'd96;
      3'd5: dim_log = 8'd101;
      3'd6: dim_log = 8'd105;
      3'd7: dim_log = 8'd108;
      default: dim_log = 8'd112;
    endcase
    base_power = code_power_t'(row.top) + code_power_t'({1'b0, row.exponent}) -
        code_power_t'(PowerOffset);
    base_variance = code_variance_t'({1'b0, log_q}) + code_variance_t'(VarianceOffset) +
        code_variance_t'({1'b0, last_block_log2(dim_i), 4'd0}) + (code_variance_t'(base_power) <<< 5);
    goal = code_variance_t'(SearchVariance) - base_variance - (code_variance_t'(top_i) <<< 1) -
        code_variance_t'({1'b0, dim_log});
    search_power = code_power_t'(goal >>> 5);
  end
  always_ff @(posedge clk_i) begin
    row_o <= '{is_zero: 1'b1, variance: LeastVariance, default: '0};
    if (row.any) begin
      row_o <= '{
          is_zero: 1'b0,
          search_power: search_power,
          power: base_power + search_power,
          variance: base_variance + (code_variance_t'(search_power) <<< 5)
      };
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) row_valid_q <= '0;
    else if (clear_i) row_valid_q <= '0;
    else row_valid_q <= {row_valid_q[TopsLatency:0], sum_valid_q};
  end
  assign row_valid_o = row_valid_q[TopsLatency+1];

  wire unused = ^{tops[31], tops[7:0], slope[15:0], fraction[19:0], dim_i, goal[4:0]};

endmodule
