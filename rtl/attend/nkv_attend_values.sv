// The value side of ATTEND DENSE (ARITHMETIC.md section 4): raises the sums to a page's references,
// turns its logits into weights, and has nkv_exact_stage add its value rows under them.
//
// Bursts of a page's values come while its keys are still being scored, so they wait in a queue of
// `Depth` bursts, which holds all key rows of a page whose values are its keys. A row of a token that
// is not visible has weights of zero.

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
  output logic                   page_ready_o,       // All of its values have been added.
  input  page_body_t             page_i,
  input  logic                   page_bank_i,
  input  logic [5:0]             page_raise_i[Rows],
  input  reference_t             page_reference_i[Rows],
  output logic [TokenBits:0]     read_o,             // Of logits.
  input  logit_t                 logit_i[Rows],

  input  logic                   beat_valid_i,       // Exponents and rows of values.
  output logic                   beat_ready_o,
  input  logic                   beat_is_exponents_i,
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
    StRows
  } state_e;

  state_e state_q;

  // ---- Bursts that wait ----
  typedef struct packed {
    logic   is_exponents;
    logic   first;
    logic   last;
    burst_t data;
  } waiting_t;

  logic     waiting_valid, waiting_pop, burst_ready;
  waiting_t waiting;
  logic [$clog2(Depth):0] unused_used;

  nkv_fifo #(
    .T(waiting_t),
    .Depth(Depth)
  ) u_waiting (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (beat_valid_i),
    .in_ready_o (beat_ready_o),
    .in_data_i  ('{
        is_exponents: beat_is_exponents_i,
        first: beat_i.first,
        last: beat_i.last,
        data: beat_i.data
    }),
    .out_valid_o(waiting_valid),
    .out_ready_i(waiting_pop),
    .out_data_o (waiting),
    .used_o     (unused_used)
  );

  wire takes_exponents = waiting_valid && waiting.is_exponents;
  assign waiting_pop = takes_exponents || (waiting_valid && burst_ready);

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
  logic issued_last, unused_row_stored;
  logic [TokenBits:0] word_tag;
  logic [4:0] weighted_q;  // Rows whose weights wait, less those that have begun.

  nkv_page_rows u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .page_valid_i     (state_q == StRows && !described_q),
    .page_ready_o     (described),
    .page_format_i    (format),
    .page_rows_i      ('1),
    .exponents_valid_i(takes_exponents),
    .rows_valid_i     (waiting_valid && !waiting.is_exponents),
    .rows_ready_o     (burst_ready),
    .first_i          (waiting.first),
    .last_i           (waiting.last),
    .burst_i          (waiting.data),
    .issue_i          (weighted_q != '0 && grant_i),
    .wants_o          (unused_row_stored),
    .issued_last_o    (issued_last),
    .word_valid_o,
    .word_tag_o       (word_tag),
    .word_index_o,
    .word_last_o,
    .word_o
  );

  // ---- Weights ----
  logic   weights_start, weight_pop;
  logic   weights_pushed;

  nkv_page_weights u_weights (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i    (weights_start),
    .visible_i  (page_i.tokens & ~page_i.nonfinite),
    .bank_i     (page_bank_i),
    .reference_i(page_reference_i),
    .read_o,
    .logit_i,
    .pushed_o   (weights_pushed),
    .pop_i      (weight_pop),
    .weight_o,
    .shift_o,
    .units_o
  );

  // ---- Sums ----
  logic raise_any;
  always_comb begin
    raise_any = 1'b0;
    for (int unsigned r = 0; r < Rows; r++) raise_any |= page_raise_i[r] != '0;
  end
  assign raise_valid_o = state_q == StRaise;
  assign raise_o = page_raise_i;
  assign last_word_o = word_index_t'((value_dim_i - 1'b1) >> $clog2(ExactLanes));

  assign weight_pop = word_valid_o && word_last_o;
  assign weights_start = state_q == StPage && page_valid_i;
  wire ends = word_valid_o && word_last_o && word_tag[TokenBits];
  assign page_ready_o = state_q == StRows && ends;
  assign idle_o = state_q == StPage && !page_valid_i && sums_idle_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StPage;
      described_q <= 1'b0;
      weighted_q <= '0;
    end else if (clear_i) begin
      state_q <= StPage;
      described_q <= 1'b0;
      weighted_q <= '0;
    end else begin
      weighted_q <= weighted_q + 5'(weights_pushed) - 5'(issued_last);
      if (described) described_q <= 1'b1;
      unique case (state_q)
        StPage: begin
          described_q <= 1'b0;
          if (page_valid_i) state_q <= raise_any ? StRaise : StRows;
        end
        StRaise: if (sums_ready_i) state_q <= StRaised;
        StRaised: if (sums_ready_i) state_q <= StRows;
        StRows: if (ends) state_q <= StPage;
        default: state_q <= StPage;
      endcase
    end
  end

  wire unused = ^{page_i.page, page_i.crc_hot, page_i.k_step_exponent, beat_i.fault, beat_i.poison,
                  beat_i.tag, word_tag[TokenBits-1:0]};

endmodule
