// nkv_header_fetch and nkv_page_accept behind it, as in a pass over pages, whose fields are ports.
module nkv_page_accept_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,
  input  logic          serial_i,

  input  address_t      window_bytes_i,
  input  logic [15:0]   tenant_i,
  input  logic          whole_header_i,
  input  logic          any_codec_i,
  input  logic          keys_i,
  input  logic          values_i,
  input  logic          raw_keys_i,
  input  logic          alike_i,
  input  logic          any_values_i,
  input  logic [15:0]   head_dim_i,
  input  logic [15:0]   value_dim_i,
  input  list_index_t   first_index_i,

  input  logic          visit_valid_i,
  output logic          visit_ready_o,
  input  page_index_t   visit_page_i,
  input  token_mask_t   visit_tokens_i,
  output page_index_t   page_o,
  input  logic [63:0]   entry_i,

  output logic          request_valid_o,
  input  logic          request_ready_i,
  output logic [63:0]   request_address_o,
  output burst_count_t  request_bursts_o,
  input  logic          beat_valid_i,
  output logic          beat_ready_o,
  input  logic          beat_fault_i,
  input  logic          beat_poison_i,
  input  burst_t        beat_data_i,

  input  logic          was_scanned_i,
  output page_index_t   scanned_page_o,
  input  logic [31:0]   scanned_crc_i,

  output logic          record_valid_o,
  input  logic          record_ready_i,
  output page_index_t   record_page_o,
  output token_mask_t   record_tokens_o,
  output logic [7:0]    record_status_o,
  output logic [63:0]   record_detail_o,
  output logic [63:0]   record_address_o,
  output logic [1023:0] record_header_o,
  output logic [31:0]   record_total_bytes_o,
  output logic [31:0]   record_offset_o[PageArrayCount],
  output logic [31:0]   record_bytes_o[PageArrayCount],
  output logic          idle_o
);

  logic          pending_valid, pending_ready;
  visit_t        pending_visit;
  page_entry_t   pending_entry;
  read_request_t request;
  page_record_t  record;

  nkv_header_fetch u_fetch (
    .clk_i,
    .rst_ni,
    .clear_i,
    .whole_header_i,
    .serial_i,
    .visit_valid_i,
    .visit_ready_o,
    .visit_i        ('{page: visit_page_i, tokens: visit_tokens_i, sums: 1'b0}),
    .page_o,
    .entry_i,
    .request_valid_o,
    .request_ready_i,
    .request_o      (request),
    .pending_valid_o(pending_valid),
    .pending_ready_i(pending_ready),
    .pending_visit_o(pending_visit),
    .pending_entry_o(pending_entry),
    .released_i     (record_valid_o && record_ready_i),
    .idle_o
  );

  nkv_page_accept u_accept (
    .clk_i,
    .rst_ni,
    .clear_i,
    .domain_i       ('{tenant: tenant_i, window_bytes: window_bytes_i, window_base: '0}),
    .demand_i       ('{
        whole_header: whole_header_i,
        any_codec: any_codec_i,
        keys: keys_i,
        values: values_i,
        raw_keys: raw_keys_i,
        alike: alike_i,
        any_values: any_values_i,
        head_dim: head_dim_i,
        value_dim: value_dim_i
    }),
    .first_index_i,
    .pending_valid_i(pending_valid),
    .pending_ready_o(pending_ready),
    .pending_visit_i(pending_visit),
    .pending_entry_i(pending_entry),
    .was_scanned_i,
    .scanned_page_o,
    .scanned_crc_i,
    .beat_valid_i,
    .beat_ready_o,
    .beat_i         ('{fault: beat_fault_i, poison: beat_poison_i, data: beat_data_i,
                       tag: request.tag, default: '0}),
    .record_valid_o,
    .record_ready_i,
    .record_o       (record)
  );

  assign request_address_o = request.address;
  assign request_bursts_o = request.bursts;
  assign record_page_o = record.visit.page;
  assign record_tokens_o = record.visit.tokens;
  assign record_status_o = record.verdict.status;
  assign record_detail_o = record.verdict.detail;
  assign record_address_o = record.address;
  assign record_header_o = record.header;
  assign record_total_bytes_o = record.total_bytes;
  for (genvar i = 0; i < int'(PageArrayCount); i++) begin : gen_arrays
    assign record_offset_o[i] = record.offset[i];
    assign record_bytes_o[i] = record.bytes[i];
  end

  wire unused_sums = record.visit.sums;

endmodule
