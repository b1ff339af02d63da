// The value side of ATTEND (ARITHMETIC.md section 4): raises the sums to a page's references, turns its
// logits into weights, and has nkv_exact_stage add its value rows under them.
//
//   exponents, rows --> queue --> page_rows --> words, with weights of page_weights
//
// Bursts of a page's values come while its keys are still being scored, so they wait in a queue of
// `Depth` bursts, which holds all key rows of a page whose values are its keys. A row of a token that
// is not visible has weights of zero. A page is done with once its weights are on their way: its words
// may still come while the next page's do, but for a raise, which waits for all words before it.

module nkv_attend_values
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  parameter int unsigned Depth = 512,
  localparam int unsigned TokenBits = $clog2(PageTokens)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   clear_i,            // Before each command, while idle_o.

  input  exponent_t              value_exponent_i,   // Ev; held during a command, as the dims are.
  input  dim_t                   head_dim_i,
  input  dim_t                   value_dim_i,

  input  logic                   page_valid_i,       // Its logits are complete.
  output logic                   page_ready_o,       // Its logits and references are done with.
  input  page_body_t             page_i,
  input  logic [5:0]             page_raise_i[Rows],
  input  reference_t             page_reference_i[Rows],
  output logic                   take_o,             // Logits (nkv_attend_logits).
  input  logit_t                 logit_i[Rows],

  input  logic                   beat_valid_i,       // Exponents and rows of values.
  output logic                   beat_ready_o,
  input  read_beat_t             beat_i,

  // Words go to the exact stage in cycles that it grants, with their weights.
  input  logic                   grant_i,
  output logic                   word_valid_o,
  output word_index_t            word_index_o,
  output logic                   word_last_o,
  output key_t                   word_o[ExactLanes],
  output word_index_t            last_word_o,
  output weight_t                weight_o[Rows],
  output shift_t                 shift_o[Rows],
  output units_t                 units_o[Rows],
  output logic                   raise_valid_o,
  output logic [5:0]             raise_o[Rows],
  input  logic                   sums_ready_i,
  input  logic                   sums_idle_i,

  output logic                   idle_o
);

  typedef enum logic [1:0] {
    StPage,
    StRaise,
    StRaised,
    StRows       // Until its rows are described, and its weights on their way.
  } state_e;

  state_e state_q;

  logic raise_any;
  always_comb begin
    raise_any = 1'b0;
    for (int unsigned r = 0; r < Rows; r++) raise_any |= page_raise_i[r] != '0;
  end

  // ---- Bursts that wait: rows and their exponents ----
  typedef struct packed {
    logic   is_exponents;
    logic   first;
    logic   last;
    burst_t data;
  } waiting_t;

  logic     waiting_valid, waiting_pop;
  waiting_t waiting;
  logic [$clog2(Depth):0] unused_waiting;

  nkv_fifo #(
    .T(waiting_t),
    .Depth(Depth),
    .Block(1'b1)
  ) u_waiting (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (beat_valid_i),
    .in_ready_o (beat_ready_o),
    .in_data_i  ('{
        is_exponents: 32'(beat_i.tag.array) inside {PageArrayKExponents, PageArrayVExponents},
        first: beat_i.first,
        last: beat_i.last,
        data: beat_i.data
    }),
    .out_valid_o(waiting_valid),
    .out_ready_i(waiting_pop),
    .out_data_o (waiting),
    .used_o     (unused_waiting)
  );

  logic burst_ready, exponents_ready;
  wire is_row = waiting_valid && !waiting.is_exponents;
  wire is_exponents = waiting_valid && waiting.is_exponents;
  assign waiting_pop = is_row ? burst_ready : is_exponents && exponents_ready;

  // ---- Rows to values ----
  wire values_are_keys = page_i.v_form == RowFormNone;
  wire row_format_t format = '{
      values: 1'b1,
      list_exponent: value_exponent_i,
      used_dim: value_dim_i,
      stored_dim: values_are_keys ? head_dim_i : value_dim_i,
      dtype: page_i.dtype,
      form: values_are_keys ? page_i.k_form : page_i.v_form
  };

  logic described, described_q;
  logic row_due, row_issued_last, unused_row_stored;
  logic [TokenBits:0] word_tag;

  nkv_page_rows u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .page_valid_i     (state_q == StRows && !described_q),
    .page_ready_o     (described),
    .page_format_i    (format),
    .page_rows_i      ('1),
    .exponents_valid_i(is_exponents),
    .exponents_ready_o(exponents_ready),
    .rows_valid_i     (is_row),
    .rows_ready_o     (burst_ready),
    .first_i          (waiting.first),
    .last_i           (waiting.last),
    .burst_i          (waiting.data),
    .issue_i          (row_due && grant_i),
    .wants_o          (unused_row_stored),
    .issued_last_o    (row_issued_last),
    .word_valid_o,
    .word_tag_o       (word_tag),
    .word_index_o,
    .word_last_o,
    .word_o
  );
  wire page_out = word_valid_o && word_tag[TokenBits];

  // ---- Weights ----
  logic weights_idle;
  wire page_taken = state_q == StPage && page_valid_i;
  wire rows_begin = (page_taken && !raise_any) || (state_q == StRaised && sums_ready_i);

  nkv_page_weights u_weights (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i     (page_taken),
    .visible_i   (page_i.tokens & ~page_i.nonfinite),
    .reference_i (page_reference_i),
    .take_o,
    .logit_i,
    .row_due_o   (row_due),
    .row_issued_i(row_issued_last),
    .pop_i       (word_valid_o && word_last_o),
    .weight_o,
    .shift_o,
    .units_o,
    .idle_o      (weights_idle)
  );

  // ---- Sums ----
  logic [4:0] pages_due_q;  // Whose rows have not all come out.
  wire words_due = pages_due_q != '0;
  assign raise_valid_o = state_q == StRaise && !words_due;
  assign raise_o = page_raise_i;
  assign last_word_o = word_index_t'((value_dim_i - 1'b1) >> $clog2(ExactLanes));
  assign page_ready_o = state_q == StRows && weights_idle && (described || described_q);
  assign idle_o = state_q == StPage && !page_valid_i && !words_due && sums_idle_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StPage;
      described_q <= 1'b0;
      pages_due_q <= '0;
    end else if (clear_i) begin
      state_q <= StPage;
      described_q <= 1'b0;
      pages_due_q <= '0;
    end else begin
      pages_due_q <= pages_due_q + 5'(rows_begin) - 5'(page_out);
      unique case (state_q)
        StPage: begin
          described_q <= 1'b0;
          if (page_taken) state_q <= raise_any ? StRaise : StRows;
        end
        StRaise: if (raise_valid_o && sums_ready_i) state_q <= StRaised;
        StRaised: if (sums_ready_i) state_q <= StRows;
        StRows: begin
          if (described) described_q <= 1'b1;
          if (page_ready_o) state_q <= StPage;
        end
        default: state_q <= StPage;
      endcase
    end
  end

  wire unused = ^{page_i.page, page_i.key_scales, beat_i.fault, beat_i.poison, beat_i.tag,
                  word_tag[TokenBits-1:0]};

endmodule
