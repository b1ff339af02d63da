// Holds the frame of a ZSTD decoder as it comes, 64 KiB of it, for Readers that read lines of 16
// bytes, one line per cycle altogether, whoever's turn it is. A line leaves line_o two cycles after
// its grant. A line that has not come is not granted until it has; one that does not come, because
// the frame ends before or the memory is full up to there, is granted as whatever it is.
// What lies before floor_i may be overwritten.

module nkv_zstd_source
  import nkv_zstd_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               begin_i,
  input  logic [11:0]        bursts_i,           // Of the frame; with begin_i.

  input  logic               in_valid_i,
  output logic               in_ready_o,
  input  logic [511:0]       in_data_i,
  input  logic               drop_i,             // Takes all that comes, for nothing.
  output logic               has_all_o,

  input  logic [11:0]        floor_i,            // A burst.

  input  logic [Readers-1:0] request_i,
  input  line_t              request_line_i[Readers],
  output logic [Readers-1:0] grant_o,
  output logic [127:0]       line_o
);

  localparam int unsigned AddressBits = 10;

  logic [11:0] written_q, left_q;  // Bursts that have come, and those that have not.
  assign has_all_o = left_q == '0;
  wire [11:0] kept = written_q - floor_i;
  wire has_room = kept < 12'(2**AddressBits);
  assign in_ready_o = !begin_i && !has_all_o && (has_room || drop_i);
  wire takes = in_valid_i && in_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      written_q <= '0;
      left_q <= '0;
    end else if (begin_i) begin
      written_q <= '0;
      left_q <= bursts_i;
    end else if (takes) begin
      written_q <= written_q + 1'b1;
      left_q <= left_q - 1'b1;
    end
  end

  logic [Readers-1:0] is_there;
  logic [11:0] ahead[Readers];     // Bursts from floor_i's on.
  always_comb begin
    for (int unsigned i = 0; i < Readers; ++i) begin
      ahead[i] = request_line_i[i][13:2] - floor_i;
      is_there[i] = has_all_o || ahead[i] < kept || ahead[i] >= 12'(2**AddressBits);
    end
  end

  logic is_granted;
  logic [2:0] reader;
  nkv_round_robin #(.Requests(Readers)) u_turn (
    .clk_i, .rst_ni,
    .request_i(request_i & is_there), .valid_o(is_granted), .ready_i(1'b1),
    .grant_o, .index_o(reader)
  );

  wire [AddressBits+1:0] line = (AddressBits + 2)'(request_line_i[reader]);
  logic [1:0] bank_q;
  logic [127:0] bank_line_q[4];
  for (genvar b = 0; b < 4; ++b) begin : gen_bank
    (* ram_style = "block" *) logic [127:0] memory[2**AddressBits];
    always_ff @(posedge clk_i) begin
      if (takes) memory[written_q[AddressBits-1:0]] <= in_data_i[128*b+:128];
      if (is_granted) bank_line_q[b] <= memory[line[2+:AddressBits]];
    end
  end

  always_ff @(posedge clk_i) begin
    bank_q <= line[1:0];
    line_o <= bank_line_q[bank_q];
  end

endmodule
