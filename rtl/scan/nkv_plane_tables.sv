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
  entry_t entry_2[2][PlaneTokens][Groups];

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
      (* ram_style = "distributed" *) entry_t entries[32];
      weight_t weight_1;
      entry_t total_q;  // Back at zero after each walk

      always_ff @(posedge clk_i) begin
        if (weight_valid_i[h] && weight_word_i == WordBits'(g / FoldLanes)) begin
          weights[{weight_bank_i, weight_step_i}] <= weight_i[h][g%FoldLanes];
        end
        if (step_valid_i && step_half_i[h]) weight_1 <= weights[{step_bank_i, step_channel_i}];
        if (step_valid_1 && step_half_1[h]) entries[{step_bank_1, step_entry_1}] <= total_q;
      end

      always_ff @(posedge clk_i or negedge rst_ni) begin
        if (!rst_ni) total_q <= '0;
        else if (step_valid_1 && step_half_1[h]) begin
          total_q <= step_adds_1 ? total_q + entry_t'(weight_1) : total_q - entry_t'(weight_1);
        end
      end

      always_ff @(posedge clk_i) begin
        if (valid_q[1]) begin
          for (int t = 0; t < int'(PlaneTokens); t++) entry_2[h][t][g] <= entries[address_1[t][g]];
        end
      end
    end
  end

  // 32 entries to one sum, 4 to 1 and 2 to 1.
  logic signed [15:0] sum_3[2][PlaneTokens][8];
  logic signed [17:0] sum_4[2][PlaneTokens][2];
  sum_t sum_5[2][PlaneTokens];

  always_ff @(posedge clk_i) begin
    if (valid_q[2]) begin
      for (int h = 0; h < 2; h++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          for (int i = 0; i < 8; i++) begin
            sum_3[h][t][i] <= (16'(entry_2[h][t][4*i]) + 16'(entry_2[h][t][4*i+1])) +
                              (16'(entry_2[h][t][4*i+2]) + 16'(entry_2[h][t][4*i+3]));
          end
        end
      end
    end
    if (valid_q[3]) begin
      for (int h = 0; h < 2; h++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          for (int i = 0; i < 2; i++) begin
            sum_4[h][t][i] <= (18'(sum_3[h][t][4*i]) + 18'(sum_3[h][t][4*i+1])) +
                              (18'(sum_3[h][t][4*i+2]) + 18'(sum_3[h][t][4*i+3]));
          end
        end
      end
    end
    if (valid_q[4]) begin
      for (int h = 0; h < 2; h++) begin
        for (int t = 0; t < int'(PlaneTokens); t++) begin
          sum_5[h][t] <= sum_t'(sum_4[h][t][0]) + sum_t'(sum_4[h][t][1]);
        end
      end
    end
  end

  assign sum_o = sum_5;

endmodule
