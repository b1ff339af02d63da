// Pairs of tokens, a byte per channel, in bursts in; 32 bytes from any multiple of 16 on out, two cycles
// after they are asked for. Room for both tensors of a page.

module nkv_planes_pairs
  import nkv_pkg::*;
  import nkv_planes_pkg::*;
(
  input  logic        clk_i,

  input  logic        write_i,
  input  logic        write_values_i,
  input  part_index_t write_index_i,
  input  burst_t      data_i,

  input  logic        read_i,
  input  logic        read_values_i,
  input  logic [7:0]  granule_i,  // Of 16 bytes, the first one.
  output logic [7:0]  bytes_o[32]
);

  localparam int unsigned Banks = 8;   // Of 8 bytes each, side by side in a burst.
  localparam int unsigned WordBanks = 4;

  logic [63:0] read_data_q[Banks];
  logic        read_q;
  logic [1:0]  first_q;

  always_ff @(posedge clk_i) begin
    read_q <= read_i;
    if (read_i) first_q <= granule_i[1:0];
  end

  for (genvar b = 0; b < Banks; b++) begin : gen_bank
    (* ram_style = "block" *) logic [63:0] memory[2**($bits(part_index_t)+1)];
    wire part_index_t place = granule_i[7:2] + part_index_t'(3'(b / 2) < {1'b0, granule_i[1:0]});
    always_ff @(posedge clk_i) begin
      if (write_i) memory[{write_values_i, write_index_i}] <= data_i[64*b+:64];
      if (read_i) read_data_q[b] <= memory[{read_values_i, place}];
    end
  end

  always_ff @(posedge clk_i) begin
    if (read_q) begin
      for (int unsigned b = 0; b < WordBanks; b++) begin
        for (int unsigned i = 0; i < 8; i++) begin
          bytes_o[8*b+i] <= read_data_q[3'(b)+{first_q, 1'b0}][8*i+:8];
        end
      end
    end
  end

endmodule
