// 64 KiB of plain bytes, written a burst of 64 at a time and read 16 at a time from any byte on, by
// two at once: read_o[i] is what stands at place_i[i], two cycles later. Reading goes round from
// the end to the beginning. Nothing is read while a burst is written.

module nkv_plain_memory (
  input  logic         clk_i,

  input  logic         write_i,
  input  logic [9:0]   burst_i,
  input  logic [511:0] data_i,

  input  logic [15:0]  place_i[2],
  output logic [7:0]   read_o[2][16]
);

  // A line of 16 bytes and the next one always lie in different banks.
  localparam int unsigned Banks = 4;
  logic [127:0] line_q[2][Banks];
  logic [5:0] place_q[2];

  for (genvar b = 0; b < Banks; ++b) begin : gen_bank
    (* ram_style = "block" *) logic [127:0] memory[1024];
    logic [9:0] row[2];
    always_comb begin
      for (int unsigned r = 0; r < 2; ++r) begin
        row[r] = place_i[r][15:6] + 10'(b == 0 && place_i[r][5:4] == 2'd3);
      end
    end
    wire [9:0] first_row = write_i ? burst_i : row[0];
    always_ff @(posedge clk_i) begin
      if (write_i) memory[first_row] <= data_i[128*b+:128];
      line_q[0][b] <= memory[first_row];
      line_q[1][b] <= memory[row[1]];
    end
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < 2; ++r) begin
      place_q[r] <= place_i[r][5:0];
      for (int unsigned i = 0; i < 16; ++i) begin
        automatic logic [5:0] from = place_q[r] + 6'(i);
        read_o[r][i] <= line_q[r][from[5:4]][8*from[3:0]+:8];
      end
    end
  end

endmodule
