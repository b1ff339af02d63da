// Asks for the bodies of pages that were accepted, by the plan of the pass: arrays whole, in the order
// in which they lie, each with a checksum to expect. An array that a page does not have is expected
// to have the checksum of nothing. One request per cycle. Before its first array a page's body is
// announced to whoever takes its bursts.

module nkv_page_stream
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,
  input  plan_t         plan_i,
  input  logic [1:0]    header_bursts_i,  // That were read of each page.
  input  list_index_t   first_index_i,   // Of the page list's part on chip.

  input  logic          record_valid_i,  // Pages whose verdict is OK.
  output logic          record_ready_o,  // All of its body has been asked for.
  input  page_record_t  record_i,

  output logic          begun_o,         // The record's body has been announced.
  output logic [31:0]   bursts_o,        // Of headers and arrays, since clear_i.

  output logic          body_valid_o,
  input  logic          body_ready_i,
  output page_body_t    body_o,

  output logic          request_valid_o,
  input  logic          request_ready_i,
  output read_request_t request_o,

  // One per array, in the order of the requests: what its checksum must be.
  output logic          expect_valid_o,
  input  logic          expect_ready_i,
  output logic          expect_nothing_o,  // The array has no bytes, and no request.
  output logic [31:0]   expect_crc_o,
  output list_index_t   expect_index_o
);

  typedef logic [3:0] array_t;

  array_t array_q;
  wire page_header_t header = record_i.header;
  wire is_compressed = header.codec != CodecNone;
  wire reads_payload = is_compressed && plan_i.compressed;
  wire wanted = is_compressed ? reads_payload : plan_i.whole[array_q];

  wire [31:0] bytes = is_compressed ? header.payload_bytes : record_i.bytes[array_q];
  wire [31:0] offset = is_compressed ? 32'(PageHeaderBytes) : record_i.offset[array_q];
  wire [31:0] rest = bytes % BurstBytes;
  wire nothing = bytes == '0;
  wire last_array = is_compressed || array_q == array_t'(PageArrayCount - 1);

  always_comb begin
    unique case (32'(array_q))
      PageArrayKDigest: expect_crc_o = header.crc_k_digest;
      PageArrayKPlane0: expect_crc_o = header.crc_k_plane[0];
      PageArrayKPlane1: expect_crc_o = header.crc_k_plane[1];
      PageArrayKPlane2: expect_crc_o = header.crc_k_plane[2];
      PageArrayKPlane3: expect_crc_o = header.crc_k_plane[3];
      PageArrayKExponents: expect_crc_o = header.crc_k_exponents;
      PageArrayKRows: expect_crc_o = header.crc_k_rows;
      PageArrayKExceptions: expect_crc_o = header.crc_k_exceptions;
      PageArrayKeyScales: expect_crc_o = header.crc_key_scales;
      PageArrayVSum: expect_crc_o = header.crc_v_sum;
      PageArrayVExponents: expect_crc_o = header.crc_v_exponents;
      PageArrayVRows: expect_crc_o = header.crc_v_rows;
      default: expect_crc_o = header.crc_v_exceptions;
    endcase
    // A compressed payload has its checksum where the last array would have it.
    if (is_compressed) expect_crc_o = header.crc_v_exceptions;
  end

  logic announced_q;
  assign begun_o = announced_q;
  assign body_valid_o = record_valid_i && !announced_q;
  assign body_o = '{
      page: record_i.visit.page,
      visible: record_i.visit.tokens & ~header.nonfinite,
      k_form: header.k_form,
      v_form: header.v_form,
      dtype: header.dtype,
      k_step_exponent: header.k_step_exponent,
      v_exponent: header.v_exponent
  };

  wire needed = record_valid_i && announced_q && wanted;
  assign request_valid_o = needed && !nothing && expect_ready_i;
  assign expect_valid_o = needed && (nothing || request_ready_i);
  assign expect_nothing_o = nothing;
  assign expect_index_o = first_index_i + list_index_t'(record_i.visit.page);
  assign request_o = '{
      tag: '{
          sink: SinkArray,
          array: array_q,
          keys_too: header.v_form == RowFormNone,
          whole: 1'b1,
          token: '0,
          last_bytes: rest == '0 ? 7'(BurstBytes) : 7'(rest)
      },
      bursts: burst_count_t'((33'(bytes) + 33'(BurstBytes) - 33'd1) >> $clog2(BurstBytes)),
      address: record_i.address + 64'(offset)
  };

  wire step = record_valid_i && announced_q && (!wanted || (expect_valid_o && expect_ready_i));
  assign record_ready_o = step && last_array;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      array_q <= '0;
      announced_q <= 1'b0;
    end else if (clear_i || record_ready_o) begin
      array_q <= '0;
      announced_q <= 1'b0;
    end else begin
      if (step) array_q <= array_q + 1'b1;
      if (body_valid_o && body_ready_i) announced_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      bursts_o <= '0;
    end else if (clear_i) begin
      bursts_o <= '0;
    end else begin
      if (body_valid_o && body_ready_i) bursts_o <= bursts_o + 32'(header_bursts_i);
      if (request_valid_o && request_ready_i) bursts_o <= bursts_o + 32'(request_o.bursts);
    end
  end

  wire unused = ^{record_i.verdict, record_i.total_bytes, header};

endmodule
