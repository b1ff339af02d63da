// Keeps bytes that come as words of one or two granules and leave as bursts, at whatever granules
// the words begin. Banks lie side by side, a granule of a burst in each.

module nkv_code_store
  import nkv_pkg::*;
#(
  parameter int unsigned GranuleBits = 16,
  parameter int unsigned Bursts = 16,       // A power of two.
  localparam int unsigned Banks = BurstBits / GranuleBits,
  localparam int unsigned BankBits = $clog2(Banks),
  localparam int unsigned BurstIndexBits = $clog2(Bursts)
) (
  input  logic                               clk_i,

  input  logic                               valid_i,
  input  logic                               two_i,         // Both granules are the word's.
  input  logic [BurstIndexBits+BankBits-1:0] at_i,          // Of the first granule.
  input  logic [1:0][GranuleBits-1:0]        granule_i,

  input  logic [BurstIndexBits-1:0]          index_i,
  output burst_t                             burst_o        // In the same cycle.
);

  wire [BurstIndexBits-1:0] burst = at_i[BankBits+:BurstIndexBits];
  wire [BankBits-1:0] bank = at_i[BankBits-1:0];
  wire [BankBits-1:0] next = bank + 1'b1;

  for (genvar b = 0; b < Banks; b++) begin : gen_banks
    (* ram_style = "distributed" *) logic [GranuleBits-1:0] memory[Bursts];
    wire takes_first = bank == BankBits'(b);
    wire takes = takes_first || (two_i && next == BankBits'(b));
    // The second granule of a word that begins in a burst's last bank is the next burst's.
    wire [BurstIndexBits-1:0] place = b == 0 && !takes_first ? burst + 1'b1 : burst;
    always_ff @(posedge clk_i) begin
      if (valid_i && takes) memory[place] <= bank[0] == 1'(b) ? granule_i[0] : granule_i[1];
    end
    assign burst_o[GranuleBits*b+:GranuleBits] = memory[index_i];
  end

endmodule
