// Overwrites accepted pages with zeros, ascending, so that the header goes first and a half erased
// page is no page. One burst per cycle.

`include "nkv_assert.svh"

module nkv_page_eraser
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic           record_valid_i,
  output logic           record_ready_o,  // All of it has been written.
  input  page_record_t   record_i,

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  logic [31:0] done_q;  // Bytes.
  wire sent = write_valid_o && write_ready_i;

  assign write_valid_o = record_valid_i;
  assign write_o = '{address: record_i.address + 64'(done_q), strobes: '1, data: '0};
  assign record_ready_o = sent && done_q + 32'(BurstBytes) == record_i.total_bytes;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) done_q <= '0;
    else if (clear_i || record_ready_o) done_q <= '0;
    else if (sent) done_q <= done_q + 32'(BurstBytes);
  end

  wire unused = ^{record_i.visit, record_i.verdict, record_i.header, record_i.offset,
                  record_i.bytes};

  `NKV_ASSERT_STAYS(WriteStays_A, write_valid_o, write_ready_i, write_o, clear_i)

endmodule
