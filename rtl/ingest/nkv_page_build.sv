// Pages out of source words: rows of both tensors kept and stored, digest and planes of the keys,
// statistics of the values, key scales, header. Bit for bit ARITHMETIC.md section 2.
//
// Of each page the values' words come first, then the keys'. While a tensor is kept no words of the
// next page's are taken: the values' place is free once their rows are stored and their sums
// squared, the keys' once their rows are stored and coded. So the next page's values come while
// this one's keys are coded and stored, and its keys while planes, header and its own values are.

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

  localparam int unsigned ArrayBits = $clog2(PageArrayCount);
  localparam int unsigned CountBits = $clog2(Exceptions + 1);
  localparam int unsigned LaneBits = $clog2(ExactLanes);
  localparam int unsigned PlaneBits = $clog2(KeyPlanes);
  localparam int unsigned PlaneIndexBits = $clog2(PageTokens * Channels / BurstBits);
  localparam int unsigned SumIndexBits = $clog2(4 * Channels / BurstBytes);
  localparam int unsigned BurstWords = BurstBits / 32;

  wire dim_t head_dim = dim_t'(command_i.head_dim);
  wire dim_t value_dim = dim_t'(command_i.value_dim);
  wire has_values = command_i.v_form != RowFormNone;

  logic [ArrayBits-1:0] array;
  logic [$clog2(PageTokens*2*Channels/BurstBytes)-1:0] index;
  logic wants, burst_valid, burst_taken, values_sent, keys_sent, values_sent_q, keys_sent_q, sent;
  burst_t burst;
  wire stores_values = wants && array == ArrayBits'(PageArrayVRows);
  wire stores_keys = wants && array == ArrayBits'(PageArrayKRows);

  logic sums_replay, sums_busy, sums_ready;
  logic planes_complete;

  // ---- Values ----
  logic values_filled, v_number_valid, v_burst_valid, v_encoded, v_overflow;
  word_index_t v_number_index;
  logic [ExactLanes-1:0] v_negative, v_finite;
  exponent_t v_exponent[ExactLanes];
  significand_t v_significand[ExactLanes];
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
    .release_i         (values_sent_q && !sums_busy),
    .word_valid_i      (values_valid_i),
    .word_i,
    .filled_o          (values_filled),
    .replay_i          (sums_replay && stores_values),
    .number_valid_o    (v_number_valid),
    .number_index_o    (v_number_index),
    .negative_o        (v_negative),
    .finite_o          (v_finite),
    .exponent_o        (v_exponent),
    .significand_o     (v_significand),
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
  logic keys_filled, k_number_valid, k_burst_valid, k_encoded, k_overflow, codes_replay;
  word_index_t k_number_index;
  logic [ExactLanes-1:0] k_negative, k_finite;
  exponent_t k_exponent[ExactLanes];
  significand_t k_significand[ExactLanes];
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
    .release_i         (keys_sent_q && planes_complete && (has_values || !sums_busy)),
    .word_valid_i      (keys_valid_i),
    .word_i,
    .filled_o          (keys_filled),
    .replay_i          (codes_replay && stores_keys),
    .number_valid_o    (k_number_valid),
    .number_index_o    (k_number_index),
    .negative_o        (k_negative),
    .finite_o          (k_finite),
    .exponent_o        (k_exponent),
    .significand_o     (k_significand),
    .burst_valid_o     (k_burst_valid),
    .burst_ready_i     (burst_taken && stores_keys),
    .burst_o           (k_burst),
    .channel_exponent_o(k_channel_exponent),
    .encoded_o         (k_encoded),
    .overflow_o        (k_overflow),
    .exception_count_o (k_exception_count),
    .exception_o       (k_exception)
  );

  // ---- Digest and planes ----
  logic digest_ready;
  exponent_t digest_exponent;
  logic signed [15:0] k_step_exponent;
  token_mask_t nonfinite;
  burst_t digest, plane;

  nkv_page_codes u_codes (
    .clk_i,
    .rst_ni,
    .dim_i            (head_dim),
    .begin_i          (keys_begin_i),
    .page_start_i,
    .number_valid_i   (k_number_valid),
    .negative_i       (k_negative),
    .finite_i         (k_finite),
    .exponent_i       (k_exponent),
    .significand_i    (k_significand),
    .replay_o         (codes_replay),
    .ready_o          (digest_ready),
    .digest_index_i   (index[WordBits-1:0]),
    .digest_o         (digest),
    .k_exponent_o     (digest_exponent),
    .k_step_exponent_o(k_step_exponent),
    .nonfinite_o      (nonfinite),
    .complete_o       (planes_complete),
    .plane_i          (PlaneBits'(array - ArrayBits'(PageArrayKPlane0))),
    .plane_index_i    (PlaneIndexBits'(index)),
    .plane_o          (plane)
  );

  // ---- Statistics: of the values, or of the leading channels of the keys ----
  logic number_valid;
  logic [ExactLanes-1:0] negative;
  exponent_t exponent[ExactLanes];
  significand_t significand[ExactLanes];
  logic [31:0] v_residual;
  burst_t sum;

  always_comb begin
    number_valid = has_values
        ? v_number_valid : k_number_valid && dim_t'({k_number_index, LaneBits'(0)}) < value_dim;
    negative = has_values ? v_negative : k_negative;
    for (int unsigned i = 0; i < ExactLanes; i++) begin
      automatic logic is_value = dim_t'({k_number_index, LaneBits'(i)}) < value_dim;
      exponent[i] = has_values ? v_exponent[i] : is_value ? k_exponent[i] : '0;
      significand[i] = has_values ? v_significand[i] : is_value ? k_significand[i] : '0;
    end
  end

  nkv_page_sums u_sums (
    .clk_i,
    .rst_ni,
    .clear_i,
    .dim_i         (value_dim),
    .begin_i       (has_values ? values_begin_i : keys_begin_i),
    .number_valid_i(number_valid),
    .negative_i    (negative),
    .exponent_i    (exponent),
    .significand_i (significand),
    .replay_o      (sums_replay),
    .busy_o        (sums_busy),
    .ready_o       (sums_ready),
    .taken_i       (sent),
    .index_i       (index[SumIndexBits-1:0]),
    .sum_o         (sum),
    .v_exponent_o,
    .v_residual_o  (v_residual)
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
      ArrayBits'(PageArrayVRows): {burst_valid, burst} = {v_burst_valid, v_burst};
      ArrayBits'(PageArrayKRows): {burst_valid, burst} = {k_burst_valid, k_burst};
      ArrayBits'(PageArrayKDigest): {burst_valid, burst} = {digest_ready && keys_filled, digest};
      ArrayBits'(PageArrayVSum): {burst_valid, burst} = {sums_ready, sum};
      ArrayBits'(PageArrayKExponents): {burst_valid, burst} = {1'b1, k_exponents};
      ArrayBits'(PageArrayVExponents): {burst_valid, burst} = {1'b1, v_exponents};
      ArrayBits'(PageArrayKExceptions): begin
        {burst_valid, burst} = {k_encoded && !k_overflow, k_exceptions};
      end
      ArrayBits'(PageArrayVExceptions): begin
        {burst_valid, burst} = {v_encoded && !v_overflow, v_exceptions};
      end
      ArrayBits'(PageArrayKeyScales): {burst_valid, burst} = {1'b1, scales_burst};
      default: {burst_valid, burst} = {planes_complete, plane};
    endcase
  end

  assign page_overflow_o = wants &&
      ((array == ArrayBits'(PageArrayKExceptions) && k_encoded && k_overflow) ||
       (array == ArrayBits'(PageArrayVExceptions) && v_encoded && v_overflow));
  assign page_done_o = sent;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {values_sent_q, keys_sent_q} <= '0;
    end else begin
      if (clear_i || values_free_o) values_sent_q <= 1'b0;
      else if (values_sent) values_sent_q <= 1'b1;
      if (clear_i || keys_free_o) keys_sent_q <= 1'b0;
      else if (keys_sent) keys_sent_q <= 1'b1;
    end
  end

  // ---- To memory: what is said of tensors whose places may be the next page's by now ----
  logic [CountBits-1:0] k_count_q, v_count_q;
  logic signed [15:0] k_step_exponent_q;
  token_mask_t nonfinite_q;

  always_ff @(posedge clk_i) begin
    if (page_start_i) v_count_q <= '0;
    else if (values_sent && has_values) v_count_q <= v_exception_count;
    if (keys_sent) begin
      k_count_q <= k_exception_count;
      k_exponent_o <= digest_exponent;
      k_step_exponent_q <= k_step_exponent;
      nonfinite_q <= nonfinite;
    end
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
    header.k_step_exponent = k_step_exponent_q;
    header.nonfinite = nonfinite_q;
    header.v_residual = v_residual;
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

  wire unused = ^{command_i, v_finite, v_number_index, values_filled, index};

endmodule
