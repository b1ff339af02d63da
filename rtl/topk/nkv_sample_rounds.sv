// The rounds of ATTEND BOUNDED (ARITHMETIC.md 8), once a list has been scanned as for TAIL. The levels of
// all tokens outside the exact set are counted; then each round:
//
//   thresholds --> draw, count the bursts --> worth them? --> visits, with the sampled tokens' midpoints
//     --> measure --> within the error?
//
// Pages come from a feed, each time with their visible tokens and those that are read already. To count and
// to draw all midpoints pass, 16 cycles a page; visits have those of their own pages pass. The first round's
// visits are those of the exact set, too, and of all pages with a rest.

module nkv_sample_rounds
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_sample_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,            // Before each command.

  input  attend_command_t command_i,          // Held.
  input  logic            scanned_i,          // A scanned page's body was announced.
  input  page_body_t      body_i,
  input  logic            start_i,            // For one cycle: midpoints and their lines are there.
  input  logic [31:0]     scan_bursts_i,      // From then on, held.
  output logic            busy_o,
  output logic            done_o,             // For one cycle; what follows stands until clear_i.
  output rounds_outcome_t outcome_o,

  // Pages in sight, and what is known of them.
  input  logic [PageIndexBits:0] pages_i,
  output logic            feed_start_o,
  input  logic            feed_valid_i,
  output logic            feed_ready_o,
  input  page_index_t     feed_page_i,        // A cycle ahead of feed_valid_i, too.
  input  token_mask_t     visible_i,
  input  token_mask_t     exact_i,            // As last set here.
  output logic            set_exact_o,
  output visit_t          set_o,

  // Pages whose midpoints are wanted, and those as logits (nkv_tail_rest).
  output logic            walk_valid_o,
  input  logic            walk_ready_i,
  output visit_t          walk_o,
  input  logic            word_i,             // A word of midpoints was granted,
  output logic            hold_o,             // no more for now.
  input  tail_quad_t      quad_i,
  input  reference_t      reference_i[Rows],

  // Visits.
  output logic            pass_clear_o,
  output logic            visits_o,
  output logic            visit_valid_o,
  input  logic            visit_ready_i,
  output visit_t          visit_o,
  output logic            visits_end_o,
  input  pass_report_t    pass_i,

  // What nkv_attend does with them.
  output sample_orders_t  orders_o,
  input  logic            sampled_ready_i,
  input  sample_report_t  report_i
);

  localparam logic [2:0] MostRounds = 3'd4;
  localparam int unsigned Flights = 8;   // Pages on their way through a walk.

  typedef enum logic [3:0] {
    StIdle,
    StClear,     // Counts of levels; and draws begin.
    StCount,
    StLimits,
    StDraw,
    StBursts,    // Until those of all pages are counted.
    StTotal,
    StJudge,
    StVisit,
    StTake,      // Until the sums have all that was read.
    StMeasure,
    StNext,
    StDone
  } state_e;

  state_e     state_q;
  logic       begun_q;
  logic [2:0] round_q;
  logic       state_only_q;              // Nothing of the sample is read.
  rounds_outcome_t outcome_q;

  wire first_round = round_q == 3'd1;
  wire begins = !begun_q;
  wire draws = state_q == StDraw;
  wire passes_all = draws || state_q == StCount;
  assign visits_o = state_q == StVisit;
  assign busy_o = state_q != StIdle;
  assign outcome_o = outcome_q;

  // ---- What is known of the page that the feed shows ----
  token_mask_t  drawn, exact_before;
  row_form_e    k_form, v_form;
  dtype_e       dtype;
  logic [31:0]  dense_bursts;
  logic         set_drawn;
  page_index_t  set_page;
  token_mask_t  set_tokens, page_drawn;

  nkv_sample_set u_set (
    .clk_i,
    .rst_ni,
    .clear_i,
    .head_dim_i    (command_i.head_dim),
    .value_dim_i   (command_i.value_dim),
    .scanned_i,
    .body_i,
    .dense_bursts_o(dense_bursts),
    .set_i         (set_drawn),
    .set_page_i    (set_page),
    .set_drawn_i   (set_tokens),
    .page_i        (feed_page_i),
    .drawn_o       (drawn),
    .k_form_o      (k_form),
    .v_form_o      (v_form),
    .dtype_o       (dtype),
    .other_page_i  (body_i.page),
    .other_drawn_o (page_drawn)
  );

  wire whole_page = visible_i == '1;
  assign exact_before = first_round ? '0 : exact_i | drawn;
  wire token_mask_t candidates = whole_page ? ~exact_before : '0;
  // Of a visit; exact_i has been set for this round by then.
  wire token_mask_t rest = first_round ? visible_i & ~exact_i : '0;
  wire token_mask_t sample = state_only_q ? '0 : drawn;
  wire token_mask_t wanted = first_round ? exact_i | sample : sample;

  // ---- Walks over all pages ----
  typedef struct packed {
    page_index_t page;
    token_mask_t visible;
    row_form_e   k_form;
    row_form_e   v_form;
    dtype_e      dtype;
  } flight_t;
  flight_t flight;
  logic    flight_room, unused_flight_valid, page_passed;
  logic [$clog2(Flights):0] unused_flights;
  wire walk_taken = walk_valid_o && walk_ready_i;

  nkv_fifo #(
    .T(flight_t),
    .Depth(Flights)
  ) u_flights (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (passes_all && walk_taken),
    .in_ready_o (flight_room),
    .in_data_i  ('{page: feed_page_i, visible: visible_i, k_form: k_form, v_form: v_form, dtype: dtype}),
    .out_valid_o(unused_flight_valid),
    .out_ready_i(passes_all && page_passed),
    .out_data_o (flight),
    .used_o     (unused_flights)
  );

  // ---- Levels, thresholds, draws ----
  token_mask_t passed_drawn, passed_saturated;
  logic        counts_clear, draws_ready, limited;
  row_index_t  read_row;
  level_t      read_level, threshold[Rows];
  count_t      count;
  logit_t      sampled_logit[Rows];
  halvings_t   sampled_halvings;
  sample_group_t sampled_group;
  logic        sampled_valid;
  wire pick_e  pick = state_q == StCount ? PickCount : draws ? PickDraw
      : state_only_q ? PickNone : PickGive;
  wire begins_round = state_q == StClear && begins;
  // What passes for TAIL is nothing here.
  tail_quad_t quad;
  always_comb begin
    quad = quad_i;
    quad.valid = quad_i.valid && busy_o;
  end

  nkv_sample_pick u_pick (
    .clk_i,
    .rst_ni,
    .clear_i,
    .clear_counts_i    (begins_round && first_round),
    .counts_clear_o    (counts_clear),
    .start_i           (begins_round),
    .seed_i            (command_i.seed),
    .round_i           (round_q),
    .rows_i            (group_t'(command_i.group)),
    .reference_i,
    .threshold_i       (threshold),
    .ready_o           (draws_ready),
    .pick_i            (pick),
    .word_i            (word_i && busy_o),
    .hold_o,
    .quad_i            (quad),
    .page_valid_o      (page_passed),
    .drawn_o           (passed_drawn),
    .saturated_o       (passed_saturated),
    .sampled_valid_o   (sampled_valid),
    .sampled_ready_i,
    .sampled_logit_o   (sampled_logit),
    .sampled_halvings_o(sampled_halvings),
    .sampled_group_o   (sampled_group),
    .read_row_i        (read_row),
    .read_level_i      (read_level),
    .count_o           (count)
  );

  logic known[Rows];
  log_t log_bound[Rows];
  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) begin
      known[r] = report_i.known[r];
      log_bound[r] = report_i.log_bound[r];
    end
  end
  nkv_sample_limits u_limits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i     (state_q == StLimits && begins),
    .rows_i      (group_t'(command_i.group)),
    .first_i     (first_round),
    .known_i     (known),
    .log_bound_i (log_bound),
    .log_error_i (report_i.log_error),
    .read_row_o  (read_row),
    .read_level_o(read_level),
    .count_i     (count),
    .done_o      (limited),
    .threshold_o (threshold)
  );

  // ---- A page whose sample is drawn ----
  wire page_drawn_now = draws && page_passed;
  wire token_mask_t page_exact = flight.visible == '1 ? passed_saturated : flight.visible;
  wire token_mask_t page_wanted = first_round ? page_exact | passed_drawn : passed_drawn;
  wire page_sums = first_round ? page_exact != flight.visible : passed_drawn != '0;
  assign set_drawn = page_drawn_now;
  assign set_page = flight.page;
  assign set_tokens = passed_drawn;
  assign set_exact_o = first_round ? page_drawn_now : draws && walk_taken;
  assign set_o = '{
      page: first_round ? flight.page : feed_page_i,
      tokens: first_round ? page_exact : exact_before,
      sums: 1'b0
  };

  logic [31:0] planned;
  logic        bursts_idle, bursts_room;
  nkv_sample_bursts #(
    .Depth(2 * Flights)
  ) u_bursts (
    .clk_i,
    .rst_ni,
    .clear_i    (clear_i || begins_round),
    .head_dim_i (command_i.head_dim),
    .value_dim_i(command_i.value_dim),
    .room_o     (bursts_room),
    .valid_i    (page_drawn_now),
    .tokens_i   (page_wanted),
    .k_form_i   (flight.k_form),
    .v_form_i   (flight.v_form),
    .dtype_i    (flight.dtype),
    .sums_i     (page_sums),
    .bursts_o   (planned),
    .idle_o     (bursts_idle)
  );

  // ---- Is it worth it? ----
  logic [31:0] total_q;
  wire capped = command_i.byte_cap != '0;
  wire too_much = capped ? (total_q << 8) > dense_bursts * 32'(command_i.byte_cap)
                         : total_q * 32'd20 > dense_bursts * 32'd17;
  always_ff @(posedge clk_i) begin
    total_q <= scan_bursts_i + outcome_q.sum_bursts + outcome_q.exact_bursts + outcome_q.value_bursts +
        planned;
  end

  // ---- Pages from the feed, to a walk, to a visit, or to both at once ----
  logic [PageIndexBits:0] fed_q, passed_q;
  wire fed = feed_valid_i && feed_ready_o;
  wire all_fed = fed_q == pages_i;
  wire all_passed = passed_q == pages_i;
  wire is_visit = wanted != '0 || rest != '0;
  wire has_walk = first_round ? rest != '0 : sample != '0;
  // Of a pass that failed visits are only dropped.
  wire waits = has_walk && !walk_ready_i && !pass_i.failed;
  wire may_pass = flight_room && bursts_room;

  assign feed_start_o = begins && (passes_all || visits_o);
  assign walk_valid_o = begun_q && feed_valid_i &&
      (passes_all ? may_pass : visits_o && has_walk && visit_ready_i && !pass_i.failed);
  assign walk_o = '{
      page: feed_page_i,
      tokens: passes_all ? candidates : first_round ? rest : sample,
      sums: visits_o && first_round
  };
  assign visit_valid_o = visits_o && begun_q && feed_valid_i && is_visit && !waits;
  assign visit_o = '{page: feed_page_i, tokens: wanted, sums: rest != '0 || (!first_round && sample != '0)};
  assign visits_end_o = visits_o && begun_q && all_fed;
  assign feed_ready_o = begun_q && (passes_all ? walk_valid_o && walk_ready_i
                                               : visits_o && (!is_visit || (visit_ready_i && !waits)));
  assign pass_clear_o = visits_o && begins;

  // ---- Orders ----
  always_comb begin
    orders_o.page_sampled = state_only_q ? '0 : page_drawn;
    orders_o.page_rest = first_round;
    orders_o.clear_groups = visits_o && begins && !first_round;
    orders_o.measure = state_q == StMeasure && begins;
    orders_o.sampled_valid = sampled_valid;
    orders_o.halvings = sampled_halvings;
    orders_o.group = sampled_group;
    for (int unsigned r = 0; r < Rows; r++) orders_o.logit[r] = sampled_logit[r];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      begun_q <= 1'b0;
      round_q <= 3'd1;
      state_only_q <= 1'b0;
      outcome_q <= '0;
      fed_q <= '0;
      passed_q <= '0;
      done_o <= 1'b0;
    end else if (clear_i) begin
      state_q <= StIdle;
      begun_q <= 1'b0;
      round_q <= 3'd1;
      state_only_q <= 1'b0;
      outcome_q <= '0;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      if (state_q != StIdle) begun_q <= 1'b1;
      if (fed) fed_q <= fed_q + 1'b1;
      if (passes_all && page_passed) passed_q <= passed_q + 1'b1;
      unique case (state_q)
        StIdle: if (start_i) go_to(StClear);
        StClear: if (begun_q && counts_clear && draws_ready) go_to(first_round ? StCount : StLimits);
        StCount: if (all_passed) go_to(StLimits);
        StLimits: if (limited) go_to(StDraw);
        StDraw: if (all_passed) go_to(StBursts);
        StBursts: if (bursts_idle) go_to(StTotal);
        StTotal: if (begun_q) go_to(StJudge);
        StJudge: begin
          if (!too_much) begin
            go_to(StVisit);
          end else if (!capped) begin
            outcome_q.dense <= 1'b1;
            go_to(StDone);
          end else begin
            outcome_q.capped <= 1'b1;
            state_only_q <= 1'b1;
            // Without any round the state alone is the result.
            go_to(first_round ? StVisit : StDone);
          end
        end
        StVisit: begin
          if (begun_q && pass_i.done) begin
            outcome_q.exact_bursts <= outcome_q.exact_bursts + pass_i.bursts;
            outcome_q.value_bursts <= outcome_q.value_bursts + pass_i.value_bursts +
                (first_round ? '0 : pass_i.sum_bursts);
            if (first_round) outcome_q.sum_bursts <= pass_i.sum_bursts;
            outcome_q.failed <= pass_i.failed;
            go_to(StTake);
          end
        end
        StTake: begin
          if (begun_q && report_i.taken) begin
            go_to(outcome_q.failed || state_only_q ? StDone : StMeasure);
          end
        end
        StMeasure: begin
          if (begun_q && report_i.measured) begin
            outcome_q.rounds <= round_q;
            go_to(StNext);
          end
        end
        StNext: begin
          if (report_i.all_within) begin
            go_to(StDone);
          end else if (round_q == MostRounds) begin
            outcome_q.capped <= capped;
            outcome_q.dense <= !capped;
            go_to(StDone);
          end else begin
            round_q <= round_q + 1'b1;
            go_to(StClear);
          end
        end
        StDone: begin
          done_o <= 1'b1;
          go_to(StIdle);
        end
        default: go_to(StIdle);
      endcase
    end
  end

  task automatic go_to(state_e state);
    state_q <= state;
    begun_q <= 1'b0;
    fed_q <= '0;
    passed_q <= '0;
  endtask

  wire unused = ^{command_i, body_i, pass_i.failure, pass_i.nonfinite};

endmodule
