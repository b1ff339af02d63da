// Pages out of source words: rows of both tensors kept and stored, key scales, and a header that
// says what its numbers are. Bit for bit ARITHMETIC.md section 2.
//
// Of each page the values' words come first, then the keys'. While a tensor is kept no words of the
// next page's are taken; its place is free once its rows are stored. So a page's keys come while its
// values are stored, and the next page's values while its keys are.

module nkv_page_build
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,

  input  append_command_t command_i,          // Checked. All held while pages are built.
  input  page_layout_t    layout_i,
  input  logic [15:0]     tenant_i,

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
  exponent_t k_exponent, v_exponent;
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
    .k_exponent_o  (k_exponent),
    .v_exponent_o  (v_exponent),
    .nonfinite_o   (nonfinite)
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
      default: {burst_valid, burst} = {1'b1, scales_burst};
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

endmodule
