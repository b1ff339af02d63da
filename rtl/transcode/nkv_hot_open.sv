// The body of a page of codec NONE to plain rows: RAW rows as they are, DELTA4 rows with their exceptions
// restored, key scales. A word of 32 elements per cycle; 16 more cycles for each array of exceptions.

module nkv_hot_open
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_transcode_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  logic         start_i,       // A page,
  input  page_header_t header_i,      // held until done_o.
  output logic         done_o,        // All rows of the page have been written; so until the next start.

  input  logic         beat_valid_i,  // All bursts of its arrays.
  output logic         beat_ready_o,
  input  read_beat_t   beat_i,

  output plain_write_t write_o
);

  localparam int unsigned ExceptionBits = $bits(row_exception_t);
  localparam int unsigned CountBits = $clog2(Exceptions);

  typedef enum logic [1:0] {
    StIdle,
    StKeys,      // Which rows are described, and then
    StValues,
    StDescribed
  } state_e;

  state_e        state_q;
  logic          values_q;             // Which rows are written.
  logic          stored_q;             // All of the page are.
  tensor_index_t index_q;
  logic [CountBits-1:0] exception_q;

  wire has_values = header_i.v_form != RowFormNone;
  wire is_wide = element_bytes(header_i.dtype) == 32'd2;
  wire dim_t described_dim =
      state_q == StValues ? dim_t'(header_i.value_dim) : dim_t'(header_i.head_dim);
  wire [15:0] written_dim = values_q ? header_i.value_dim : header_i.head_dim;
  wire row_format_t format = '{
      values: 1'b0,
      list_exponent: '0,
      used_dim: described_dim,
      stored_dim: described_dim,
      dtype: header_i.dtype,
      form: state_q == StValues ? header_i.v_form : header_i.k_form
  };

  // ---- Bursts ----
  wire is_rows = 32'(beat_i.tag.array) inside {PageArrayKRows, PageArrayVRows};
  wire is_exponents = 32'(beat_i.tag.array) inside {PageArrayKExponents, PageArrayVExponents};
  wire of_values = 32'(beat_i.tag.array) == PageArrayVExceptions;
  wire is_exceptions = 32'(beat_i.tag.array) == PageArrayKExceptions || of_values;
  wire is_scales = 32'(beat_i.tag.array) == PageArrayKeyScales;
  // Their rows are all there.
  wire restores = beat_valid_i && is_exceptions && (stored_q || (values_q && !of_values));
  logic rows_ready, exponents_ready;

  always_comb begin
    beat_ready_o = 1'b1;
    if (is_rows) beat_ready_o = rows_ready;
    if (is_exponents) beat_ready_o = exponents_ready;
    if (is_exceptions) beat_ready_o = restores && exception_q == '1;
    // Rows may be written in this cycle.
    if (is_scales) beat_ready_o = values_q || stored_q;
  end

  // ---- Rows to words, words to bursts ----
  logic described, word_valid, word_last, pack_valid, unused_wants, unused_issued_last;
  logic [$clog2(PageTokens):0] unused_tag;
  word_index_t unused_index;
  key_t word[ExactLanes];

  nkv_page_rows #(
    .Elements(1'b1)
  ) u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .page_valid_i     (state_q inside {StKeys, StValues}),
    .page_ready_o     (described),
    .page_format_i    (format),
    .page_rows_i      ('1),
    .exponents_valid_i(beat_valid_i && is_exponents),
    .exponents_ready_o(exponents_ready),
    .rows_valid_i     (beat_valid_i && is_rows),
    .rows_ready_o     (rows_ready),
    .first_i          (beat_i.first),
    .last_i           (beat_i.last),
    .burst_i          (beat_i.data),
    .issue_i          (1'b1),
    .wants_o          (unused_wants),
    .issued_last_o    (unused_issued_last),
    .word_valid_o     (word_valid),
    .word_tag_o       (unused_tag),
    .word_index_o     (unused_index),
    .word_last_o      (word_last),
    .word_o           (word)
  );

  // The tensor whose words come: the values' come once the keys' last burst is packed.
  logic packs_values_q;
  logic [$clog2(PageTokens)-1:0] packed_rows_q;
  wire [15:0] packed_dim = packs_values_q ? header_i.value_dim : header_i.head_dim;
  wire [6:0] word_bytes =
      7'd64 >> (3'(!is_wide) + 3'(word_last && packed_dim[$clog2(ChunkChannels)]));
  logic [15:0] element[ExactLanes];
  burst_t packed_burst;

  always_comb begin
    for (int unsigned i = 0; i < ExactLanes; i++) element[i] = word[i][15:0];
  end

  nkv_element_pack u_pack (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i  (word_valid),
    .is_wide_i(is_wide),
    .count_i  (word_bytes[6:4]),
    .element_i(element),
    .valid_o  (pack_valid),
    .burst_o  (packed_burst)
  );

  // ---- What is written ----
  wire row_exception_t exception =
      row_exception_t'(beat_i.data[ExceptionBits*32'(exception_q)+:ExceptionBits]);
  wire [7:0] exceptions = of_values ? header_i.v_exceptions : header_i.k_exceptions;
  wire [15:0] restored_dim = of_values ? header_i.value_dim : header_i.head_dim;
  wire exception_holds = 8'(exception_q) < exceptions &&
      32'(exception.element) < 32'(restored_dim) * PageTokens;
  wire tensor_ends = pack_valid && index_q == last_burst(header_i.dtype, written_dim);
  logic [ScaleBits-1:0] scale_q;

  always_comb begin
    write_o = '{
        valid: pack_valid,
        scales: 1'b0,
        index: {values_q, index_q},
        halves: '1,
        data: packed_burst
    };
    if (restores) begin
      write_o.valid = exception_holds;
      write_o.index = {of_values, exception.element[$clog2(BurstHalves)+:TensorBits]};
      write_o.halves = BurstHalves'(1) << exception.element[$clog2(BurstHalves)-1:0];
      write_o.data = {BurstHalves{exception.bits}};
    end else if (beat_valid_i && is_scales && beat_ready_o) begin
      write_o.valid = 1'b1;
      write_o.scales = 1'b1;
      write_o.index = plain_index_t'(scale_q);
      write_o.data = beat_i.data;
    end
  end

  assign done_o = stored_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, values_q, stored_q, index_q, exception_q, scale_q} <= '0;
      {packs_values_q, packed_rows_q} <= '0;
    end else if (clear_i || start_i) begin
      state_q <= start_i && !clear_i ? StKeys : StIdle;
      {values_q, stored_q, index_q, exception_q, scale_q} <= '0;
      {packs_values_q, packed_rows_q} <= '0;
    end else begin
      if (described) state_q <= state_q == StKeys && has_values ? StValues : StDescribed;
      if (word_valid && word_last) begin
        packed_rows_q <= packed_rows_q + 1'b1;
        if (packed_rows_q == '1) packs_values_q <= 1'b1;
      end
      if (pack_valid) index_q <= tensor_ends ? '0 : index_q + 1'b1;
      if (tensor_ends) begin
        values_q <= 1'b1;
        stored_q <= values_q || !has_values;
      end
      if (restores) exception_q <= exception_q + 1'b1;
      if (beat_valid_i && is_scales && beat_ready_o) scale_q <= scale_q + 1'b1;
    end
  end

  wire unused = ^{header_i, beat_i, word_bytes[3:0]};

endmodule
