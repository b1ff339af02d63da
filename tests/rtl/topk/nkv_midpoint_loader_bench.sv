// nkv_midpoint_loader with the fields of its structs as ports.
module nkv_midpoint_loader_bench
  import nkv_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages
) (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  logic         loads_i,
  input  logic         page_valid_i,
  output logic         page_ready_o,
  input  page_index_t  page_i,
  input  logic         wanted_i,
  output logic         page_valid_o,
  input  logic         page_ready_i,
  output page_index_t  page_o,
  output logic         empty_o,
  input  logic [2:0]   over_i,
  input  page_index_t  over_page_i[3],

  output logic         request_valid_o,
  input  logic         request_ready_i,
  output logic         request_is_midpoints_o,
  output page_index_t  request_page_o,
  output burst_count_t request_bursts_o,
  output logic [63:0]  request_address_o,
  input  logic         beat_valid_i,
  input  logic         beat_poison_i,
  input  logic         beat_fault_i,
  input  logic         beat_last_i,
  input  page_index_t  beat_page_i,
  output logic         poisoned_o,
  output page_index_t  poisoned_page_o
);

  read_request_t request;
  read_beat_t    beat;
  always_comb begin
    beat = '0;
    beat.poison = beat_poison_i;
    beat.fault = beat_fault_i;
    beat.last = beat_last_i;
    beat.tag.sink = SinkMidpoints;
    beat.tag.page = beat_page_i;
  end

  nkv_midpoint_loader #(
    .KeptPages(KeptPages)
  ) u_loader (
    .clk_i,
    .rst_ni,
    .clear_i,
    .loads_i,
    .page_valid_i,
    .page_ready_o,
    .page_i,
    .wanted_i,
    .page_valid_o,
    .page_ready_i,
    .page_o,
    .empty_o,
    .over_i,
    .over_page_i,
    .request_valid_o,
    .request_ready_i,
    .request_o   (request),
    .beat_valid_i,
    .beat_i      (beat),
    .poisoned_o,
    .poisoned_page_o
  );

  assign request_is_midpoints_o = request.tag.sink == SinkMidpoints;
  assign request_page_o = request.tag.page;
  assign request_bursts_o = request.bursts;
  assign request_address_o = request.address;
  wire unused = ^request;

endmodule
