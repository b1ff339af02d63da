// Exact scores of the key rows that stream by, page after page: decodes rows, has nkv_exact_stage
// multiply them with the query rows, and queues S of each row in order (ARITHMETIC.md 1.2 and 1.5).
//
// A page says which of its rows come and how they are stored, before their bursts; pages of another
// format wait until the rows before them are through. A page's channel exponents come before its rows.

module nkv_key_scores
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  localparam int unsigned TokenBits = $clog2(PageTokens)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,

  input  exponent_t            key_exponent_i,  // Ek; with head_dim_i held during a command.
  input  dim_t                 head_dim_i,

  input  logic                 page_valid_i,
  output logic                 page_ready_o,
  input  row_form_e            page_form_i,
  input  dtype_e               page_dtype_i,
  input  token_mask_t          page_rows_i,     // Not zero.

  input  logic                 exponents_valid_i,  // Bursts of K_EXPONENTS; always taken.
  input  logic                 rows_valid_i,       // Bursts of K_ROWS.
  output logic                 rows_ready_o,
  input  read_beat_t           beat_i,

  // Words go to the exact stage in cycles that it grants, and come back as scores in their order.
  output logic                 wants_o,
  input  logic                 grant_i,
  output logic                 word_valid_o,
  output logic [TokenBits:0]   word_tag_o,
  output word_index_t          word_index_o,
  output logic                 word_last_o,
  output key_t                 word_o[ExactLanes],
  input  logic                 dot_valid_i,
  input  logic [TokenBits:0]   dot_tag_i,
  input  score_t               dot_i[Rows],

  output logic                 score_valid_o,
  input  logic                 score_ready_i,
  output logic [TokenBits-1:0] score_token_o,   // In its page.
  output logic                 score_last_o,    // Of its page.
  output score_t               score_o[Rows]
);

  localparam int unsigned TagBits = TokenBits + 1;
  localparam int unsigned Queue = 64;  // More than the rows that fit between issue and queue.

  // ---- Format of the rows under way ----
  row_format_t format_q;
  wire row_format_t format = '{
      values: 1'b0,
      list_exponent: key_exponent_i,
      used_dim: head_dim_i,
      stored_dim: head_dim_i,
      dtype: page_dtype_i,
      form: page_form_i
  };
  logic decoder_idle;
  wire  fits = format == format_q;
  wire  is_delta4 = format_q.form == RowFormDelta4;
  wire [5:0] chunks = 6'(head_dim_i[7:4]);
  wire [5:0] granules = is_delta4 ? chunks * 6'd3 :
      6'(chunks << $clog2(ChunkChannels / 8)) * 6'(element_bytes(format_q.dtype));

  logic places_ready, row_valid, row_ready, row_last, row_shared;
  logic [TokenBits-1:0] row;
  logic [2:0] row_start, unused_row_bursts;
  logic [7:0] unused_row_burst;

  assign page_ready_o = places_ready;

  nkv_row_places u_places (
    .clk_i,
    .rst_ni,
    .clear_i,
    .valid_i     (page_valid_i && fits),
    .ready_o     (places_ready),
    .rows_i      (page_rows_i),
    .granules_i  (granules),
    .row_valid_o (row_valid),
    .row_ready_i (row_ready),
    .row_o       (row),
    .row_last_o  (row_last),
    .row_start_o (row_start),
    .row_shared_o(row_shared),
    .row_burst_o (unused_row_burst),
    .row_bursts_o(unused_row_bursts)
  );

  // Banks of exponents take turns, on arrival and in use alike.
  logic arriving_bank_q, used_bank_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      format_q <= '0;
      arriving_bank_q <= 1'b0;
      used_bank_q <= 1'b0;
    end else if (clear_i) begin
      arriving_bank_q <= 1'b0;
      used_bank_q <= 1'b0;
    end else begin
      if (page_valid_i && !fits && decoder_idle) format_q <= format;
      if (exponents_valid_i && beat_i.last) arriving_bank_q <= !arriving_bank_q;
      if (page_valid_i && page_ready_o && is_delta4) used_bank_q <= !used_bank_q;
    end
  end

  // ---- Rows to scores ----
  logic [6:0] credits_q;  // Places of the queue that no row under way will take.
  logic issued_last, row_stored, unused_pass_last;
  assign wants_o = row_stored && credits_q != '0;

  nkv_row_decode #(
    .TagBits(TagBits)
  ) u_decode (
    .clk_i,
    .rst_ni,
    .clear_i,
    .format_i         (format_q),
    .exponents_valid_i,
    .exponents_bank_i (arriving_bank_q),
    .exponents_burst_i(!beat_i.first),
    .exponents_i      (beat_i.data),
    .row_valid_i      (row_valid),
    .row_ready_o      (row_ready),
    .row_tag_i        ({row_last, row}),
    .row_last_i       (1'b0),
    .row_bank_i       (used_bank_q),
    .row_start_i      (row_start),
    .row_shared_i     (row_shared),
    .burst_valid_i    (rows_valid_i),
    .burst_ready_o    (rows_ready_o),
    .burst_i          (beat_i.data),
    .issue_i          (wants_o && grant_i),
    .wants_o          (row_stored),
    .issued_last_o    (issued_last),
    .word_valid_o,
    .word_tag_o,
    .word_index_o,
    .word_last_o,
    .word_pass_last_o (unused_pass_last),
    .word_o,
    .idle_o           (decoder_idle)
  );

  // ---- Queue: one narrow memory per query row ----
  logic [5:0] write_q, read_q;
  logic [6:0] used_q;
  logic [TagBits-1:0] tags[Queue];
  wire pop = score_valid_o && score_ready_i;

  assign score_valid_o = used_q != '0;
  assign {score_last_o, score_token_o} = tags[read_q];

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    score_t memory[Queue];
    always_ff @(posedge clk_i) if (dot_valid_i) memory[write_q] <= dot_i[r];
    assign score_o[r] = memory[read_q];
  end

  always_ff @(posedge clk_i) if (dot_valid_i) tags[write_q] <= dot_tag_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q <= '0;
      used_q <= '0;
      credits_q <= 7'(Queue);
    end else if (clear_i) begin
      write_q <= '0;
      read_q <= '0;
      used_q <= '0;
      credits_q <= 7'(Queue);
    end else begin
      if (dot_valid_i) write_q <= write_q + 1'b1;
      if (pop) read_q <= read_q + 1'b1;
      used_q <= used_q + 7'(dot_valid_i) - 7'(pop);
      credits_q <= credits_q + 7'(pop) - 7'(issued_last);
    end
  end

  wire unused_beat = ^{beat_i.fault, beat_i.poison, beat_i.tag};

endmodule
