// Rows of an array that streams by, page after page, as words of integers, or of their elements: describes
// the wanted rows of each page to nkv_row_decode or nkv_row_elements, and keeps its format and its banks
// of channel exponents in order.
//
// A page says which of its rows come and how they are stored, before their bursts; a page of another
// format waits until the rows before it are through. A page's exponents come before its rows. Words
// carry their row and whether they are their page's last.

module nkv_page_rows
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  parameter bit Elements = 1'b0,               // Words hold patterns of the rows' type.
  localparam int unsigned TokenBits = $clog2(PageTokens)
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,

  input  logic               page_valid_i,
  output logic               page_ready_o,     // Its rows have been described.
  input  row_format_t        page_format_i,
  input  token_mask_t        page_rows_i,      // Not zero.

  input  logic               exponents_valid_i,  // Bursts of exponents,
  output logic               exponents_ready_o,  // once a bank is free of the rows of a page before.
  input  logic               rows_valid_i,       // Bursts of rows.
  output logic               rows_ready_o,
  input  logic               first_i,            // Of the array.
  input  logic               last_i,
  input  burst_t             burst_i,

  input  logic               issue_i,
  output logic               wants_o,          // A row is complete.
  output logic               issued_last_o,    // In this cycle a row's last word starts.
  output logic               word_valid_o,
  output logic [TokenBits:0] word_tag_o,       // Last word of its page, and the row.
  output word_index_t        word_index_o,
  output logic               word_last_o,      // Of its row.
  output key_t               word_o[ExactLanes]
);

  row_format_t format_q;
  logic steady_q;  // The decoder, which is a cycle behind, has the format too.
  logic decoder_idle, row_valid, row_ready, row_last, row_shared;
  logic [TokenBits-1:0] row;
  logic [2:0] row_start, unused_row_bursts;
  logic [7:0] unused_row_burst;
  wire fits = page_format_i == format_q;

  nkv_row_places u_places (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i     (page_valid_i && fits && steady_q),
    .ready_o     (page_ready_o),
    .rows_i      (page_rows_i),
    .granules_i  (row_granules(format_q.form, format_q.dtype, format_q.stored_dim)),
    .row_valid_o (row_valid),
    .row_ready_i (row_ready),
    .row_o       (row),
    .row_last_o  (row_last),
    .row_start_o (row_start),
    .row_shared_o(row_shared),
    .row_burst_o (unused_row_burst),
    .row_bursts_o(unused_row_bursts)
  );

  // Banks of exponents take turns, on arrival and in use alike. One is free again when its page's last
  // row has come out.
  logic arriving_bank_q, used_bank_q;
  logic [1:0] banks_q;  // Taken.
  assign exponents_ready_o = !first_i || banks_q != 2'd2;
  wire exponents_taken = exponents_valid_i && exponents_ready_o;
  wire bank_taken = exponents_taken && first_i;
  wire bank_free = word_valid_o && word_tag_o[TokenBits] && format_q.form == RowFormDelta4;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      format_q <= '0;
      steady_q <= 1'b0;
      arriving_bank_q <= 1'b0;
      used_bank_q <= 1'b0;
      banks_q <= '0;
    end else if (clear_i) begin
      steady_q <= 1'b0;
      arriving_bank_q <= 1'b0;
      used_bank_q <= 1'b0;
      banks_q <= '0;
    end else begin
      banks_q <= banks_q + 2'(bank_taken) - 2'(bank_free);
      steady_q <= fits;
      if (page_valid_i && !fits && decoder_idle) format_q <= page_format_i;
      if (exponents_taken && last_i) arriving_bank_q <= !arriving_bank_q;
      if (page_valid_i && page_ready_o && format_q.form == RowFormDelta4) begin
        used_bank_q <= !used_bank_q;
      end
    end
  end

  if (Elements) begin : gen_elements
    logic [15:0] element[ExactLanes];
    nkv_row_elements #(
      .TagBits(TokenBits)
    ) u_elements (
      .clk_i,
      .rst_ni,
      .clear_i,
      .format_i         (format_q),
      .exponents_valid_i(exponents_taken),
      .exponents_bank_i (arriving_bank_q),
      .exponents_burst_i(!first_i),
      .exponents_i      (burst_i),
      .row_valid_i      (row_valid),
      .row_ready_o      (row_ready),
      .row_tag_i        (row),
      .row_last_i       (row_last),
      .row_bank_i       (used_bank_q),
      .row_start_i      (row_start),
      .row_shared_i     (row_shared),
      .burst_valid_i    (rows_valid_i),
      .burst_ready_o    (rows_ready_o),
      .burst_i,
      .issue_i,
      .wants_o,
      .issued_last_o,
      .word_valid_o,
      .word_tag_o       (word_tag_o[TokenBits-1:0]),
      .word_index_o,
      .word_last_o,
      .word_pass_last_o (word_tag_o[TokenBits]),
      .word_o           (element),
      .idle_o           (decoder_idle)
    );
    always_comb begin
      for (int unsigned i = 0; i < ExactLanes; i++) word_o[i] = key_t'(element[i]);
    end
  end else begin : gen_integers
    nkv_row_decode #(
      .TagBits(TokenBits)
    ) u_decode (
      .clk_i,
      .rst_ni,
      .clear_i,
      .format_i         (format_q),
      .exponents_valid_i(exponents_taken),
      .exponents_bank_i (arriving_bank_q),
      .exponents_burst_i(!first_i),
      .exponents_i      (burst_i),
      .row_valid_i      (row_valid),
      .row_ready_o      (row_ready),
      .row_tag_i        (row),
      .row_last_i       (row_last),
      .row_bank_i       (used_bank_q),
      .row_start_i      (row_start),
      .row_shared_i     (row_shared),
      .burst_valid_i    (rows_valid_i),
      .burst_ready_o    (rows_ready_o),
      .burst_i,
      .issue_i,
      .wants_o,
      .issued_last_o,
      .word_valid_o,
      .word_tag_o       (word_tag_o[TokenBits-1:0]),
      .word_index_o,
      .word_last_o,
      .word_pass_last_o (word_tag_o[TokenBits]),
      .word_o,
      .idle_o           (decoder_idle)
    );
  end

endmodule
