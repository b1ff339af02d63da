// Age of counters: the tag of the present epoch, and the sweep that forgets all counters.
//
// Counters carry the tag of the epoch that they count in; one with another tag counts as zero, so
// that a new epoch costs nothing. Tags repeat after 2**TagBits epochs. That epoch begins with a
// sweep, as does clear_i and life after rst_ni: DrainCycles and one cycle per word in which busy_o
// says that accesses are not counted.

module nkv_chmu_sweep #(
  parameter int unsigned Words = 4096,
  parameter int unsigned TagBits = 16,
  parameter int unsigned DrainCycles = 8,  // What is under way has been written by then.
  localparam int unsigned WordBits = $clog2(Words)
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic clear_i,                    // Forget everything.
  input  logic epoch_i,                    // An epoch begins with the next cycle's accesses.

  output logic [TagBits-1:0]  tag_o,
  output logic                busy_o,
  output logic                write_o,     // Word address_o becomes zero.
  output logic [WordBits-1:0] address_o
);

  localparam int unsigned DrainBits = $clog2(DrainCycles + 1);

  logic [TagBits-1:0] tag_q;
  logic [WordBits-1:0] address_q;
  logic [DrainBits-1:0] drain_q;
  logic busy_q;

  assign tag_o = tag_q;
  assign busy_o = busy_q;
  assign address_o = address_q;
  assign write_o = busy_q && drain_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      tag_q <= '0;
      address_q <= '0;
      drain_q <= '0;
      busy_q <= 1'b1;
    end else begin
      if (busy_q) begin
        if (drain_q != '0) drain_q <= drain_q - 1'b1;
        else begin
          address_q <= address_q + 1'b1;
          busy_q <= address_q != WordBits'(Words - 1);
        end
      end
      // Nothing is counted during a sweep: epochs need no tags of their own then.
      if (busy_q) tag_q <= '0;
      else if (epoch_i) tag_q <= tag_q + 1'b1;
      if (!busy_q && (clear_i || (epoch_i && tag_q == '1))) begin
        address_q <= '0;
        drain_q <= DrainBits'(DrainCycles);
        busy_q <= 1'b1;
      end
    end
  end

endmodule
