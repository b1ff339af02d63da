// Whether a queue may be enabled with the registers that it has, as QUEUE_STATUS.REFUSED of the
// contract says. Combinational.

module nkv_queue_check
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic [63:0] memory_bytes_i,
  input  logic [63:0] sq_base_i,
  input  logic [63:0] cq_base_i,
  input  logic [63:0] ring_entries_i,
  input  logic [63:0] window_base_i,
  input  logic [63:0] window_bytes_i,

  output logic        acceptable_o,
  output logic [3:0]  ring_log2_o    // Of the entries; only if acceptable.
);

  localparam int unsigned MinLog2 = $clog2(MinRingEntries);
  localparam int unsigned MaxLog2 = $clog2(MaxRingEntries);

  logic ring_is_power;
  always_comb begin
    ring_is_power = 1'b0;
    ring_log2_o = '0;
    for (int unsigned i = MinLog2; i <= MaxLog2; i++) begin
      if (ring_entries_i == 64'd1 << i) begin
        ring_is_power = 1'b1;
        ring_log2_o = 4'(i);
      end
    end
  end

  wire [63:0] ring_bytes = ring_entries_i << $clog2(CommandBytes);
  wire rings_fit = sq_base_i % 64'(CommandBytes) == '0 && cq_base_i % 64'(CommandBytes) == '0 &&
      span_inside(memory_bytes_i, sq_base_i, ring_bytes) &&
      span_inside(memory_bytes_i, cq_base_i, ring_bytes);
  wire window_fits = window_base_i % 64'(PageGrainBytes) == '0 && window_bytes_i != '0 &&
      span_inside(memory_bytes_i, window_base_i, window_bytes_i);

  assign acceptable_o = ring_is_power && rings_fit && window_fits;

endmodule
