// Asks for the bodies of pages that were accepted, by the plan of the pass: arrays whole, in the order
// in which they lie, each with a checksum to expect. An array that a page does not have is expected
// to have the checksum of nothing. One request per cycle, three cycles after it was chosen. Before its
// first array a page's body is announced to whoever takes its bursts.
//
// With `plan.rows` the arrays are followed by the key rows of the visit's tokens, which have no checksum of
// their own, or with `plan.rows_whole` by the array of all of them; with `plan.of_values` they are value rows,
// where the page stores values. With `plan.padding` the arrays are followed by the bursts between them and the
// end of the page, which no checksum covers.

`include "nkv_assert.svh"

module nkv_page_stream
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,
  input  plan_t         plan_i,
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

  localparam logic [PageArrayCount-1:0] CodeArrays =
      PageArrayCount'(1) << PageArrayCodeSummary | PageArrayCount'(1) << PageArrayKSigns |
      PageArrayCount'(1) << PageArrayKCodes | PageArrayCount'(1) << PageArrayVCodes |
      PageArrayCount'(1) << PageArrayKGains;

  typedef enum logic [2:0] {
    StArrays,
    StKeyRows,
    StValueRows,
    StPadding,
    StDrain     // Until all has been asked for.
  } state_e;

  // What is to be asked for next.
  typedef struct packed {
    logic       whole;
    logic       padding;
    page_array_t array;
    logic [7:0] burst;   // Of a row, its first burst in the array,
    logic [2:0] bursts;  // and how many.
  } choice_t;

  // Where it lies.
  typedef struct packed {
    choice_t     choice;
    logic [31:0] bytes;
    logic [31:0] offset;
    logic [31:0] crc;
  } place_t;

  // What is asked.
  typedef struct packed {
    read_request_t request;
    logic          nothing;  // An array without bytes.
    logic [31:0]   crc;
    list_index_t   index;
  } asking_t;

  state_e  state_q;
  logic    announced_q, chosen_q, placed_q, asking_valid_q;
  choice_t chosen, choice_q;
  place_t  place_q;
  asking_t asking_q;
  wire page_header_t header = record_i.header;
  wire is_compressed = header.codec != CodecNone;
  // While the record waits for its announcement, what it is made of becomes known.
  wire     prepares = record_valid_i && !announced_q;
  logic    any_rows_q;

  // ---- Arrays, ascending; a compressed payload counts as one ----
  logic [PageArrayCount-1:0] left_q;  // Arrays that are still to be asked for.
  logic [PageArrayCount-1:0] wanted;
  page_array_t array;
  logic keys_for_values;
  assign keys_for_values = plan_i.of_values && header.v_form == RowFormNone;
  always_comb begin
    wanted = is_compressed ? PageArrayCount'(plan_i.compressed) : plan_i.whole;
    // What a page without codes says of them is not looked at.
    if (!header.flags[PageFlagCodes]) wanted &= ~CodeArrays;
    if (keys_for_values && !is_compressed) begin
      wanted[PageArrayKExponents] |= plan_i.whole[PageArrayVExponents];
      wanted[PageArrayKRows] |= plan_i.whole[PageArrayVRows];
      wanted[PageArrayKExceptions] |= plan_i.whole[PageArrayVExceptions];
    end
    array = '0;
    for (int i = int'(PageArrayCount) - 1; i >= 0; i--) if (left_q[i]) array = page_array_t'(i);
  end
  wire [PageArrayCount-1:0] then_left = left_q & (left_q - 1'b1);

  // ---- Chosen rows, after the arrays ----
  logic       row_valid, rows_ready, unused_row_last, unused_row_shared;
  logic [$clog2(PageTokens)-1:0] unused_row;
  logic [2:0] row_bursts, unused_row_start;
  logic [7:0] row_burst;
  wire        of_values = state_q == StValueRows;
  wire        in_rows = state_q == StKeyRows || of_values;
  wire        rows_now = announced_q && in_rows && !plan_i.rows_whole;
  logic       moves;  // There is room for another choice.
  wire        row_done = row_valid && moves;
  wire page_array_t rows_array = of_values ? page_array_t'(PageArrayVRows) : page_array_t'(PageArrayKRows);
  logic [1:0][5:0] granules_q;  // Of one row, of 8 bytes: of keys, of values.

  nkv_row_places u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i     (rows_now),
    .ready_o     (rows_ready),
    .rows_i      (record_i.visit.tokens),
    .granules_i  (granules_q[of_values]),
    .row_valid_o (row_valid),
    .row_ready_i (row_done),
    .row_o       (unused_row),
    .row_last_o  (unused_row_last),
    .row_start_o (unused_row_start),
    .row_shared_o(unused_row_shared),
    .row_burst_o (row_burst),
    .row_bursts_o(row_bursts)
  );

  // ---- What lies behind the arrays ----
  logic [31:0]  content_end_q;
  burst_count_t content_bursts_q, padding_bursts_q;
  always_ff @(posedge clk_i) begin
    if (record_valid_i && plan_i.padding) begin
      content_end_q <= is_compressed ? 32'(PageHeaderBytes) + header.payload_bytes
          : record_i.offset[PageArrayKGains] + record_i.bytes[PageArrayKGains];
      content_bursts_q <= bursts_of(content_end_q);
      padding_bursts_q <=
          burst_count_t'(record_i.total_bytes >> $clog2(BurstBytes)) - content_bursts_q;
    end
  end

  assign begun_o = announced_q;
  assign body_valid_o = prepares;
  assign body_o = '{
      page: record_i.visit.page,
      tokens: record_i.visit.tokens,
      nonfinite: header.nonfinite,
      k_form: header.k_form,
      v_form: header.v_form,
      dtype: header.dtype,
      key_scales: header.flags[PageFlagKeyScales]
  };

  // ---- Choices, one after the other ----
  logic chooses, step;
  state_e next;
  always_comb begin
    chosen = '0;
    chosen.whole = state_q == StArrays || (in_rows && plan_i.rows_whole);
    chosen.padding = state_q == StPadding;
    chosen.array = in_rows ? rows_array : array;
    if (rows_now) begin
      chosen.burst = row_burst;
      chosen.bursts = row_bursts;
    end
    unique case (state_q)
      StArrays: begin
        chooses = announced_q && left_q != '0;
        step = announced_q && (left_q == '0 || (moves && then_left == '0));
      end
      StPadding: begin
        chooses = announced_q;
        step = announced_q && moves;
      end
      StDrain: {chooses, step} = 2'b00;
      default: begin
        chooses = announced_q && (row_valid || plan_i.rows_whole);
        step = announced_q && (plan_i.rows_whole ? moves : rows_ready);
      end
    endcase
    // After the arrays come rows, if there are any, or the padding.
    if (state_q == StArrays && plan_i.padding) next = StPadding;
    else if (state_q == StArrays && plan_i.rows && any_rows_q) begin
      next = plan_i.of_values && !keys_for_values ? StValueRows : StKeyRows;
    end
    else next = StDrain;
  end
  assign record_ready_o = state_q == StDrain && !chosen_q && !placed_q && !asking_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StArrays;
      left_q <= '0;
      any_rows_q <= 1'b0;
      granules_q <= '0;
      announced_q <= 1'b0;
    end else if (clear_i || record_ready_o) begin
      state_q <= StArrays;
      announced_q <= 1'b0;
    end else begin
      if (step) state_q <= next;
      if (prepares) begin
        left_q <= wanted;
        any_rows_q <= record_i.visit.tokens != '0;
        granules_q <= {record_i.bytes[PageArrayVRows][14:9], record_i.bytes[PageArrayKRows][14:9]};
        announced_q <= body_ready_i;
      end else if (chooses && moves && state_q == StArrays) begin
        left_q <= then_left;
      end
    end
  end

  // ---- Their places, and what is asked: a request and what to expect of it ----
  logic [31:0] crc;
  always_comb begin
    unique case (32'(choice_q.array))
      PageArrayKExponents: crc = header.crc_k_exponents;
      PageArrayKRows: crc = header.crc_k_rows;
      PageArrayKExceptions: crc = header.crc_k_exceptions;
      PageArrayKeyScales: crc = header.crc_key_scales;
      PageArrayVExponents: crc = header.crc_v_exponents;
      PageArrayVRows: crc = header.crc_v_rows;
      PageArrayCodeSummary: crc = header.crc_code_summary;
      PageArrayKSigns: crc = header.crc_k_signs;
      PageArrayKCodes: crc = header.crc_k_codes;
      PageArrayVCodes: crc = header.crc_v_codes;
      PageArrayKGains: crc = header.crc_k_gains;
      default: crc = header.crc_v_exceptions;
    endcase
    // A compressed payload has its checksum where the last array would have it.
    if (is_compressed) crc = header.crc_v_exceptions;
  end

  // A payload begins where the first array would.
  wire [31:0] base = record_i.offset[choice_q.array];
  wire whole = asking_q.request.tag.whole;
  wire [5:0] rest = place_q.bytes[5:0];
  wire asks = request_valid_o && request_ready_i;
  wire goes = asks || (expect_valid_o && asking_q.nothing && expect_ready_i) ||
      (!whole && asking_q.nothing);
  assign moves = !asking_valid_q || goes;

  assign request_o = asking_q.request;
  assign request_valid_o = asking_valid_q && !asking_q.nothing && (!whole || expect_ready_i);
  assign expect_valid_o = asking_valid_q && whole && (asking_q.nothing || request_ready_i);
  assign expect_nothing_o = asking_q.nothing;
  assign expect_crc_o = asking_q.crc;
  assign expect_index_o = asking_q.index;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {chosen_q, placed_q, asking_valid_q} <= '0;
    else if (clear_i) {chosen_q, placed_q, asking_valid_q} <= '0;
    else if (moves) {chosen_q, placed_q, asking_valid_q} <= {chooses, chosen_q, placed_q};
  end

  always_ff @(posedge clk_i) begin
    if (moves && chooses) choice_q <= chosen;
    if (moves && chosen_q) begin
      place_q <= '{
          choice: choice_q,
          bytes: is_compressed ? header.payload_bytes : record_i.bytes[choice_q.array],
          offset: choice_q.padding ? 32'(content_bursts_q) << $clog2(BurstBytes)
              : base + 32'({choice_q.burst, 6'b0}),
          crc: crc
      };
    end
    if (moves && placed_q) begin
      asking_q.request <= '{
          tag: '{
              sink: SinkArray,
              array: place_q.choice.array,
              whole: place_q.choice.whole,
              page: record_i.visit.page,
              keys_too: header.v_form == RowFormNone,
              last_bytes: !place_q.choice.whole || rest == '0 ? 7'(BurstBytes) : 7'(rest)
          },
          bursts: place_q.choice.padding ? padding_bursts_q
              : place_q.choice.whole ? bursts_of(place_q.bytes)
              : burst_count_t'(place_q.choice.bursts),
          address: record_i.address + 64'(place_q.offset)
      };
      asking_q.nothing <= place_q.choice.padding ? padding_bursts_q == '0
          : place_q.choice.whole ? place_q.bytes == '0 : place_q.choice.bursts == '0;
      asking_q.crc <= place_q.crc;
      asking_q.index <= first_index_i + list_index_t'(record_i.visit.page);
    end
  end

  // Of pages that were verified before, headers do not count again.
  wire [1:0] header_bursts = plan_i.again ? '0 : 2'(PageHeaderBytes / BurstBytes);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      bursts_o <= '0;
    end else if (clear_i) begin
      bursts_o <= '0;
    end else begin
      bursts_o <= bursts_o + (body_valid_o && body_ready_i ? 32'(header_bursts) : '0) +
          (asks ? 32'(request_o.bursts) : '0);
    end
  end

  wire unused = ^{record_i, header};

  // A page that nobody has begun with is taken back when the pass fails.
  `NKV_ASSERT_STAYS(BodyStays_A, body_valid_o, body_ready_i, body_o, clear_i || !record_valid_i)
  `NKV_ASSERT_STAYS(RequestStays_A, request_valid_o, request_ready_i, request_o, clear_i)
  `NKV_ASSERT_STAYS(ExpectStays_A, expect_valid_o, expect_ready_i, {expect_nothing_o, expect_crc_o,
      expect_index_o}, clear_i)

endmodule
