// nkv_header_fetch and nkv_page_accept behind it, as in a pass over pages.
module nkv_page_accept_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,
  input  logic          serial_i,
  input  domain_t       domain_i,
  input  demand_t       demand_i,
  input  list_index_t   first_index_i,

  input  logic          visit_valid_i,
  output logic          visit_ready_o,
  input  visit_t        visit_i,
  output page_index_t   page_o,
  input  page_entry_t   entry_i,

  output logic          request_valid_o,
  input  logic          request_ready_i,
  output read_request_t request_o,
  input  logic          beat_valid_i,
  output logic          beat_ready_o,
  input  read_beat_t    beat_i,

  input  logic          was_verified_i,
  output page_index_t   verified_page_o,
  input  logic [31:0]   verified_crc_i,

  output logic          record_valid_o,
  input  logic          record_ready_i,
  output page_record_t  record_o,
  output logic          idle_o
);

  logic          pending_valid, pending_ready;
  visit_t        pending_visit;
  page_entry_t   pending_entry;

  nkv_header_fetch u_fetch (
    .pending_valid_o(pending_valid),
    .pending_ready_i(pending_ready),
    .pending_visit_o(pending_visit),
    .pending_entry_o(pending_entry),
    .released_i     (record_valid_o && record_ready_i),
    .*
  );

  nkv_page_accept u_accept (
    .pending_valid_i(pending_valid),
    .pending_ready_o(pending_ready),
    .pending_visit_i(pending_visit),
    .pending_entry_i(pending_entry),
    .*
  );

endmodule
