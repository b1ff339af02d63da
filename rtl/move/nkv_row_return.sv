// Stored rows back as they came: elements in the type of the source, exceptions of DELTA4 restored,
// row after row without a gap, written as bursts. Takes pages and the bursts of their exponents, exceptions
// and chosen rows in the order of nkv_page_stream; 32 elements a cycle.

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

  input  logic           start_i,
  input  logic           of_values_i,      // Held: value rows, or the leading channels of key rows.
  input  logic [63:0]    address_i,        // A multiple of 64.
  input  logic [31:0]    bytes_i,          // Of all rows.
  output logic           done_o,           // All have been handed on.

  input  logic           page_valid_i,
  output logic           page_ready_o,
  input  page_header_t   header_i,
  input  token_mask_t    rows_i,           // Not zero.

  input  logic           beat_valid_i,
  output logic           beat_ready_o,
  input  read_beat_t     beat_i,

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  localparam int unsigned TokenBits = $clog2(PageTokens);
  localparam int unsigned PieceBytes = 16;  // Rows are of whole ones.
  localparam int unsigned Pieces = BurstBytes / PieceBytes;
  localparam int unsigned WordsAhead = 8;   // Between a row's start and the queue of bursts.
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
      rows: rows_i
  };
  wire reading_t reading = '{
      is_delta4: form == RowFormDelta4,
      is_wide: element_bytes(header_i.dtype) == 32'd2,
      ends_halfway: used_dim[$clog2(ChunkChannels)],
      stored_dim: stored_dim,
      exceptions: from_keys ? header_i.k_exceptions[4:0] : header_i.v_exceptions[4:0]
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
  wire is_exponents = beat_i.tag.array inside {4'(PageArrayKExponents), 4'(PageArrayVExponents)};
  wire is_rows = !beat_i.tag.whole;
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
  logic [$clog2(2*WordsAhead):0] bursts_used;

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
    .issue_i          (bursts_used < ($clog2(2 * WordsAhead) + 1)'(WordsAhead)),
    .again_i          (1'b0),
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
  logic                  placed_valid_q, placed_wide_q, placed_half_q;
  logic [15:0]           placed_q[ExactLanes];
  logic [Exceptions-1:0] hit_q;
  row_exception_t        exception_q[Exceptions];
  logic [15:0]           restored[ExactLanes];

  always_ff @(posedge clk_i) begin
    if (word_valid) begin
      for (int unsigned i = 0; i < ExactLanes; i++) placed_q[i] <= word[i][15:0];
      placed_wide_q <= read.is_wide;
      placed_half_q <= read.ends_halfway && word_last;
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
    for (int unsigned i = 0; i < ExactLanes; i++) restored[i] = placed_q[i];
    if (hit_q != '0) begin
      for (int unsigned e = 0; e < Exceptions; e++) begin
        if (hit_q[e]) restored[exception_q[e].element[$clog2(ExactLanes)-1:0]] = exception_q[e].bits;
      end
    end
  end

  // ---- Words side by side ----
  logic [31:0] bytes_q, left_q;  // That come out of rows, and that are still to be handed on.
  logic [63:0] address_q;
  logic        fills_q;          // With anything, a burst that rows leave half full.
  logic        pack_valid;
  logic [$clog2(Pieces):0] pieces;
  wire [31:0] placed_bytes = 32'd64 >> (32'(!placed_wide_q) + 32'(placed_half_q));
  wire ends = placed_valid_q && bytes_q == placed_bytes;

  always_comb begin
    pieces = (1 + $clog2(Pieces))'(placed_bytes >> $clog2(PieceBytes));
    // Fewer than a burst are left, all of them in the packer.
    if (fills_q) pieces = (1 + $clog2(Pieces))'(Pieces) - (1 + $clog2(Pieces))'(left_q[5:4]);
  end

  burst_t pack_burst, burst;
  logic   unused_bursts_ready;

  nkv_element_pack u_pack (
    .clk_i,
    .rst_ni,
    .clear_i  (clear_i || start_i),
    .valid_i  (placed_valid_q || fills_q),
    .is_wide_i(placed_wide_q),
    .count_i  (pieces),
    .element_i(restored),
    .valid_o  (pack_valid),
    .burst_o  (pack_burst)
  );

  nkv_fifo #(
    .T(burst_t),
    .Depth(2 * WordsAhead)
  ) u_bursts (
    .clk_i,
    .rst_ni,
    .clear_i    (clear_i || start_i),
    .in_valid_i (pack_valid),
    .in_ready_o (unused_bursts_ready),
    .in_data_i  (pack_burst),
    .out_valid_o(write_valid_o),
    .out_ready_i(write_ready_i),
    .out_data_o (burst),
    .used_o     (bursts_used)
  );

  wire is_last = left_q <= 32'(BurstBytes);
  assign write_o = '{
      address: address_q,
      strobes: is_last ? ~({BurstBytes{1'b1}} << left_q[$clog2(BurstBytes):0]) : '1,
      data: burst
  };
  assign done_o = left_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {placed_valid_q, fills_q, bytes_q, left_q, address_q} <= '0;
    end else if (clear_i) begin
      {placed_valid_q, fills_q, bytes_q, left_q} <= '0;
    end else begin
      placed_valid_q <= word_valid;
      fills_q <= ends && left_q[5:4] != '0;
      if (placed_valid_q) bytes_q <= bytes_q - placed_bytes;
      if (write_valid_o && write_ready_i) begin
        address_q <= address_q + 64'(BurstBytes);
        left_q <= is_last ? '0 : left_q - 32'(BurstBytes);
      end
      if (start_i) begin
        bytes_q <= bytes_i;
        left_q <= bytes_i;
        address_q <= address_i;
      end
    end
  end

  wire unused = ^{beat_i, header_i, read_valid};

endmodule
