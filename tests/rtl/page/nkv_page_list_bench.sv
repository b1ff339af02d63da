// nkv_page_list with the fields of its request and beats as ports.
module nkv_page_list_bench
  import nkv_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          load_i,
  input  logic [63:0]   address_i,
  input  logic [PageIndexBits:0] entries_i,
  output logic          loaded_o,
  output logic          poisoned_o,
  output logic          request_valid_o,
  input  logic          request_ready_i,
  output logic [63:0]   request_address_o,
  output burst_count_t  request_bursts_o,
  input  logic          beat_valid_i,
  input  logic          beat_last_i,
  input  logic          beat_poison_i,
  input  burst_t        beat_data_i,
  input  page_index_t   page_i,
  output logic [63:0]   entry_o,
  output logic [7:0]    k_exponent_o,
  output logic [7:0]    v_exponent_o
);

  read_request_t request;

  nkv_page_list u_list (
    .clk_i,
    .rst_ni,
    .load_i,
    .address_i,
    .entries_i,
    .loaded_o,
    .poisoned_o,
    .request_valid_o,
    .request_ready_i,
    .request_o(request),
    .beat_valid_i,
    .beat_i   ('{last: beat_last_i, poison: beat_poison_i, data: beat_data_i, tag: request.tag,
                 default: '0}),
    .page_i,
    .entry_o,
    .k_exponent_o,
    .v_exponent_o
  );

  assign request_address_o = request.address;
  assign request_bursts_o = request.bursts;

endmodule
