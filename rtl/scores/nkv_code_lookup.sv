// What planes of codes say of keys along one query row: x of ARITHMETIC.md 12.3, plane after plane. Two
// banks of tables: one is written while the other is looked up. A slice of tokens per cycle, Latency
// cycles later at the output.

module nkv_code_lookup
  import nkv_pkg::*;
  import nkv_codes_pkg::*;
#(
  localparam int unsigned Groups = Channels / GroupChannels
) (
  input  logic         clk_i,

  input  logic         write_i,
  input  logic         write_bank_i,
  input  group_bits_t  entry_i,
  input  code_weight_t entry_sum_i[Groups],

  input  logic         bank_i,
  input  logic [SliceTokens-1:0][Channels-1:0] bits_i,

  input  logic         late_valid_i,    // What came Latency - 1 cycles before, and of which
  input  slice_index_t late_slice_i,    // slice it is; or the next plane of one that came before.
  input  logic         late_first_i,    // Its first plane.
  output code_sum_t    sum_o[SliceTokens]
);

  localparam int unsigned Quarter = Groups / 4;
  code_weight_t looked_q[SliceTokens][Groups];
  for (genvar g = 0; g < Groups; g++) begin : gen_groups
    (* ram_style = "distributed" *) code_weight_t entries[2 << GroupChannels];
    always_ff @(posedge clk_i) begin
      if (write_i) entries[{write_bank_i, entry_i}] <= entry_sum_i[g];
      for (int unsigned t = 0; t < SliceTokens; t++) begin
        looked_q[t][g] <= entries[{bank_i, bits_i[t][GroupChannels*g+:GroupChannels]}];
      end
    end
  end

  // Partial sums of a row's weights fit as the whole one does.
  for (genvar t = 0; t < SliceTokens; t++) begin : gen_tokens
    (* ram_style = "distributed" *) code_sum_t planes_before[Slices];
    code_weight_t four_q[Quarter], two_q[2], plane_q;
    wire code_sum_t so_far = late_first_i ? '0 : planes_before[late_slice_i] <<< 1;
    always_ff @(posedge clk_i) begin
      for (int unsigned i = 0; i < Quarter; i++) begin
        four_q[i] <= (looked_q[t][4*i] + looked_q[t][4*i+1]) +
            (looked_q[t][4*i+2] + looked_q[t][4*i+3]);
      end
      for (int unsigned i = 0; i < 2; i++) begin
        two_q[i] <= (four_q[4*i] + four_q[4*i+1]) + (four_q[4*i+2] + four_q[4*i+3]);
      end
      plane_q <= two_q[0] + two_q[1];
    end
    wire code_sum_t now = so_far + code_sum_t'(plane_q);
    always_ff @(posedge clk_i) begin
      if (late_valid_i) planes_before[late_slice_i] <= now;
      sum_o[t] <= now;
    end
  end

endmodule
