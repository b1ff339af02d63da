// Stored rows back as they came: elements in the type of the source, exceptions of DELTA4 restored. Takes
// pages and the bursts of their exponents, exceptions and rows in the order of nkv_page_stream; 32 elements a
// cycle. Of pages whose rows all come, those that are not wanted are dropped.

module nkv_row_return
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  parameter int unsigned Ahead = 16        // Pages that may be on their way.
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic           of_values_i,      // Held: value rows, or the leading channels of key rows.

  input  logic           page_valid_i,
  output logic           page_ready_o,
  input  page_header_t   header_i,
  input  token_mask_t    rows_i,           // That are wanted; not zero.
  input  logic           rows_whole_i,     // Held: all rows come.

  input  logic           beat_valid_i,
  output logic           beat_ready_o,
  input  read_beat_t     beat_i,

  input  logic           issue_i,          // There is room for some words more.
  output logic           word_valid_o,     // A word of a row, each in its order.
  output logic           word_wide_o,      // Its elements have two bytes,
  output logic           word_half_o,      // and are half as many.
  output logic [15:0]    element_o[ExactLanes]
);

  localparam int unsigned TokenBits = $clog2(PageTokens);
  localparam int unsigned ExceptionBits = $bits(row_exception_t);

  // ---- Pages, for whoever takes their bursts and for whoever takes their words ----
  typedef struct packed {
    row_format_t format;
    token_mask_t rows;
  } described_t;

  typedef struct packed {
    logic       is_delta4;
    logic       is_wide;        // Elements of two bytes.
    logic       ends_halfway;   // A row's last word has half of its elements.
    dim_t       stored_dim;
    logic [4:0] exceptions;
    token_mask_t rows;          // Wanted.
  } reading_t;

  wire from_keys = !of_values_i || header_i.v_form == RowFormNone;
  wire dim_t used_dim = of_values_i ? dim_t'(header_i.value_dim) : dim_t'(header_i.head_dim);
  wire dim_t stored_dim = from_keys ? dim_t'(header_i.head_dim) : dim_t'(header_i.value_dim);
  wire row_form_e form = from_keys ? header_i.k_form : header_i.v_form;
  wire described_t described = '{
      format: '{
          values: 1'b0,
          list_exponent: '0,
          used_dim: used_dim,
          stored_dim: stored_dim,
          dtype: header_i.dtype,
          form: form
      },
      rows: rows_whole_i ? '1 : rows_i
  };
  wire reading_t reading = '{
      is_delta4: form == RowFormDelta4,
      is_wide: element_bytes(header_i.dtype) == 32'd2,
      ends_halfway: used_dim[$clog2(ChunkChannels)],
      stored_dim: stored_dim,
      exceptions: from_keys ? header_i.k_exceptions[4:0] : header_i.v_exceptions[4:0],
      rows: rows_i
  };

  logic       page_valid, page_described, read_valid, page_read;
  logic       describes_ready, reads_ready;
  described_t page;
  reading_t   read;
  logic [$clog2(Ahead):0] unused_described, unused_reading;

  assign page_ready_o = describes_ready && reads_ready;

  nkv_fifo #(
    .T(described_t),
    .Depth(Ahead)
  ) u_described (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (page_valid_i && reads_ready),
    .in_ready_o (describes_ready),
    .in_data_i  (described),
    .out_valid_o(page_valid),
    .out_ready_i(page_described),
    .out_data_o (page),
    .used_o     (unused_described)
  );

  nkv_fifo #(
    .T(reading_t),
    .Depth(Ahead)
  ) u_reading (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (page_valid_i && describes_ready),
    .in_ready_o (reads_ready),
    .in_data_i  (reading),
    .out_valid_o(read_valid),
    .out_ready_i(page_read),
    .out_data_o (read),
    .used_o     (unused_reading)
  );

  // ---- Bursts: exponents, exceptions, rows ----
  wire is_exponents = 32'(beat_i.tag.array) inside {PageArrayKExponents, PageArrayVExponents};
  wire is_rows = 32'(beat_i.tag.array) inside {PageArrayKRows, PageArrayVRows};
  wire is_exceptions = !is_rows && !is_exponents;
  logic exponents_ready, rows_ready, exceptions_ready, unused_exceptions_valid;
  logic [1:0] unused_exceptions;
  burst_t exceptions;

  assign beat_ready_o = is_rows ? rows_ready : is_exponents ? exponents_ready : exceptions_ready;

  // As many as there are banks of exponents.
  nkv_fifo #(
    .T(burst_t),
    .Depth(2)
  ) u_exceptions (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (beat_valid_i && is_exceptions),
    .in_ready_o (exceptions_ready),
    .in_data_i  (beat_i.data),
    .out_valid_o(unused_exceptions_valid),
    .out_ready_i(page_read && read.is_delta4),
    .out_data_o (exceptions),
    .used_o     (unused_exceptions)
  );

  logic        word_valid, word_last, unused_wants, unused_issued_last;
  logic [TokenBits:0] word_tag;
  word_index_t word_index;
  key_t        word[ExactLanes];

  nkv_page_rows #(
    .Elements(1'b1)
  ) u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .page_valid_i     (page_valid),
    .page_ready_o     (page_described),
    .page_format_i    (page.format),
    .page_rows_i      (page.rows),
    .exponents_valid_i(beat_valid_i && is_exponents),
    .exponents_ready_o(exponents_ready),
    .rows_valid_i     (beat_valid_i && is_rows),
    .rows_ready_o     (rows_ready),
    .first_i          (beat_i.first),
    .last_i           (beat_i.last),
    .burst_i          (beat_i.data),
    .issue_i,
    .wants_o          (unused_wants),
    .issued_last_o    (unused_issued_last),
    .word_valid_o     (word_valid),
    .word_tag_o       (word_tag),
    .word_index_o     (word_index),
    .word_last_o      (word_last),
    .word_o           (word)
  );
  assign page_read = word_valid && word_last && word_tag[TokenBits];

  // ---- Exceptions, where they were ----
  // Where in its page a word begins.
  wire [15:0] word_element = 16'(word_tag[TokenBits-1:0]) * 16'(read.stored_dim) +
      16'(word_index) * 16'(ExactLanes);
  logic [15:0]           placed_q[ExactLanes];
  logic [Exceptions-1:0] hit_q;
  row_exception_t        exception_q[Exceptions];

  always_ff @(posedge clk_i) begin
    if (word_valid) begin
      for (int unsigned i = 0; i < ExactLanes; i++) placed_q[i] <= word[i][15:0];
      word_wide_o <= read.is_wide;
      word_half_o <= read.ends_halfway && word_last;
      hit_q <= '0;
      if (read.is_delta4 && read.exceptions != '0) begin
        for (int unsigned e = 0; e < Exceptions; e++) begin
          automatic row_exception_t exception =
              row_exception_t'(exceptions[ExceptionBits*e+:ExceptionBits]);
          exception.element -= word_element;
          exception_q[e] <= exception;
          hit_q[e] <= 5'(e) < read.exceptions && exception.element < 16'(ExactLanes);
        end
      end
    end
  end

  // Of two for the same element the later one counts.
  always_comb begin
    for (int unsigned i = 0; i < ExactLanes; i++) element_o[i] = placed_q[i];
    if (hit_q != '0) begin
      for (int unsigned e = 0; e < Exceptions; e++) begin
        if (hit_q[e]) element_o[exception_q[e].element[$clog2(ExactLanes)-1:0]] = exception_q[e].bits;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) word_valid_o <= 1'b0;
    else word_valid_o <= word_valid && read.rows[word_tag[TokenBits-1:0]] && !clear_i;
  end

  wire unused = ^{beat_i, header_i, read_valid};

endmodule
