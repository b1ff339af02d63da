// Plain pages: one is written while the other one is read. Reads are runs of bursts, a burst per cycle
// from two cycles after the request on; the next run is taken while the last burst of one is read.

`include "nkv_assert.svh"

module nkv_plain_store
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_transcode_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,        // Forgets what is being read.

  input  logic                 write_page_i,
  input  plain_write_t         write_i,

  input  logic                 read_page_i,    // Held while anything is read.
  input  logic                 run_valid_i,
  output logic                 run_ready_o,
  input  plain_index_t         run_first_i,
  input  plain_index_t         run_bursts_i,   // 1 at least.
  output logic                 burst_valid_o,
  input  logic                 burst_ready_i,
  output logic                 burst_last_o,   // Of its run.
  output burst_t               burst_o,

  input  logic [ScaleBits-1:0] scale_index_i,
  output burst_t               scales_o        // A cycle later.
);

  localparam int unsigned Ahead = 4;

  typedef struct packed {
    logic   last;
    burst_t data;
  } read_t;

  (* ram_style = "block" *) burst_t rows[2**(PlainBits+1)];
  (* ram_style = "distributed" *) burst_t scales[2*ScaleBursts];

  always_ff @(posedge clk_i) begin
    if (write_i.valid && !write_i.scales) begin
      for (int unsigned h = 0; h < BurstHalves; h++) begin
        if (write_i.halves[h]) begin
          rows[{write_page_i, write_i.index}][16*h+:16] <= write_i.data[16*h+:16];
        end
      end
    end
    if (write_i.valid && write_i.scales) begin
      scales[{write_page_i, write_i.index[ScaleBits-1:0]}] <= write_i.data;
    end
    scales_o <= scales[{read_page_i, scale_index_i}];
  end

  plain_index_t next_q, left_q;
  logic         read_q, read_last_q, fifo_ready;
  burst_t       read_data_q;
  read_t        out;
  logic [$clog2(Ahead):0] used;

  // Room for what was read in the cycle before, too.
  wire reads = left_q != '0 && used + ($clog2(Ahead) + 1)'(read_q) < ($clog2(Ahead) + 1)'(Ahead);
  wire ends = reads && left_q == plain_index_t'(1);
  assign run_ready_o = left_q == '0 || ends;

  always_ff @(posedge clk_i) begin
    if (reads) read_data_q <= rows[{read_page_i, next_q}];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {next_q, left_q, read_q, read_last_q} <= '0;
    end else if (clear_i) begin
      {left_q, read_q} <= '0;
    end else begin
      read_q <= reads;
      read_last_q <= ends;
      if (reads) begin
        next_q <= next_q + 1'b1;
        left_q <= left_q - 1'b1;
      end
      if (run_valid_i && run_ready_o) begin
        next_q <= run_first_i;
        left_q <= run_bursts_i;
      end
    end
  end

  nkv_fifo #(
    .T(read_t),
    .Depth(Ahead)
  ) u_read (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (read_q),
    .in_ready_o (fifo_ready),
    .in_data_i  ('{last: read_last_q, data: read_data_q}),
    .out_valid_o(burst_valid_o),
    .out_ready_i(burst_ready_i),
    .out_data_o (out),
    .used_o     (used)
  );
  assign burst_last_o = out.last;
  assign burst_o = out.data;


  `NKV_ASSERT_STAYS(BurstStays_A, burst_valid_o, burst_ready_i, {burst_last_o, burst_o}, clear_i)
  `NKV_ASSERT_ROOM(ReadHasRoom_A, read_q, fifo_ready)

endmodule
