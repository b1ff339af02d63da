// Pages out of source words: rows of both tensors kept and stored, key scales, codes where they are
// wanted, and a header that says what its numbers are. Bit for bit ARITHMETIC.md sections 2 and 11.
//
// Of each page the values' words come first, then the keys'. While a tensor is kept no words of the
// next page's are taken; its place is free once its rows are stored. So a page's keys come while its
// values are stored, and the next page's values while its keys are.

`include "nkv_assert.svh"

module nkv_page_build
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
  import nkv_codes_pkg::*;
#(
  localparam int unsigned GainIndexBits = $clog2(Channels / GranuleBytes)
) (
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,

  input  append_command_t command_i,          // Checked. All held while pages are built.
  input  page_layout_t    layout_i,
  input  logic [15:0]     tenant_i,
  input  logic            gains_valid_i,      // With flag CODES: gains of K, before the first page,
  input  logic [GainIndexBits-1:0] gains_index_i,  // in granules.
  input  granule_t        gains_i,

  input  logic            page_start_i,       // Stores the page whose words come next.
  input  logic [63:0]     page_address_i,     // These are held until page_done_o.
  input  logic [15:0]     page_generation_i,
  input  logic [31:0]     page_first_token_i,
  output logic            page_done_o,        // For one cycle, and
  output logic            page_overflow_o,    // in place of it: DELTA4 does not hold its rows.
  output exponent_t       k_exponent_o,       // Of the page that is done.
  output exponent_t       v_exponent_o,

  output logic            values_free_o,
  input  logic            values_begin_i,
  input  logic            values_valid_i,
  output logic            keys_free_o,
  input  logic            keys_begin_i,
  input  logic            keys_valid_i,
  input  element_t        word_i[ExactLanes],
  input  logic            scale_valid_i,
  input  token_t          scale_row_i,
  input  logic [31:0]     scale_i,

  output logic            write_valid_o,
  input  logic            write_ready_i,
  output write_request_t  write_o
);

  localparam int unsigned CountBits = $clog2(Exceptions + 1);
  localparam int unsigned BurstWords = BurstBits / 32;

  wire dim_t head_dim = dim_t'(command_i.head_dim);
  wire dim_t value_dim = dim_t'(command_i.value_dim);
  wire has_values = command_i.v_form != RowFormNone;

  page_array_t array;
  logic [$clog2(PageTokens*2*Channels/BurstBytes)-1:0] index;
  logic wants, burst_valid, burst_taken, values_sent, keys_sent, sent;
  burst_t burst;
  wire stores_values = wants && array == page_array_t'(PageArrayVRows);
  wire stores_keys = wants && array == page_array_t'(PageArrayKRows);

  // ---- Rows again, for their codes ----
  logic        values_kept, values_read, read_values, keys_kept, keys_read, read_keys;
  token_t      read_row;
  word_index_t read_index;
  element_t    values_again[ExactLanes], keys_again[ExactLanes];
  wire has_codes = command_i.flags[AppendFlagCodes];

  // ---- Values ----
  logic v_burst_valid, v_encoded, v_overflow;
  burst_t v_burst;
  exponent_t v_channel_exponent[Channels];
  logic [CountBits-1:0] v_exception_count;
  row_exception_t v_exception[Exceptions];

  nkv_tensor_rows u_values (
    .clk_i,
    .rst_ni,
    .clear_i,
    .form_i            (command_i.v_form),
    .dtype_i           (command_i.dtype),
    .dim_i             (value_dim),
    .free_o            (values_free_o),
    .begin_i           (values_begin_i),
    .release_i         (values_sent),
    .hold_i            (has_codes && !values_read),
    .kept_o            (values_kept),
    .also_read_i       (read_values),
    .also_row_i        (read_row),
    .also_index_i      (read_index),
    .also_word_o       (values_again),
    .word_valid_i      (values_valid_i),
    .word_i,
    .replay_i          (stores_values),
    .burst_valid_o     (v_burst_valid),
    .burst_ready_i     (burst_taken && stores_values),
    .burst_o           (v_burst),
    .channel_exponent_o(v_channel_exponent),
    .encoded_o         (v_encoded),
    .overflow_o        (v_overflow),
    .exception_count_o (v_exception_count),
    .exception_o       (v_exception)
  );

  // ---- Keys ----
  logic k_burst_valid, k_encoded, k_overflow;
  burst_t k_burst;
  exponent_t k_channel_exponent[Channels];
  logic [CountBits-1:0] k_exception_count;
  row_exception_t k_exception[Exceptions];

  nkv_tensor_rows u_keys (
    .clk_i,
    .rst_ni,
    .clear_i,
    .form_i            (command_i.k_form),
    .dtype_i           (command_i.dtype),
    .dim_i             (head_dim),
    .free_o            (keys_free_o),
    .begin_i           (keys_begin_i),
    .release_i         (keys_sent),
    .hold_i            (has_codes && !keys_read),
    .kept_o            (keys_kept),
    .also_read_i       (read_keys),
    .also_row_i        (read_row),
    .also_index_i      (read_index),
    .also_word_o       (keys_again),
    .word_valid_i      (keys_valid_i),
    .word_i,
    .replay_i          (stores_keys),
    .burst_valid_o     (k_burst_valid),
    .burst_ready_i     (burst_taken && stores_keys),
    .burst_o           (k_burst),
    .channel_exponent_o(k_channel_exponent),
    .encoded_o         (k_encoded),
    .overflow_o        (k_overflow),
    .exception_count_o (k_exception_count),
    .exception_o       (k_exception)
  );

  // ---- What the header says of numbers ----
  exponent_t k_exponent, v_exponent, number_exponent[ExactLanes];
  significand_t number_significand[ExactLanes];
  logic number_valid, number_first;
  word_index_t number_index;
  token_mask_t nonfinite;

  nkv_page_numbers u_numbers (
    .clk_i,
    .rst_ni,
    .clear_i,
    .dtype_i       (command_i.dtype),
    .head_dim_i    (head_dim),
    .value_dim_i   (value_dim),
    .has_values_i  (has_values),
    .keys_valid_i,
    .values_valid_i,
    .word_i,
    .number_valid_o(number_valid),
    .number_first_o(number_first),
    .number_index_o(number_index),
    .exponent_o    (number_exponent),
    .significand_o (number_significand),
    .k_exponent_o  (k_exponent),
    .v_exponent_o  (v_exponent),
    .nonfinite_o   (nonfinite)
  );

  // ---- Codes ----
  logic         code_valid;
  burst_t       code_burst;
  code_powers_t k_powers, v_powers;
  sign_set_t    sign_set;

  nkv_page_codes u_codes (
    .clk_i,
    .rst_ni,
    .clear_i,
    .command_i,
    .gains_valid_i,
    .gains_index_i,
    .gains_i,
    .number_valid_i(number_valid),
    .number_first_i(number_first),
    .number_index_i(number_index),
    .exponent_i    (number_exponent),
    .significand_i (number_significand),
    .v_exponent_i  (v_exponent),
    .keys_kept_i   (keys_kept),
    .values_kept_i (values_kept),
    .keys_read_o   (keys_read),
    .values_read_o (values_read),
    .read_keys_o   (read_keys),
    .read_values_o (read_values),
    .read_row_o    (read_row),
    .read_index_o  (read_index),
    .key_word_i    (keys_again),
    .value_word_i  (values_again),
    .array_i       (array),
    .wants_i       (wants),
    .burst_taken_i (burst_taken),
    .burst_valid_o (code_valid),
    .burst_o       (code_burst),
    .page_sent_i   (sent),
    .keys_o        (k_powers),
    .values_o      (v_powers),
    .sign_set_o    (sign_set)
  );

  // ---- Key scales ----
  logic [31:0] scales[PageTokens];
  always_ff @(posedge clk_i) begin
    if (scale_valid_i) scales[scale_row_i] <= scale_i;
  end

  // ---- Which burst of which array ----
  function automatic logic [7:0] channel_byte(dim_t dim, logic [6:0] channel, exponent_t value);
    return dim_t'(channel) < dim ? value : '0;
  endfunction

  burst_t k_exponents, v_exponents, k_exceptions, v_exceptions, scales_burst;
  always_comb begin
    for (int unsigned i = 0; i < BurstBytes; i++) begin
      automatic logic [6:0] channel = {index[0], 6'(i)};
      k_exponents[8*i+:8] = channel_byte(head_dim, channel, k_channel_exponent[channel]);
      v_exponents[8*i+:8] = channel_byte(value_dim, channel, v_channel_exponent[channel]);
    end
    for (int unsigned i = 0; i < BurstWords; i++) begin
      k_exceptions[32*i+:32] = k_exception[i];
      v_exceptions[32*i+:32] = v_exception[i];
      scales_burst[32*i+:32] = scales[{index[1:0], 4'(i)}];
    end
  end

  always_comb begin
    unique case (array)
      page_array_t'(PageArrayVRows): {burst_valid, burst} = {v_burst_valid, v_burst};
      page_array_t'(PageArrayKRows): {burst_valid, burst} = {k_burst_valid, k_burst};
      page_array_t'(PageArrayKExponents): {burst_valid, burst} = {1'b1, k_exponents};
      page_array_t'(PageArrayVExponents): {burst_valid, burst} = {1'b1, v_exponents};
      page_array_t'(PageArrayKExceptions): begin
        {burst_valid, burst} = {k_encoded && !k_overflow, k_exceptions};
      end
      page_array_t'(PageArrayVExceptions): begin
        {burst_valid, burst} = {v_encoded && !v_overflow, v_exceptions};
      end
      page_array_t'(PageArrayKeyScales): {burst_valid, burst} = {1'b1, scales_burst};
      default: {burst_valid, burst} = {code_valid, code_burst};
    endcase
  end

  assign page_overflow_o = wants &&
      ((array == page_array_t'(PageArrayKExceptions) && k_encoded && k_overflow) ||
       (array == page_array_t'(PageArrayVExceptions) && v_encoded && v_overflow));
  assign page_done_o = sent;

  // ---- To memory: what is said of tensors whose places may be the next page's by now ----
  logic [CountBits-1:0] k_count_q, v_count_q;
  token_mask_t nonfinite_q;

  always_ff @(posedge clk_i) begin
    if (page_start_i) v_count_q <= '0;
    else if (values_sent && has_values) v_count_q <= v_exception_count;
    if (keys_sent) begin
      k_count_q <= k_exception_count;
      k_exponent_o <= k_exponent;
      nonfinite_q <= nonfinite;
    end
    if (has_values ? values_sent : keys_sent) v_exponent_o <= v_exponent;
  end

  page_header_t header;
  always_comb begin
    header = '0;
    header.magic = PageMagic;
    header.version = PageVersion;
    header.state = PageStateClosed;
    header.flags[PageFlagKeyScales] = command_i.flags[AppendFlagKeyScales];
    header.flags[PageFlagCodes] = has_codes;
    header.k_form = command_i.k_form;
    header.v_form = command_i.v_form;
    header.dtype = command_i.dtype;
    header.codec = CodecNone;
    header.head_dim = command_i.head_dim;
    header.value_dim = command_i.value_dim;
    header.generation = page_generation_i;
    header.tokens = 16'(PageTokens);
    header.k_exponent = k_exponent_o;
    header.v_exponent = v_exponent_o;
    header.nonfinite = nonfinite_q;
    header.tenant = tenant_i;
    header.k_exceptions = 8'(k_count_q);
    header.v_exceptions = 8'(v_count_q);
    header.sequence_id = command_i.sequence_id;
    header.first_token = page_first_token_i;
    header.layer = command_i.layer;
    header.kv_head = command_i.kv_head;
    if (has_codes) begin
      header.k_mean_power = k_powers.mean_power;
      header.v_mean_power = v_powers.mean_power;
      header.k_top = k_powers.top;
      header.v_top = v_powers.top;
      header.sign_set = 8'(sign_set);
    end
  end

  nkv_page_send u_send (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i      (page_start_i),
    .layout_i,
    .address_i    (page_address_i),
    .header_i     (header),
    .values_sent_o(values_sent),
    .keys_sent_o  (keys_sent),
    .done_o       (sent),
    .array_o      (array),
    .index_o      (index),
    .wants_o      (wants),
    .burst_valid_i(burst_valid),
    .burst_taken_o(burst_taken),
    .burst_i      (burst),
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  wire unused = ^{command_i, index};

  `NKV_ASSERT_STAYS(WriteStays_A, write_valid_o, write_ready_i, write_o, clear_i)

endmodule
