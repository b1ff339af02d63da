// Which tokens of which pages TOPK, or ATTEND TAIL and BOUNDED, goes to: sets of tokens, the feed that
// goes over their pages, and visits with what of a page is left to nkv_attend.
//
//   feed --> chosen by the plane stage, or as they are --> set; visits, and rests
//     `----> planes that refine
//     `----> nkv_sample_rounds --> visits, and rests

module nkv_topk_visits
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,         // Before each command.
  input  topk_command_t  command_i,
  input  logic           tail_i,          // What is left of pages counts by their sums.

  // The step, of which begun_i says that it has begun; between any two of them there is a cycle without.
  input  logic           begun_i,
  input  logic           best_i,          // The best midpoints are visited,
  input  logic           alive_i,         // or those alive only found,
  input  logic           left_i,          // or visited,
  input  logic           refine_i,        // or refined,
  input  logic           rounds_i,        // or there are rounds.
  input  logic           past_scan_i,     // All visible tokens are among the best.
  input  logic           seeds_apart_i,   // The set is that of the seeds, which are not alive.

  input  logic           scanned_i,       // A scanned page's body was announced.
  input  page_body_t     body_i,
  input  page_index_t    scanned_page_i,
  output logic [31:0]    scanned_crc_o,

  output logic [PageIndexBits:0] pages_o,  // In sight.
  output logic           feed_valid_o,    // For refining.
  output visit_t         feed_o,
  output logic signed [15:0] feed_step_exponent_o,
  output logic           feed_done_o,
  output logic           choose_valid_o,  // The plane stage chooses among the feed's tokens.
  input  logic           choose_ready_i,
  input  logic           chosen_valid_i,
  output logic           chosen_ready_o,
  input  visit_t         chosen_i,
  input  logic           refine_ready_i,
  output logic           all_picked_o,
  output logic [PageIndexBits:0] alive_pages_o,

  output logic           clear_o,         // A pass of a round begins.
  output logic           visits_o,
  output logic           visit_valid_o,
  input  logic           visit_ready_i,
  output visit_t         visit_o,
  output logic           visits_end_o,
  input  pass_report_t   pass_i,

  output logic           rest_valid_o,    // Tokens whose midpoints nkv_tail_rest is to take.
  input  logic           rest_ready_i,
  output visit_t         rest_o,
  input  logic           word_i,          // It got a word of them, of this page
  input  page_index_t    word_page_i,
  input  logic           page_words_end_i,  // the last one,
  output logic           hold_o,          // no further one is to be read.
  input  nkv_tail_pkg::tail_quad_t quad_i,
  input  nkv_attend_pkg::reference_t midpoint_reference_i[nkv_pkg::Rows],
  output nkv_sample_pkg::sample_orders_t orders_o,
  input  logic           sampled_ready_i,
  input  nkv_sample_pkg::sample_report_t report_i,
  input  logic [31:0]    scan_bursts_i,
  output logic           rounds_done_o,
  output nkv_sample_pkg::rounds_outcome_t rounds_o,

  // Midpoints of pages that do not stay on chip (nkv_midpoint_loader).
  input  logic           refined_i,       // A page is refined.
  input  page_index_t    refined_page_i,
  output logic           load_valid_o,
  input  logic           load_ready_i,
  output read_request_t  load_o,
  input  logic           loaded_valid_i,
  input  read_beat_t     loaded_i,
  output logic           poisoned_o,
  output page_index_t    poisoned_page_o
);

  wire begins = !begun_i;
  wire asks_alive = alive_i || left_i;

  // ---- Sets of tokens ----
  logic        feed_start, feed_ready, round_feed_start, round_feed_ready, round_set, rounds_busy;
  visit_t      round_tokens;
  page_index_t feed_page;
  token_mask_t visible, set;
  logic        seen_valid, seen_ready, any_set, page_valid, page_ready, none_loading;
  page_index_t seen, loaded_page;
  logic        picked_taken;
  visit_t      picked;

  assign feed_start = (begins && (best_i || asks_alive || refine_i)) || round_feed_start;

  nkv_page_feed u_feed (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i       (feed_start),
    .tokens_i      (command_i.tokens),
    .window_i      (command_i.window),
    .sinks_i       (command_i.sinks),
    .take_visible_i(best_i || (asks_alive && seeds_apart_i)),
    .take_set_i    (!best_i),
    .seen_valid_o  (seen_valid),
    .seen_ready_i  (seen_ready),
    .seen_o        (seen),
    .page_valid_i  (page_valid),
    .page_ready_o  (page_ready),
    .page_i        (loaded_page),
    .none_between_i(none_loading),
    .page_o        (feed_page),
    .visible_i     (visible),
    .set_i         (set),
    .valid_o       (feed_valid_o),
    .ready_i       (feed_ready),
    .visit_o       (feed_o),
    .done_o        (feed_done_o),
    .pages_o
  );

  nkv_page_set u_set (
    .clk_i,
    .scanned_i,
    .body_i,
    .set_i       (round_set || (picked_taken && (best_i || alive_i))),
    .set_tokens_i(rounds_busy ? round_tokens : picked),
    .page_i      (feed_page),
    .visible_o   (visible),
    .set_o       (set),
    .step_exponent_o(feed_step_exponent_o),
    .any_page_i  (seen),
    .any_set_o   (any_set),
    .crc_page_i  (scanned_page_i),
    .crc_hot_o   (scanned_crc_o)
  );

  // ---- Masks from the feed, through the plane stage or past it ----
  logic [PageIndexBits:0] picked_q;
  wire past_scan = best_i && past_scan_i;
  wire through_scan = (best_i && !past_scan_i) || asks_alive;
  wire picks_visits = best_i || left_i;
  assign picked = past_scan ? feed_o : chosen_i;
  wire picked_valid = past_scan ? feed_valid_o && begun_i : chosen_valid_i;
  // A visit and the tokens that it leaves go together. Of a pass that failed visits are only dropped:
  // nobody takes what their pages weigh.
  wire is_visit = picked.tokens != '0 || (tail_i && picked.sums);
  wire has_rest = tail_i && picked.sums && !pass_i.failed;
  wire rest_waits = has_rest && !rest_ready_i;
  wire picked_ready = alive_i || !is_visit || (visit_ready_i && !rest_waits);
  assign picked_taken = picked_valid && picked_ready;
  assign choose_valid_o = through_scan && begun_i && feed_valid_o;
  assign chosen_ready_o = picked_ready;
  assign all_picked_o = picked_q == pages_o;

  always_comb begin
    feed_ready = round_feed_ready;
    if (through_scan) feed_ready = begun_i && choose_ready_i;
    else if (past_scan) feed_ready = begun_i && picked_ready;
    else if (refine_i) feed_ready = begun_i && (feed_o.tokens == '0 || refine_ready_i);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      picked_q <= '0;
      alive_pages_o <= '0;
    end else if (begins) begin
      picked_q <= '0;
      if (alive_i) alive_pages_o <= '0;
    end else if (picked_taken) begin
      picked_q <= picked_q + 1'b1;
      if (alive_i && picked.tokens != '0) alive_pages_o <= alive_pages_o + 1'b1;
    end
  end

  // ---- Rounds ----
  logic   round_visits, round_visit_valid, round_visits_end, round_walk_valid;
  visit_t round_visit, round_walk;

  nkv_sample_rounds u_rounds (
    .clk_i,
    .rst_ni,
    .clear_i,
    .command_i      (attend_command_t'(command_i)),
    .scanned_i,
    .body_i,
    .start_i        (rounds_i && begins),
    .scan_bursts_i,
    .busy_o         (rounds_busy),
    .done_o         (rounds_done_o),
    .outcome_o      (rounds_o),
    .pages_i        (pages_o),
    .feed_start_o   (round_feed_start),
    .feed_valid_i   (feed_valid_o),
    .feed_ready_o   (round_feed_ready),
    .feed_page_i    (feed_page),
    .visible_i      (visible),
    .exact_i        (set),
    .set_exact_o    (round_set),
    .set_o          (round_tokens),
    .walk_valid_o   (round_walk_valid),
    .walk_ready_i   (rest_ready_i),
    .walk_o         (round_walk),
    .word_i,
    .hold_o,
    .quad_i,
    .reference_i    (midpoint_reference_i),
    .pass_clear_o   (clear_o),
    .visits_o       (round_visits),
    .visit_valid_o  (round_visit_valid),
    .visit_ready_i,
    .visit_o        (round_visit),
    .visits_end_o   (round_visits_end),
    .pass_i,
    .orders_o,
    .sampled_ready_i,
    .report_i
  );

  // ---- Visits, and what they leave ----
  assign visits_o = picks_visits || round_visits;
  assign visit_valid_o = round_visit_valid || (picks_visits && picked_valid && is_visit && !rest_waits);
  assign visit_o = rounds_busy ? round_visit
      : '{page: picked.page, tokens: picked.tokens, sums: tail_i && picked.sums};
  assign visits_end_o = rounds_busy ? round_visits_end : begun_i && all_picked_o;
  assign rest_valid_o = rounds_busy ? round_walk_valid
      : picks_visits && picked_valid && has_rest && visit_ready_i;
  assign rest_o = rounds_busy ? round_walk
      : '{page: picked.page, tokens: ~picked.tokens, sums: 1'b1};

  // ---- Midpoints that have to come back, and pages that are over with theirs ----
  // In a step that goes over what is left in the set, only of pages that have some of it.
  wire of_set = refine_i || (asks_alive && !seeds_apart_i);
  wire feed_taken = feed_valid_o && feed_ready;
  // Whoever reads words of midpoints is over with the page's last one; the feed with what nobody takes.
  wire walk_taken = round_walk_valid && rest_ready_i;
  wire feed_over = feed_taken && ((refine_i && feed_o.tokens == '0) || (rounds_busy && !walk_taken));
  wire picked_over = picked_taken && through_scan && !has_rest;
  page_index_t over_page[3];
  always_comb begin
    over_page[0] = feed_over ? feed_o.page : picked.page;
    over_page[1] = word_page_i;
    over_page[2] = refined_page_i;
  end

  nkv_midpoint_loader #(
    .KeptPages(KeptPages)
  ) u_loader (
    .clk_i,
    .rst_ni,
    .clear_i,
    .loads_i        (through_scan || refine_i || rounds_busy),
    .page_valid_i   (seen_valid),
    .page_ready_o   (seen_ready),
    .page_i         (seen),
    .wanted_i       (!of_set || any_set),
    .page_valid_o   (page_valid),
    .page_ready_i   (page_ready),
    .page_o         (loaded_page),
    .empty_o        (none_loading),
    .over_i         ({refined_i, word_i && page_words_end_i, feed_over || picked_over}),
    .over_page_i    (over_page),
    .request_valid_o(load_valid_o),
    .request_ready_i(load_ready_i),
    .request_o      (load_o),
    .beat_valid_i   (loaded_valid_i),
    .beat_i         (loaded_i),
    .poisoned_o,
    .poisoned_page_o
  );

endmodule
