// nkv_attend_logits and nkv_attend_values as nkv_attend joins them, with their set-up.
module nkv_attend_sums_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,

  input  logic          set_i,               // A scale; done with `set_o`.
  input  logic [31:0]   scale_i,
  input  logic [31:0]   soft_cap_i,
  input  exponent_t     key_exponent_i,
  output logic          set_o,
  input  exponent_t     query_exponent_i[Rows],
  input  exponent_t     value_exponent_i,
  input  dim_t          head_dim_i,
  input  dim_t          value_dim_i,

  input  logic          page_valid_i,
  output logic          page_ready_o,
  input  page_body_t    page_i,

  input  logic          score_valid_i,
  output logic          score_ready_o,
  input  logic [5:0]    score_token_i,
  input  logic          score_last_i,
  input  score_t        score_i[Rows],

  input  logic          beat_valid_i,
  output logic          beat_ready_o,
  input  read_beat_t    beat_i,

  input  logic          grant_i,
  output logic          word_valid_o,
  output word_index_t   word_index_o,
  output logic          word_last_o,
  output key_t          word_o[ExactLanes],
  output weight_t       weight_o[Rows],
  output shift_t        shift_o[Rows],
  output units_t        units_o[Rows],
  output logic          raise_valid_o,
  output logic [5:0]    raise_o[Rows],
  input  logic          sums_ready_i,
  output reference_t    reference_o[Rows],
  output logic          idle_o
);

  logit_scale_t scale;
  nkv_logit_setup u_setup (
    .start_i(set_i),
    .done_o (set_o),
    .scale_o(scale),
    .*
  );

  // ---- Pages, for logits and for values ----
  logic [1:0] pages_ready;
  logic       to_logits_valid, to_logits_ready, to_values_valid, to_values_ready;
  page_body_t to_logits, to_values;
  logic [$clog2(PagesAhead):0] unused_logits_used, unused_values_used;
  assign page_ready_o = &pages_ready;

  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_to_logits (
    .in_valid_i (page_valid_i && page_ready_o),
    .in_ready_o (pages_ready[0]),
    .in_data_i  (page_i),
    .out_valid_o(to_logits_valid),
    .out_ready_i(to_logits_ready),
    .out_data_o (to_logits),
    .used_o     (unused_logits_used),
    .*
  );
  nkv_fifo #(
    .T(page_body_t),
    .Depth(PagesAhead)
  ) u_to_values (
    .in_valid_i (page_valid_i && page_ready_o),
    .in_ready_o (pages_ready[1]),
    .in_data_i  (page_i),
    .out_valid_o(to_values_valid),
    .out_ready_i(to_values_ready),
    .out_data_o (to_values),
    .used_o     (unused_values_used),
    .*
  );

  // ---- Logits ----
  logic       logits_valid, logits_idle, take;
  logic       ready_page_q;                  // A page's logits are complete.
  logit_t     logit[Rows];
  logic [5:0] raise[Rows];
  reference_t reference[Rows];

  nkv_attend_logits u_logits (
    .scale_i         (scale),
    .page_valid_i    (to_logits_valid),
    .page_ready_o    (to_logits_ready),
    .page_visible_i  (to_logits.tokens & ~to_logits.nonfinite),
    .done_valid_o    (logits_valid),
    .done_ready_i    (!ready_page_q),
    .done_raise_o    (raise),
    .done_reference_o(reference),
    .take_i          (take),
    .release_i       (to_values_ready),
    .logit_o         (logit),
    .idle_o          (logits_idle),
    .*
  );

  // ---- That page, until its values have been added ----
  logic [5:0] raise_q[Rows];
  reference_t reference_q[Rows];
  assign reference_o = reference_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) ready_page_q <= 1'b0;
    else if (clear_i || to_values_ready) ready_page_q <= 1'b0;
    else if (logits_valid) ready_page_q <= 1'b1;
  end
  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < Rows; r++) begin
      if (logits_valid && !ready_page_q) begin
        raise_q[r] <= raise[r];
        reference_q[r] <= reference[r];
      end else if (clear_i) begin
        reference_q[r] <= NoReference;
      end
    end
  end

  // ---- Values ----
  logic        values_idle;
  word_index_t unused_last_word;

  nkv_attend_values u_values (
    .page_valid_i    (ready_page_q && to_values_valid),
    .page_ready_o    (to_values_ready),
    .page_i          (to_values),
    .page_raise_i    (raise_q),
    .page_reference_i(reference_q),
    .take_o          (take),
    .logit_i         (logit),
    .last_word_o     (unused_last_word),
    .sums_idle_i     (sums_ready_i),
    .idle_o          (values_idle),
    .*
  );

  assign idle_o = logits_idle && values_idle && !to_logits_valid && !to_values_valid && !ready_page_q;
  wire unused = ^to_logits;

endmodule
