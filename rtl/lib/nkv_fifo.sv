// First in, first out, any payload type. Valid/ready on both sides; data appear at the output one
// cycle after they were taken, and stay until taken. A full FIFO takes nothing, even while it gives.

`include "nkv_assert.svh"

module nkv_fifo #(
  parameter type T = logic [7:0],
  parameter int unsigned Depth = 4,  // A power of two, 2 at least.
  parameter bit Block = 1'b0,        // Deep ones: in block memory.
  localparam int unsigned IndexBits = $clog2(Depth)
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic clear_i,              // Empties it; what comes in this cycle is lost too.

  input  logic in_valid_i,
  output logic in_ready_o,
  input  T     in_data_i,

  output logic out_valid_o,
  input  logic out_ready_i,
  output T     out_data_o,

  output logic [IndexBits:0] used_o  // Entries held.
);

  logic [IndexBits:0] write_q, read_q;

  wire push = in_valid_i && in_ready_o;
  wire pop = out_valid_o && out_ready_i;

  // Pointers that are equal, or a lap apart: without the subtraction.
  wire same_place = write_q[IndexBits-1:0] == read_q[IndexBits-1:0];
  wire same_lap = write_q[IndexBits] == read_q[IndexBits];

  assign used_o = write_q - read_q;
  assign in_ready_o = !same_place || same_lap;
  assign out_valid_o = !same_place || !same_lap;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q <= '0;
    end else if (clear_i) begin
      write_q <= '0;
      read_q <= '0;
    end else begin
      if (push) write_q <= write_q + 1'b1;
      if (pop) read_q <= read_q + 1'b1;
    end
  end

  if (Block) begin : gen_block
    (* ram_style = "block" *) T memory[Depth];
    wire [IndexBits-1:0] next = read_q[IndexBits-1:0] + 1'b1;
    T read_data_q, passed_q;  // The oldest entry; passed_q if it came too late to be read.
    logic passes_q;
    // What comes in this cycle is the oldest entry in the next.
    wire passes = push && used_o == (IndexBits + 1)'(pop);

    always_ff @(posedge clk_i) begin
      if (push) memory[write_q[IndexBits-1:0]] <= in_data_i;
      if (pop) read_data_q <= memory[next];
      if (passes) passed_q <= in_data_i;
      if (passes || pop) passes_q <= passes;
    end
    assign out_data_o = passes_q ? passed_q : read_data_q;
  end else begin : gen_distributed
    (* ram_style = "distributed" *) T memory[Depth];

    always_ff @(posedge clk_i) begin
      if (push) memory[write_q[IndexBits-1:0]] <= in_data_i;
    end
    assign out_data_o = memory[read_q[IndexBits-1:0]];
  end

  `NKV_ASSERT(Bounded_A, used_o <= (IndexBits + 1)'(Depth))

endmodule
