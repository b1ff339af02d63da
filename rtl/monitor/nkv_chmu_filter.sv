// What is counted of the host's accesses: those of the kinds that are tracked, to blocks of 256 MiB
// whose bit is set in the range bitmap, and of these one of 2**down_sampling. A counted access
// comes out as the number of its unit, 3 cycles after it came in.
//
// Down-sampling takes the last of each 2**n accesses that pass the rest; randomized, each of them
// with probability 2**-n, by a xorshift generator that steps with each.
//
// The bitmap is held in registers: 64 bits for each 16 GiB.

module nkv_chmu_filter
  import nkv_chmu_pkg::*;
#(
  parameter int unsigned Blocks = 64,       // Of the memory
  parameter int unsigned UnitLog2 = 12,     // Smallest unit
  parameter int unsigned UnitSizes = 2,     // Each twice the one before
  localparam int unsigned MemoryBits = BlockLog2 + $clog2(Blocks),
  localparam int unsigned UnitBits = MemoryBits - UnitLog2,
  localparam int unsigned RangeWords = (Blocks + 63) / 64,
  localparam int unsigned RangeIndexBits = RangeWords > 1 ? $clog2(RangeWords) : 1
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic    enabled_i,
  input  logic    start_i,                  // Down-sampling begins with its first of 2**n.
  input  filter_t filter_i,                 // Changes only while nothing is under way,
                                            // as the bitmap.

  // The bitmap, a word at a time; it reads at once.
  input  logic                      range_write_i,
  input  logic [RangeIndexBits-1:0] range_index_i,
  input  logic [7:0]                range_strobes_i,
  input  logic [63:0]               range_data_i,
  output logic [63:0]               range_data_o,

  input  logic    valid_i,
  input  access_t access_i,

  output logic                valid_o,
  output logic [UnitBits-1:0] unit_o
);

  typedef logic [MemoryBits-1:0] address_t;

  logic [63:0] ranges_q[RangeWords];
  assign range_data_o = ranges_q[range_index_i];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int i = 0; i < RangeWords; i++) ranges_q[i] <= '0;
    end else if (range_write_i) begin
      ranges_q[range_index_i] <= written(ranges_q[range_index_i], range_data_i, range_strobes_i);
    end
  end

  wire dpa_t block = access_i.dpa >> BlockLog2;
  wire in_memory = block < dpa_t'(Blocks);
  wire [RangeIndexBits-1:0] word = RangeIndexBits'(block >> 6);

  // 1: kind and memory known, bitmap word read. 2: range known, unit known. 3: sampled.
  logic keep_1, keep_2, keep_3;
  logic [63:0] ranges_1;
  logic [5:0] bit_1;
  address_t address_1;
  logic [UnitBits-1:0] unit_2, unit_3;
  logic [14:0] tally_q, mask_q;
  logic [31:0] random_q;
  wire [14:0] chosen_of = filter_i.randomize ? random_q[31:17] : ~tally_q;
  wire chosen = (chosen_of & mask_q) == '0;

  logic [31:0] random_a, random_b, random_next;
  assign random_a = random_q ^ (random_q << 13);
  assign random_b = random_a ^ (random_a >> 17);
  assign random_next = random_b ^ (random_b << 5);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      keep_1 <= 1'b0;
      keep_2 <= 1'b0;
      keep_3 <= 1'b0;
      tally_q <= '0;
      random_q <= 32'h2545_f491;
    end else begin
      keep_1 <= valid_i && enabled_i && in_memory &&
                (access_i.is_write ? filter_i.writes : filter_i.reads);
      keep_2 <= keep_1 && ranges_1[bit_1];
      keep_3 <= keep_2 && chosen;
      if (start_i) tally_q <= '0;
      else if (keep_2) tally_q <= tally_q + 1'b1;
      if (keep_2) random_q <= random_next;
    end
  end

  always_ff @(posedge clk_i) begin
    for (int i = 0; i < 15; i++) mask_q[i] <= 4'(i) < filter_i.down_sampling;
    if (valid_i) begin
      address_1 <= access_i.dpa[MemoryBits-1:0];
      ranges_1 <= ranges_q[word];
      bit_1 <= 6'(block);
    end
    if (keep_1) begin
      unit_2 <= address_1[MemoryBits-1:UnitLog2];
      for (int i = 1; i < UnitSizes; i++) begin
        if (filter_i.unit_log2 == 6'(UnitLog2 + i)) begin
          unit_2 <= UnitBits'(address_1 >> (UnitLog2 + i));
        end
      end
    end
    if (keep_2) unit_3 <= unit_2;
  end

  assign valid_o = keep_3;
  assign unit_o = unit_3;

endmodule
