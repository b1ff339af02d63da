// Exact scores of the key rows that stream by, page after page: decodes rows, has nkv_exact_stage
// multiply them with the query rows, and queues S of each row in order (ARITHMETIC.md 1.2 and 1.5).

`include "nkv_assert.svh"

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

  input  logic                 exponents_valid_i,  // Bursts of K_EXPONENTS.
  output logic                 exponents_ready_o,
  input  logic                 rows_valid_i,       // Bursts of K_ROWS.
  output logic                 rows_ready_o,
  input  read_beat_t           beat_i,

  // Words go to the exact stage, and come back as scores in their order.
  output logic                 wants_o,         // A word begins in this cycle.
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

  // ---- Rows to words; scores come back in their order ----
  logic [6:0] credits_q;  // Places of the queue that no row under way will take.
  logic issued_last, row_stored;
  assign wants_o = row_stored && credits_q != '0;

  nkv_page_rows u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .page_valid_i,
    .page_ready_o,
    .page_format_i    ('{
        values: 1'b0,
        list_exponent: key_exponent_i,
        used_dim: head_dim_i,
        stored_dim: head_dim_i,
        dtype: page_dtype_i,
        form: page_form_i
    }),
    .page_rows_i      ('1),
    .exponents_valid_i,
    .exponents_ready_o,
    .rows_valid_i,
    .rows_ready_o,
    .first_i          (beat_i.first),
    .last_i           (beat_i.last),
    .burst_i          (beat_i.data),
    .issue_i          (wants_o),
    .wants_o          (row_stored),
    .issued_last_o    (issued_last),
    .word_valid_o,
    .word_tag_o,
    .word_index_o,
    .word_last_o,
    .word_o
  );

  // ---- Queue: one narrow memory per query row ----
  logic [5:0] write_q, read_q;
  logic [6:0] used_q;
  (* ram_style = "distributed" *) logic [TagBits-1:0] tags[Queue];
  wire pop = score_valid_o && score_ready_i;

  assign score_valid_o = used_q != '0;
  assign {score_last_o, score_token_o} = tags[read_q];

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    (* ram_style = "distributed" *) score_t memory[Queue];
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

  `NKV_ASSERT_STAYS(ScoreStays_A, score_valid_o, score_ready_i, {score_token_o, score_last_o}, clear_i)

endmodule
