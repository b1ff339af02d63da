// Scores of pages by the codes of their keys: of a query's rows against all tokens of a page by their
// first planes (ARITHMETIC.md 12 in a search), and which tokens may yet be among the best (14.3). First
// the query and the gains come, then rows are made ready, then sign sets and pages in any order, of
// which a page needs its set.
//
//   query rows, gains --> code_query --> rows --> code_weights --> tables: one set, while another is used
//   summary --> means --> code_mean_logit: one page, while another one's factors are made by code_logits,
//   planes --> code_slices --> code_sums --> code_logits: and a third one's tokens are scored

`include "nkv_assert.svh"

module nkv_code_scores
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::granule_t;
  import nkv_ingest_pkg::GranuleBytes;
  import nkv_codes_pkg::*;
#(
  localparam int unsigned GainIndexBits = $clog2(Channels / GranuleBytes)
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,            // Before each command.

  // Of the command; held.
  input  dim_t          dim_i,
  input  group_t        rows_i,             // At least 1.
  input  logic [7:0]    z_i,
  input  plane_t        last_plane_i,       // Planes that pages are scored by, less one. It may change
                                            // while no page is here.
  input  logic          ranked_i,           // There are thresholds: without, no token is alive.
  input  threshold_t    threshold_i[Rows],  // Of tau.

  input  logic          query_valid_i,      // Words of rows, in any order, before start_i.
  input  row_index_t    query_row_i,
  input  word_index_t   query_word_i,
  input  query_t        query_i[ExactLanes],  // Zero beyond the row's end.
  input  exponent_t     query_exponent_i[Rows],
  input  logic          gains_valid_i,      // As nkv_code_gains gives them, before start_i.
  input  logic [GainIndexBits-1:0] gains_index_i,
  input  granule_t      gains_i,
  input  logic          start_i,            // Rows are made ready, with T.
  input  search_top_t   top_i,
  output logic          ready_o,            // From then on till clear_i.
  output code_row_t [Rows-1:0] row_o,

  input  logic          set_valid_i,        // A sign set, for pages that name its bank.
  output logic          set_ready_o,
  input  sign_set_t     set_i,
  input  logic          set_bank_i,         // No page that is here names it.
  output logic          set_done_o,         // For one cycle.

  input  logic          page_valid_i,       // A page whose set is there. Its summary's bursts come next.
  output logic          page_ready_o,
  input  code_page_t    page_i,
  input  logic          summary_valid_i,
  output logic          summary_ready_o,
  input  logic          summary_last_i,     // The first 1 + ceil(dim / 64) bursts of CODE_SUMMARY count.
  input  burst_t        summary_i,
  input  logic          plane_valid_i,      // Planes of pages, in the pages' order.
  output logic          plane_ready_o,
  input  burst_t        plane_burst_i,
  input  logic          plane_last_i,       // Of its page.
  input  logic          plane_first_i,      // As nkv_code_slices has them.
  input  slice_index_t  plane_slice_i,
  input  plane_t        plane_i,

  output logic          valid_o,            // A slice that its last plane has told of.
  output logic          last_o,             // Of its page.
  output slice_index_t  slice_o,
  output code_octaves_t octave_o[Rows],     // I of the page,
  output code_above_t   above_o[Rows][SliceTokens],  // and R.
  output logic [SliceTokens-1:0] alive_o,
  output logic          loud_o              // Codes could not say a score (12.3); until clear_i.
);

  localparam int unsigned RowCycles = 20;   // Of tables: words, then entries.
  localparam int unsigned QueryWordBits = ExactLanes * QueryBits;
  typedef logic [$clog2(Rows*RowWords)-1:0] place_t;
  typedef logic [QueryWordBits-1:0] query_word_t;

  wire word_index_t last_index = word_index_t'((dim_i - 1'b1) >> $clog2(ExactLanes));
  wire row_index_t last_row = row_index_t'(rows_i - 1'b1);

  // ---- Rows: as they come, then scaled, in their places ----
  (* ram_style = "distributed" *) query_word_t memory[Rows*RowWords];
  localparam int unsigned LaneGranules = ExactLanes / GranuleBytes;
  localparam int unsigned LaneGranuleBits = $clog2(LaneGranules);
  logic        scales_q, scale_valid_q;
  row_index_t  scale_row_q, scaled_row_q, ready_row_q;
  word_index_t scale_word_q, scale_index_q, scaled_index;
  exponent_t   scale_exponent_q;
  query_word_t scale_q, written;
  query_t      unscaled[ExactLanes], scaled[ExactLanes];
  octaves_t    gain_q[ExactLanes];
  logic        scaled_valid, row_valid;
  code_row_t   row;
  place_t      write_place;

  for (genvar i = 0; i < ExactLanes; i++) begin : gen_lanes
    assign unscaled[i] = query_t'(scale_q[QueryBits*i+:QueryBits]);
    assign written[QueryBits*i+:QueryBits] = query_valid_i ? query_i[i] : scaled[i];
  end
  for (genvar g = 0; g < LaneGranules; g++) begin : gen_gains
    (* ram_style = "distributed" *) granule_t gains[RowWords];
    always_ff @(posedge clk_i) begin
      if (gains_valid_i && gains_index_i[LaneGranuleBits-1:0] == LaneGranuleBits'(g)) begin
        gains[gains_index_i[GainIndexBits-1:LaneGranuleBits]] <= gains_i;
      end
      for (int unsigned i = 0; i < GranuleBytes; i++) begin
        gain_q[GranuleBytes*g+i] <= gains[scale_word_q][8*i+:8];
      end
    end
  end
  assign write_place = query_valid_i ? {query_row_i, query_word_i} : {scaled_row_q, scaled_index};
  always_ff @(posedge clk_i) begin
    if (query_valid_i || scaled_valid) memory[write_place] <= written;
    scale_q <= memory[{scale_row_q, scale_word_q}];
    scale_index_q <= scale_word_q;
    scale_exponent_q <= query_exponent_i[scale_row_q];
    if (row_valid) row_o[ready_row_q] <= row;
  end

  nkv_code_query u_query (
    .clk_i,
    .rst_ni,
    .clear_i,
    .dim_i,
    .top_i,
    .valid_i    (scale_valid_q),
    .index_i    (scale_index_q),
    .exponent_i (scale_exponent_q),
    .query_i    (unscaled),
    .gain_i     (gain_q),
    .valid_o    (scaled_valid),
    .index_o    (scaled_index),
    .scaled_o   (scaled),
    .row_valid_o(row_valid),
    .row_o      (row)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {scales_q, scale_valid_q, scale_row_q, scale_word_q, scaled_row_q, ready_row_q, ready_o} <= '0;
    end else if (clear_i) begin
      {scales_q, scale_valid_q, scale_row_q, scale_word_q, scaled_row_q, ready_row_q, ready_o} <= '0;
    end else begin
      scale_valid_q <= scales_q;
      if (start_i) scales_q <= 1'b1;
      if (scales_q) begin
        scale_word_q <= scale_word_q == last_index ? '0 : scale_word_q + 1'b1;
        if (scale_word_q == last_index) begin
          scale_row_q <= scale_row_q + 1'b1;
          if (scale_row_q == last_row) scales_q <= 1'b0;
        end
      end
      if (scaled_valid && scaled_index == last_index) scaled_row_q <= scaled_row_q + 1'b1;
      if (row_valid) begin
        ready_row_q <= ready_row_q + 1'b1;
        if (ready_row_q == last_row) ready_o <= 1'b1;
      end
    end
  end

  // ---- Sign sets: a row's words, then as many cycles as its tables take ----
  logic        sets_q, loads, load_bank_q, weighs_q, weight_valid, loaded;
  sign_set_t   set_q;
  row_index_t  load_row_q, weight_row_q, loaded_row_q;
  logic [$clog2(RowCycles)-1:0] load_cycle_q;
  word_index_t weigh_index_q, weight_index;
  query_word_t weigh_q;
  query_t      weighed[ExactLanes];
  code_weight_t  weight[ExactLanes];
  weight_power_t weight_power, power_q[2][Rows];
  assign set_ready_o = ready_o && !sets_q;
  assign loads = set_valid_i && set_ready_o;
  wire word_index_t load_word = word_index_t'(load_cycle_q);
  wire load_more = sets_q && load_cycle_q <= ($clog2(RowCycles))'(last_index);
  for (genvar i = 0; i < ExactLanes; i++) begin : gen_weighed
    assign weighed[i] = query_t'(weigh_q[QueryBits*i+:QueryBits]);
  end

  nkv_code_weights u_weights (
    .clk_i,
    .rst_ni,
    .clear_i,
    .dim_i,
    .sign_set_i(set_q),
    .valid_i   (weighs_q),
    .index_i   (weigh_index_q),
    .query_i   (weighed),
    .valid_o   (weight_valid),
    .index_o   (weight_index),
    .weight_o  (weight),
    .power_o   (weight_power)
  );

  always_ff @(posedge clk_i) begin
    weigh_q <= memory[{load_row_q, load_word}];
    weigh_index_q <= load_word;
    if (loads) {set_q, load_bank_q} <= {set_i, set_bank_i};
    if (weight_valid) power_q[load_bank_q][weight_row_q] <= weight_power;
  end
  logic loads_over_q;                       // All rows of the set are on their way.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {sets_q, weighs_q, loads_over_q, load_row_q, load_cycle_q} <= '0;
      {weight_row_q, loaded_row_q, set_done_o} <= '0;
    end else if (clear_i) begin
      {sets_q, weighs_q, loads_over_q, load_row_q, load_cycle_q} <= '0;
      {weight_row_q, loaded_row_q, set_done_o} <= '0;
    end else begin
      set_done_o <= 1'b0;
      weighs_q <= load_more && !loads_over_q;
      if (loads) begin
        {sets_q, loads_over_q} <= 2'b10;
        {load_row_q, load_cycle_q, weight_row_q, loaded_row_q} <= '0;
      end else if (sets_q) begin
        load_cycle_q <= load_cycle_q + 1'b1;
        if (load_cycle_q == ($clog2(RowCycles))'(RowCycles - 1)) begin
          load_cycle_q <= '0;
          load_row_q <= load_row_q + 1'b1;
          if (load_row_q == last_row) loads_over_q <= 1'b1;
        end
        if (weight_valid && weight_index == last_index) weight_row_q <= weight_row_q + 1'b1;
        if (loaded) begin
          loaded_row_q <= loaded_row_q + 1'b1;
          if (loaded_row_q == last_row) {sets_q, set_done_o} <= 2'b01;
        end
      end
    end
  end

  // ---- A page's summary: factors, then means; then its logits along the rows ----
  typedef enum logic [2:0] {
    StIdle,
    StSummary,
    StMeans,     // Words of them go,
    StLogits,    // and until the last logit has come.
    StHand       // Until the factors of the page before are there, and in use.
  } state_e;
  localparam int unsigned MeanBursts = Channels / BurstBytes;
  localparam int unsigned SummaryBits = $clog2(MeanBursts + 2);
  state_e      state_q;
  code_page_t  page_q;
  logic [SummaryBits-1:0] summary_q;        // Bursts that have come.
  logic [4*PageTokens-1:0] factors_q;
  logic [MeanBursts-1:0][BurstBits-1:0] means_q;
  row_index_t  mean_row_q, logit_row_q;
  word_index_t mean_word_q;
  logic        mean_valid_q, mean_first_q, mean_last_q, logit_valid, logit_loud, loud_q;
  code_power_t mean_power_q;
  query_word_t mean_query_q;
  query_t      mean_query[ExactLanes];
  mean_t       mean_q[ExactLanes];
  code_logit_t logit, logit_q[Rows];
  logic        making_q;                    // Factors of a page are made, or there.
  wire hands_page = state_q == StHand && !making_q;
  localparam int unsigned MeanWordBits = 8 * ExactLanes;
  wire [RowWords-1:0][MeanWordBits-1:0] all_means = means_q;
  wire [MeanWordBits-1:0] mean_word = all_means[mean_word_q];
  wire takes_summary = summary_valid_i && summary_ready_o;

  assign page_ready_o = state_q == StIdle && ready_o;
  assign summary_ready_o = state_q == StSummary;
  for (genvar i = 0; i < ExactLanes; i++) begin : gen_means
    assign mean_query[i] = query_t'(mean_query_q[QueryBits*i+:QueryBits]);
    always_ff @(posedge clk_i) mean_q[i] <= mean_word[8*i+:8];
  end

  nkv_code_mean_logit u_mean (
    .clk_i,
    .rst_ni,
    .clear_i,
    .mean_power_i(page_q.mean_power),
    .valid_i     (mean_valid_q),
    .first_i     (mean_first_q),
    .last_i      (mean_last_q),
    .power_i     (mean_power_q),
    .query_i     (mean_query),
    .mean_i      (mean_q),
    .valid_o     (logit_valid),
    .logit_o     (logit),
    .loud_o      (logit_loud)
  );

  always_ff @(posedge clk_i) begin
    if (page_valid_i && page_ready_o) page_q <= page_i;
    if (takes_summary) begin
      if (summary_q == '0) factors_q <= summary_i[4*PageTokens-1:0];
      for (int unsigned m = 0; m < MeanBursts; m++) begin
        if (summary_q == SummaryBits'(m + 1)) means_q[m] <= summary_i;
      end
    end
    mean_query_q <= memory[{mean_row_q, mean_word_q}];
    mean_first_q <= mean_word_q == '0;
    mean_last_q <= mean_word_q == last_index;
    mean_power_q <= row_o[mean_row_q].power;
    if (logit_valid) logit_q[logit_row_q] <= logit;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      {summary_q, mean_row_q, mean_word_q, mean_valid_q, logit_row_q, loud_q} <= '0;
    end else if (clear_i) begin
      state_q <= StIdle;
      {summary_q, mean_row_q, mean_word_q, mean_valid_q, logit_row_q, loud_q} <= '0;
    end else begin
      mean_valid_q <= state_q == StMeans;
      if (takes_summary && summary_q != SummaryBits'(MeanBursts + 1)) summary_q <= summary_q + 1'b1;
      if (logit_valid) begin
        logit_row_q <= logit_row_q + 1'b1;
        loud_q <= loud_q || (logit_loud && page_q.tokens != '0);
      end
      unique case (state_q)
        StIdle: begin
          {summary_q, mean_row_q, mean_word_q, logit_row_q} <= '0;
          if (page_valid_i && page_ready_o) state_q <= StSummary;
        end
        StSummary: if (takes_summary && summary_last_i) state_q <= StMeans;
        StMeans: begin
          mean_word_q <= mean_word_q == last_index ? '0 : mean_word_q + 1'b1;
          if (mean_word_q == last_index) begin
            mean_row_q <= mean_row_q + 1'b1;
            if (mean_row_q == last_row) state_q <= StLogits;
          end
        end
        StLogits: if (logit_valid && logit_row_q == last_row) state_q <= StHand;
        StHand: if (!making_q) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
    end
  end

  // ---- The page whose factors are made ----
  code_page_t  making_page_q;
  code_logit_t making_mean_q[Rows];
  logic [4*PageTokens-1:0] making_factors_q;
  logic        make_q, made, made_q, making_bank_q, scores_q;
  weight_power_t making_power[Rows];
  wire hands_factors = making_q && made_q && !scores_q;
  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    assign making_power[r] = power_q[making_page_q.set_bank][r];
  end
  always_ff @(posedge clk_i) begin
    if (hands_page) begin
      making_page_q <= page_q;
      making_mean_q <= logit_q;
      making_factors_q <= factors_q;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {making_q, make_q, made_q, making_bank_q} <= '0;
    end else if (clear_i) begin
      {making_q, make_q, made_q, making_bank_q} <= '0;
    end else begin
      make_q <= hands_page;
      if (hands_page) {making_q, made_q} <= 2'b10;
      else if (made) made_q <= 1'b1;
      if (hands_factors) begin
        making_q <= 1'b0;
        making_bank_q <= !making_bank_q;
      end
    end
  end

  // ---- The page whose tokens are scored ----
  logic        planes_q;                    // Bursts of planes are still to come.
  logic        scored_bank_q, token_loud, plane_ready, slice_valid, sum_valid;
  code_page_t  scored_q;
  logic [4*PageTokens-1:0] scored_factors_q;
  logic [$clog2(Slices+1)-1:0] slices_q;    // That are still to come.
  slice_index_t slice, sum_slice;
  plane_t      slice_plane;
  logic [SliceTokens-1:0][Channels-1:0] slice_bits;
  code_sum_t   sum[Rows][SliceTokens];
  assign last_o = slices_q == ($clog2(Slices + 1))'(1);
  assign plane_ready_o = planes_q && plane_ready;

  always_ff @(posedge clk_i) begin
    if (hands_factors) begin
      scored_q <= making_page_q;
      scored_factors_q <= making_factors_q;
      scored_bank_q <= making_bank_q;
      for (int unsigned r = 0; r < Rows; r++) begin
        octave_o[r] <= code_octaves_t'(making_mean_q[r] >>> CodeFractionBits);
      end
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {scores_q, planes_q, slices_q, loud_o} <= '0;
    end else if (clear_i) begin
      {scores_q, planes_q, slices_q, loud_o} <= '0;
    end else begin
      loud_o <= loud_o || loud_q || (valid_o && token_loud);
      if (hands_factors) begin
        {scores_q, planes_q} <= '1;
        slices_q <= making_page_q.slices;
      end else if (valid_o) begin
        slices_q <= slices_q - 1'b1;
        if (last_o) scores_q <= 1'b0;
      end
      if (plane_valid_i && plane_ready_o && plane_last_i) planes_q <= 1'b0;
    end
  end

  nkv_code_slices u_slices (
    .clk_i,
    .rst_ni,
    .clear_i,
    .dim_i,
    .valid_i(plane_valid_i && planes_q),
    .ready_o(plane_ready),
    .burst_i(plane_burst_i),
    .first_i(plane_first_i),
    .slice_i(plane_slice_i),
    .plane_i,
    .valid_o(slice_valid),
    .slice_o(slice),
    .plane_o(slice_plane),
    .bits_o (slice_bits)
  );

  nkv_code_sums u_sums (
    .clk_i,
    .rst_ni,
    .clear_i,
    .last_index_i  (last_index),
    .load_i        (loads),
    .load_bank_i   (set_bank_i),
    .weight_valid_i(weight_valid),
    .weight_index_i(weight_index),
    .weight_i      (weight),
    .loaded_o      (loaded),
    .bank_i        (scored_q.set_bank),
    .last_plane_i,
    .valid_i       (slice_valid),
    .slice_i       (slice),
    .plane_i       (slice_plane),
    .bits_i        (slice_bits),
    .valid_o       (sum_valid),
    .slice_o       (sum_slice),
    .sum_o         (sum)
  );

  nkv_code_logits u_logits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .rows_i,
    .row_i         (row_o),
    .z_i,
    .ranked_i,
    .threshold_i,
    .last_plane_i,
    .make_i        (make_q),
    .make_bank_i   (making_bank_q),
    .top_i         (making_page_q.top),
    .any_i         (making_factors_q != '0),
    .weight_power_i(making_power),
    .mean_i        (making_mean_q),
    .made_o        (made),
    .bank_i        (scored_bank_q),
    .factors_i     (scored_factors_q),
    .tokens_i      (scored_q.tokens),
    .valid_i       (sum_valid),
    .slice_i       (sum_slice),
    .sum_i         (sum),
    .valid_o,
    .slice_o,
    .above_o,
    .alive_o,
    .loud_o        (token_loud)
  );

  wire unused = ^scored_q;

  // No set takes the place of one that a page names: until its last slice.
  `NKV_ASSERT(SetsStay_A, clear_i || !loads || !(
      (state_q != StIdle && page_q.set_bank == set_bank_i) ||
      (making_q && making_page_q.set_bank == set_bank_i) ||
      (scores_q && !(valid_o && last_o) && scored_q.set_bank == set_bank_i)))
  `NKV_ASSERT(ReadyOnce_A, clear_i || !start_i || !ready_o)

endmodule
