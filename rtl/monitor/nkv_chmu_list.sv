// The hot list: a ring of entries that the unit fills and the host takes. Empty where HEAD is TAIL,
// full where one more would make it so: it holds Entries - 1. An entry that finds it full is lost,
// and overflow_o tells so. The host takes entries by moving HEAD; a HEAD beyond the ring changes
// nothing.
//
// An entry can be read in the cycle in which TAIL passes it: a cycle after it came.

module nkv_chmu_list
  import nkv_chmu_pkg::*;
#(
  parameter int unsigned Entries = 1024,  // A power of two
  parameter int unsigned UnitBits = 22,
  localparam int unsigned IndexBits = $clog2(Entries)
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic clear_i,                   // HEAD and TAIL become 0; what comes now is lost.

  input  logic                valid_i,
  input  logic [UnitBits-1:0] unit_i,
  input  count_t              count_i,
  output logic                overflow_o,

  input  logic        head_write_i,
  input  logic [15:0] head_i,
  output logic [15:0] head_o,
  output logic [15:0] tail_o,
  output logic [15:0] used_o,

  input  logic                 read_i,
  input  logic [IndexBits-1:0] read_index_i,
  output logic [63:0]          read_data_o  // The next cycle
);

  typedef logic [IndexBits-1:0] index_t;
  typedef struct packed {
    logic [UnitBits-1:0] unit_number;
    count_t              count;
  } entry_t;

  (* ram_style = "block" *) entry_t entries[Entries];
  entry_t read_q;
  index_t head_q, tail_q;

  wire index_t used = tail_q - head_q;
  wire full = used == '1;

  assign head_o = 16'(head_q);
  assign tail_o = 16'(tail_q);
  assign used_o = 16'(used);
  assign overflow_o = valid_i && full && !clear_i;
  assign read_data_o = 64'(read_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      head_q <= '0;
      tail_q <= '0;
    end else if (clear_i) begin
      head_q <= '0;
      tail_q <= '0;
    end else begin
      if (head_write_i && head_i < 16'(Entries)) head_q <= index_t'(head_i);
      if (valid_i && !full) tail_q <= tail_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (read_i) read_q <= entries[read_index_i];
    if (valid_i && !full) entries[tail_q] <= '{unit_number: unit_i, count: count_i};
  end

endmodule
