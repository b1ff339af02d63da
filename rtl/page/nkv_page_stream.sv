// Asks for the bodies of pages that were accepted, by the plan of the pass: arrays whole, in the order
// in which they lie, each with a checksum to expect. An array that a page does not have is expected
// to have the checksum of nothing. One request per cycle. Before its first array a page's body is
// announced to whoever takes its bursts.
//
// With `plan.rows` the arrays are followed by the key rows of the visit's tokens, which have no
// checksum of their own; with `plan.value_rows` by their value rows too, and by V_SUM if the visit wants
// sums, while a visit without tokens wants none of the arrays. With `plan.padding` the arrays are followed
// by the bursts between them and the end of the page, which no checksum covers. With `plan.of_values` the
// rows are value rows, or key rows where the page stores no values.

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
  output logic [31:0]   value_bursts_o,  // With plan.value_rows those of values apart,
  output logic [31:0]   sum_bursts_o,    // and of sums.

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

  typedef enum logic [2:0] {
    StArrays,
    StKeyRows,
    StValueRows,
    StSums,
    StPadding
  } state_e;

  state_e state_q;
  wire page_header_t header = record_i.header;
  wire is_compressed = header.codec != CodecNone;
  wire any_rows = record_i.visit.tokens != '0;

  // ---- Arrays, ascending; a compressed payload counts as one ----
  logic [PageArrayCount-1:0] done_q;  // Arrays that have been asked for.
  logic [PageArrayCount-1:0] wanted, left;
  array_t array;
  logic keys_for_values;
  assign keys_for_values = plan_i.of_values && header.v_form == RowFormNone;
  always_comb begin
    wanted = is_compressed ? PageArrayCount'(plan_i.compressed)
        : plan_i.value_rows && !any_rows ? '0 : plan_i.whole;
    if (keys_for_values && !is_compressed) begin
      wanted[PageArrayKExponents] |= plan_i.whole[PageArrayVExponents];
      wanted[PageArrayKRows] |= plan_i.whole[PageArrayVRows];
      wanted[PageArrayKExceptions] |= plan_i.whole[PageArrayVExceptions];
    end
    left = wanted & ~done_q;
    array = '0;
    for (int i = int'(PageArrayCount) - 1; i >= 0; i--) if (left[i]) array = array_t'(i);
    if (state_q == StSums) array = array_t'(PageArrayVSum);
  end
  wire no_array_left = (left & (left - 1'b1)) == '0;  // But this one, if there is one.

  wire [31:0] bytes = is_compressed ? header.payload_bytes : record_i.bytes[array];
  wire [31:0] offset = is_compressed ? 32'(PageHeaderBytes) : record_i.offset[array];
  wire [31:0] rest = bytes % BurstBytes;
  wire nothing = bytes == '0;

  always_comb begin
    unique case (32'(array))
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

  // ---- Chosen rows, after the arrays ----
  logic       row_valid, rows_ready, unused_row_last, unused_row_shared;
  logic [$clog2(PageTokens)-1:0] row;
  logic [2:0] row_bursts, unused_row_start;
  logic [7:0] row_burst;
  wire        of_values = state_q == StValueRows;
  wire [31:0] one_row_bytes = of_values
      ? row_bytes(header.v_form, header.dtype, 32'(header.value_dim))
      : row_bytes(header.k_form, header.dtype, 32'(header.head_dim));
  wire        rows_now = record_valid_i && (state_q == StKeyRows || of_values);
  wire        row_needs_read = row_valid && row_bursts != '0;
  wire        row_done = row_valid && (request_ready_i || row_bursts == '0);
  wire array_t rows_array = of_values ? array_t'(PageArrayVRows) : array_t'(PageArrayKRows);

  nkv_row_places u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i     (rows_now),
    .ready_o     (rows_ready),
    .rows_i      (record_i.visit.tokens),
    .granules_i  (one_row_bytes[8:3]),
    .row_valid_o (row_valid),
    .row_ready_i (row_done),
    .row_o       (row),
    .row_last_o  (unused_row_last),
    .row_start_o (unused_row_start),
    .row_shared_o(unused_row_shared),
    .row_burst_o (row_burst),
    .row_bursts_o(row_bursts)
  );

  // ---- What lies behind the arrays ----
  wire [31:0] content_end = is_compressed ? 32'(PageHeaderBytes) + header.payload_bytes
      : record_i.offset[PageArrayVExceptions] + record_i.bytes[PageArrayVExceptions];
  wire burst_count_t content_bursts = bursts_of(content_end);
  wire burst_count_t padding_bursts = bursts_of(record_i.total_bytes) - content_bursts;
  wire        padding_now = record_valid_i && state_q == StPadding;
  wire        padding_needs_read = padding_now && padding_bursts != '0;

  logic announced_q;
  assign begun_o = announced_q;
  assign body_valid_o = record_valid_i && !announced_q;
  assign body_o = '{
      page: record_i.visit.page,
      tokens: record_i.visit.tokens,
      nonfinite: header.nonfinite,
      sums: record_i.visit.sums,
      v_exponent: header.v_exponent,
      crc_hot: header.crc_hot,
      k_form: header.k_form,
      v_form: header.v_form,
      dtype: header.dtype,
      key_scales: header.flags[PageFlagKeyScales],
      k_step_exponent: header.k_step_exponent
  };

  wire needed = record_valid_i && announced_q &&
      (state_q == StSums || (state_q == StArrays && left != '0));
  assign request_valid_o = row_needs_read || padding_needs_read || (needed && !nothing && expect_ready_i);
  assign expect_valid_o = needed && (nothing || request_ready_i);
  assign expect_nothing_o = nothing;
  assign expect_index_o = first_index_i + list_index_t'(record_i.visit.page);
  always_comb begin
    request_o.tag = '{
        sink: SinkArray,
        array: array,
        whole: 1'b1,
        page: record_i.visit.page,
        page_last: 1'b0,
        keys_too: header.v_form == RowFormNone,
        token: '0,
        last_bytes: rest == '0 ? 7'(BurstBytes) : 7'(rest)
    };
    request_o.bursts = bursts_of(bytes);
    request_o.address = record_i.address + 64'(offset);
    if (rows_now) begin
      request_o.tag.array = rows_array;
      request_o.tag.whole = 1'b0;
      request_o.tag.token = row;
      request_o.tag.last_bytes = 7'(BurstBytes);
      request_o.bursts = burst_count_t'(row_bursts);
      request_o.address = record_i.address + 64'(record_i.offset[rows_array]) +
          64'({row_burst, 6'b0});
    end
    if (padding_now) begin
      request_o.tag.whole = 1'b0;
      request_o.tag.last_bytes = 7'(BurstBytes);
      request_o.bursts = padding_bursts;
      request_o.address = record_i.address + 64'({content_bursts, 6'b0});
    end
  end

  // ---- One after the other ----
  wire asked = expect_valid_o && expect_ready_i;
  wire arrays_end = announced_q && (left == '0 || (asked && no_array_left));
  wire reads_values = plan_i.value_rows && header.v_form != RowFormNone;
  logic step;
  state_e next;
  always_comb begin
    unique case (state_q)
      StArrays: step = record_valid_i && arrays_end;
      StSums: step = asked;
      StPadding: step = padding_now && (request_ready_i || !padding_needs_read);
      default: step = rows_now && rows_ready;
    endcase
    // After the arrays come rows, if there are any, after those sums; or the padding.
    if (state_q == StArrays && plan_i.padding) next = StPadding;
    else if (state_q == StArrays && plan_i.rows && any_rows) begin
      next = plan_i.of_values && !keys_for_values ? StValueRows : StKeyRows;
    end
    else if (state_q == StKeyRows && reads_values) next = StValueRows;
    else if (state_q != StSums && record_i.visit.sums) next = StSums;
    else next = StArrays;
  end
  assign record_ready_o = step && next == StArrays;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StArrays;
      done_q <= '0;
      announced_q <= 1'b0;
    end else if (clear_i || record_ready_o) begin
      state_q <= StArrays;
      done_q <= '0;
      announced_q <= 1'b0;
    end else begin
      if (step) state_q <= next;
      if (asked && state_q == StArrays) done_q[array] <= 1'b1;
      if (body_valid_o && body_ready_i) announced_q <= 1'b1;
    end
  end

  wire counts_as_value = plan_i.value_rows &&
      request_o.tag.array inside {array_t'(PageArrayVExponents), array_t'(PageArrayVRows)};
  wire counts_as_sum = plan_i.value_rows && request_o.tag.array == array_t'(PageArrayVSum);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      bursts_o <= '0;
      value_bursts_o <= '0;
      sum_bursts_o <= '0;
    end else if (clear_i) begin
      bursts_o <= '0;
      value_bursts_o <= '0;
      sum_bursts_o <= '0;
    end else begin
      if (body_valid_o && body_ready_i) bursts_o <= bursts_o + 32'(header_bursts_i);
      if (request_valid_o && request_ready_i) begin
        if (counts_as_value) value_bursts_o <= value_bursts_o + 32'(request_o.bursts);
        else if (counts_as_sum) sum_bursts_o <= sum_bursts_o + 32'(request_o.bursts);
        else bursts_o <= bursts_o + 32'(request_o.bursts);
      end
    end
  end

  wire unused = ^{plan_i.scan, plan_i.planes, one_row_bytes, record_i.verdict, header};

endmodule
