// Distributed arithmetic for rows Pair and Pair + 4: sums of w over the set bits of 4 tokens, up to
// 128 channels (ARITHMETIC.md, section 5). 4 channels select one of 16 sums that were loaded
// before; tables of two pages lie side by side in the same memories.
//
// Sums leave 5 cycles after their beat, one beat per cycle.

module nkv_plane_tables
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  localparam int unsigned WordBits = $clog2(Words)
) (
  input  logic clk_i,
  input  logic rst_ni,

  // Weights of row Pair, of row Pair + 4, or of both.
  input  logic [1:0]          weight_valid_i,
  input  logic                weight_bank_i,
  input  logic [WordBits-1:0] weight_word_i,
  input  logic [1:0]          weight_step_i,
  input  weight_t             weight_i[2][FoldLanes],

  // From nkv_table_loader.
  input  logic       step_valid_i,
  input  logic       step_bank_i,
  input  logic [1:0] step_half_i,
  input  logic [1:0] step_channel_i,
  input  logic       step_adds_i,
  input  logic [3:0] step_entry_i,

  input  logic                beat_valid_i,
  input  logic                beat_bank_i,
  input  logic [Channels-1:0] beat_bits_i[PlaneTokens],
  output logic                sum_valid_o,
  output sum_t                sum_o[2][PlaneTokens]
);

  // Sums of 4 weights plus a bias that makes them positive: so no sign has to be carried through adders.
  typedef logic [$bits(entry_t)-1:0] biased_t;
  localparam biased_t EntryBias = {1'b1, {($bits(entry_t) - 1) {1'b0}}};

  // Valid of registers _1.._5.
  logic [5:1] valid_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[4:1], beat_valid_i};
  end
  assign sum_valid_o = valid_q[5];

  logic step_valid_1, step_bank_1, step_adds_1;
  logic [1:0] step_half_1;
  logic [3:0] step_entry_1;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) step_valid_1 <= 1'b0;
    else step_valid_1 <= step_valid_i;
  end
  always_ff @(posedge clk_i) begin
    if (step_valid_i) begin
      step_bank_1 <= step_bank_i;
      step_half_1 <= step_half_i;
      step_adds_1 <= step_adds_i;
      step_entry_1 <= step_entry_i;
    end
  end

  logic [4:0] address_1[PlaneTokens][Groups];
  biased_t entry_2[2][PlaneTokens][Groups];

  always_ff @(posedge clk_i) begin
    if (beat_valid_i) begin
      for (int t = 0; t < int'(PlaneTokens); t++) begin
        for (int g = 0; g < int'(Groups); g++) begin
          address_1[t][g] <= {beat_bank_i, beat_bits_i[t][GroupChannels*g+:GroupChannels]};
        end
      end
    end
  end

  for (genvar g = 0; g < Groups; g++) begin : gen_groups
    for (genvar h = 0; h < 2; h++) begin : gen_rows
      // Of both banks and the group's 4 channels.
      (* ram_style = "distributed" *) weight_t weights[8];
      (* ram_style = "distributed" *) biased_t entries[32];
      weight_t weight_1;
      biased_t total_q;  // Back at the bias after each walk

      always_ff @(posedge clk_i) begin
        if (weight_valid_i[h] && weight_word_i == WordBits'(g / FoldLanes)) begin
          weights[{weight_bank_i, weight_step_i}] <= weight_i[h][g%FoldLanes];
        end
        if (step_valid_i && step_half_i[h]) weight_1 <= weights[{step_bank_i, step_channel_i}];
        if (step_valid_1 && step_half_1[h]) entries[{step_bank_1, step_entry_1}] <= total_q;
      end

      always_ff @(posedge clk_i or negedge rst_ni) begin
        if (!rst_ni) total_q <= EntryBias;
        else if (step_valid_1 && step_half_1[h]) begin
          // One adder for both signs: -w is ~w + 1.
          total_q <= total_q + (biased_t'(weight_1) ^ {$bits(biased_t){!step_adds_1}}) +
                     biased_t'(!step_adds_1);
        end
      end

      always_ff @(posedge clk_i) begin
        if (valid_q[1]) begin
          for (int t = 0; t < int'(PlaneTokens); t++) entry_2[h][t][g] <= entries[address_1[t][g]];
        end
      end
    end
  end

  // 32 entries to one sum: by threes, which a carry chain of the device takes at once, and the last four
  // together. What is left over by threes is a pair each time.
  localparam int unsigned Triples = Groups / 3;
  localparam int unsigned Ninths = Groups / 9;
  logic [15:0] sum_3[2][PlaneTokens][Triples+1];
  logic [17:0] sum_4[2][PlaneTokens][Ninths+1];
  logic [18:0] sum_5[2][PlaneTokens];

  always_ff @(posedge clk_i) begin
    if (valid_q[2]) begin
      for (int h = 0; h < 2; h++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          for (int i = 0; i < int'(Triples); i++) begin
            sum_3[h][t][i] <= 16'(entry_2[h][t][3*i]) + 16'(entry_2[h][t][3*i+1]) +
                              16'(entry_2[h][t][3*i+2]);
          end
          sum_3[h][t][Triples] <= 16'(entry_2[h][t][Groups-2]) + 16'(entry_2[h][t][Groups-1]);
        end
      end
    end
    if (valid_q[3]) begin
      for (int h = 0; h < 2; h++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          for (int i = 0; i < int'(Ninths); i++) begin
            sum_4[h][t][i] <= 18'(sum_3[h][t][3*i]) + 18'(sum_3[h][t][3*i+1]) +
                              18'(sum_3[h][t][3*i+2]);
          end
          sum_4[h][t][Ninths] <= 18'(sum_3[h][t][Triples-1]) + 18'(sum_3[h][t][Triples]);
        end
      end
    end
    if (valid_q[4]) begin
      for (int h = 0; h < 2; h++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          sum_5[h][t] <= (19'(sum_4[h][t][0]) + 19'(sum_4[h][t][1])) +
                         (19'(sum_4[h][t][2]) + 19'(sum_4[h][t][3]));
        end
      end
    end
  end

  // All entries' biases together are the top bit's worth.
  for (genvar h = 0; h < 2; h++) begin : gen_sum_rows
    for (genvar t = 0; t < PlaneTokens; t++) begin : gen_sum_tokens
      assign sum_o[h][t] = {!sum_5[h][t][18], sum_5[h][t][17:0]};
    end
  end

endmodule
