// The key side of ATTEND (ARITHMETIC.md sections 4 and 7): turns the scores of pages into logits, adds
// to a page what its unread tokens weigh together, and says what a page's references are.
//
// Two logits per cycle: four cycles for a visible token, one for another, two for a page. Logits wait
// in a queue, in the order of their tokens, the one of a page's rest last. While no page is here, it makes
// logits of any scores.
//
// A sampled token of BOUNDED (8.4) takes a fifth cycle: the logits of its midpoint follow those of its
// score. They come in a stream of their own, which waits here ahead of the scores. Both raise M with 2^j
// times their weight.

module nkv_attend_logits
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::*;
  import nkv_tail_pkg::rest_weight_t;
  import nkv_tail_pkg::TailAnswers;
#(
  localparam int unsigned TokenBits = $clog2(PageTokens),
  localparam int unsigned Units = 2,
  localparam int unsigned Phases = Rows / Units,
  localparam int unsigned PhaseBits = $clog2(Phases)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,           // Before each command.

  input  logic                 bounded_i,         // There are sampled tokens. Held during a command,
  input  logit_scale_t         scale_i,           // as the exponents are.
  input  exponent_t            query_exponent_i[Rows],

  // Scores of rows phase * Units + 0, 1, ... while no page is here; their logits in order.
  input  logic                 other_valid_i,
  input  logic [PhaseBits-1:0] other_phase_i,
  input  score_t               other_score_i[Units],
  output logic                 other_valid_o,
  output logic [PhaseBits-1:0] other_phase_o,
  output logit_t               other_logit_o[Units],

  input  logic                 page_valid_i,      // In the order in which their scores come.
  output logic                 page_ready_o,
  input  logic                 page_scored_i,     // Scores of it come,
  input  token_mask_t          page_visible_i,    // of which these tokens' count,
  input  token_mask_t          page_sampled_i,    // and these of those are sampled.
  input  logic                 page_rest_i,       // It has a rest.

  input  logic                 score_valid_i,
  output logic                 score_ready_o,
  input  logic [TokenBits-1:0] score_token_i,
  input  logic                 score_last_i,      // Of its page.
  input  score_t               score_i[Rows],

  // Sampled tokens, in the order of their scores: logits of their midpoints, j and group.
  input  logic                 sampled_valid_i,
  output logic                 sampled_ready_o,
  input  logit_t               sampled_logit_i[Rows],
  input  halvings_t            sampled_halvings_i,
  input  sample_group_t        sampled_group_i,

  input  logic [$clog2(TailAnswers):0] rests_i,           // Rests that are there; of the oldest one:
  output logic                 rest_ready_o,
  input  rest_weight_t [Rows-1:0] rest_i,

  output logic                 done_valid_o,      // A page's logits are complete.
  input  logic                 done_ready_i,
  output logic [5:0]           done_raise_o[Rows],      // By how much M has grown.
  output reference_t           done_reference_o[Rows],  // M with this page.

  input  logic                 take_i,            // The oldest logits are done with,
  input  logic                 release_i,         // or all of its page's: only then others take their places.
  output logit_t               logit_o[Rows],     // The oldest, a cycle behind, and their token's j
  output halvings_t            halvings_o,        // and group, if it is sampled.
  output sample_group_t        group_o,
  input  logic                 take_rest_i,       // The oldest rest's weights are done with.
  output weight_t              rest_weight_o[Rows],
  output logic                 idle_o
);

  typedef logic [PhaseBits-1:0] phase_t;
  localparam int unsigned Queue = 4 * PageTokens;  // Two pages' worth, of all tokens sampled.
  localparam int unsigned QueueBits = $clog2(Queue);
  localparam int unsigned Unsampled = Queue / 2;   // What there is of it without bounded_i.
  localparam int unsigned Sampled = 256;           // Sampled tokens ahead of their scores.
  localparam int unsigned Pages = 8;  // That may be complete or on their way there.
  localparam int unsigned PageBits = $clog2(Pages);

  typedef struct packed {
    halvings_t     halvings;  // 0 of a token that is not sampled.
    sample_group_t group;
  } sampled_t;

  typedef struct packed {
    logic   other;
    sampled_t sampled;
    logic   midpoint;  // Behind a sampled token's logits; no logit itself.
    logic   page_end;  // Behind the last logits of a page; no logit itself.
    logic   rest;      // It has a rest,
    logic   counts;    // or visible tokens.
    phase_t phase;
  } tag_t;

  typedef enum logic [1:0] {
    StPage,
    StTokens,
    StEnd
  } state_e;

  state_e state_q;
  phase_t phase_q;
  logic [QueueBits:0] room_q;       // Places of the queue that nothing will take.
  logic [QueueBits:0] taken_q;      // Of the page that is not released yet.
  logic [PageBits:0]  pages_q;
  logic [$clog2(TailAnswers):0] rests_due_q;  // Of pages whose end is on its way.

  // ---- Sampled tokens that wait: for their scores, and until these are logits ----
  typedef logic [Rows-1:0][LogitBits-1:0] row_logits_t;
  logic        midpoints_ready, midpoints_valid, midpoint_comes, waits_ready, waits, waits_taken;
  row_logits_t midpoints_in, midpoints;
  sampled_t    waiting;
  logic [$clog2(Sampled):0] unused_midpoints, unused_waiting;
  wire sampled_taken = sampled_valid_i && sampled_ready_o;
  assign sampled_ready_o = midpoints_ready && waits_ready;
  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) midpoints_in[r] = sampled_logit_i[r];
  end

  nkv_fifo #(
    .T(row_logits_t),
    .Depth(Sampled),
    .Block(1'b1)
  ) u_midpoints (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (sampled_taken),
    .in_ready_o (midpoints_ready),
    .in_data_i  (midpoints_in),
    .out_valid_o(midpoints_valid),
    .out_ready_i(midpoint_comes),
    .out_data_o (midpoints),
    .used_o     (unused_midpoints)
  );
  nkv_fifo #(
    .T(sampled_t),
    .Depth(Sampled)
  ) u_waiting (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (sampled_taken),
    .in_ready_o (waits_ready),
    .in_data_i  ('{halvings: sampled_halvings_i, group: sampled_group_i}),
    .out_valid_o(waits),
    .out_ready_i(waits_taken),
    .out_data_o (waiting),
    .used_o     (unused_waiting)
  );

  // ---- What goes into the logit units ----
  logic midpoint_q;                 // Of a sampled token only its midpoint is left.
  wire visible = page_visible_i[score_token_i];
  wire sampled = bounded_i && page_sampled_i[score_token_i];
  wire has_room = bounded_i ? room_q != '0 : room_q > (QueueBits + 1)'(Queue - Unsampled);
  wire feeds = state_q == StTokens && score_valid_i && visible && has_room && (!sampled || waits);
  wire feeds_last = feeds && phase_q == '1 && !midpoint_q;  // Of its logits,
  wire feeds_end = sampled ? feeds && midpoint_q : feeds_last;  // and of its token.
  assign waits_taken = feeds && midpoint_q;
  assign score_ready_o = state_q == StTokens && (!visible || feeds_end);
  wire ends = state_q == StEnd && pages_q != (PageBits + 1)'(Pages) &&
      (!page_rest_i || (rests_i > rests_due_q && has_room));
  assign page_ready_o = ends;

  // ---- Logits ----
  logic   logit_valid[Units];
  tag_t   tag[Units];
  logit_t logit[Units];
  wire tag_t tag_in = other_valid_i
      ? '{other: 1'b1, phase: other_phase_i, default: '0}
      : '{other: 1'b0, sampled: sampled ? waiting : '0, midpoint: feeds && midpoint_q, page_end: ends,
          rest: page_rest_i, counts: page_rest_i || page_visible_i != '0, phase: phase_q};

  for (genvar u = 0; u < int'(Units); u++) begin : g_unit
    wire row_index_t row = {other_valid_i ? other_phase_i : phase_q, 1'(u)};
    nkv_logit #(
      .TagBits($bits(tag_t))
    ) u_logit (
      .clk_i,
      .rst_ni,
      .scale_i,
      .valid_i         (feeds || ends || other_valid_i),
      .tag_i           (tag_in),
      .score_i         (other_valid_i ? other_score_i[u] : score_i[row]),
      .query_exponent_i(query_exponent_i[row]),
      .valid_o         (logit_valid[u]),
      .tag_o           (tag[u]),
      .logit_o         (logit[u])
    );
  end

  assign other_valid_o = logit_valid[0] && tag[0].other;
  assign other_phase_o = tag[0].phase;
  assign other_logit_o = logit;

  // ---- The queue: one narrow memory per row ----
  wire logit_comes = logit_valid[0] && !tag[0].other && !tag[0].page_end && !tag[0].midpoint;
  assign midpoint_comes = logit_valid[0] && tag[0].midpoint;
  wire page_ends = logit_valid[0] && tag[0].page_end;
  wire rest_comes = page_ends && tag[0].rest;
  wire written = rest_comes || midpoint_comes || (logit_comes && tag[0].phase == '1);
  logic [QueueBits-1:0] write_q, read_q;
  assign rest_ready_o = rest_comes;

  (* ram_style = "distributed" *) sampled_t sampled_memory[Queue];
  sampled_t sampled_q;
  always_ff @(posedge clk_i) begin
    if (bounded_i && written) sampled_memory[write_q] <= tag[0].sampled;
    sampled_q <= sampled_memory[read_q];
  end
  assign halvings_o = sampled_q.halvings;
  assign group_o = sampled_q.group;

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    (* ram_style = "distributed" *) logit_t memory[Queue];
    logit_t logit_q;
    wire logit_t rest = {rest_i[r].whole, LogitFractionBits'(0)};
    always_ff @(posedge clk_i) begin
      if (rest_comes || midpoint_comes ||
          (logit_comes && tag[0].phase == phase_t'(r / Units))) begin
        memory[write_q] <= rest_comes ? rest : midpoint_comes ? midpoints[r] : logit[r%Units];
      end
      logit_q <= memory[read_q];
    end
    assign logit_o[r] = logit_q;
  end

  typedef weight_t [Rows-1:0] rest_weights_t;
  rest_weights_t weights_in, weights_out;
  logic unused_weights_ready, unused_weights_valid;
  logic [PageBits+1:0] unused_weights_used;
  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) begin
      weights_in[r] = rest_i[r].weight;
      rest_weight_o[r] = weights_out[r];
    end
  end
  nkv_fifo #(
    .T(rest_weights_t),
    .Depth(2 * Pages)
  ) u_weights (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (rest_comes),
    .in_ready_o (unused_weights_ready),
    .in_data_i  (weights_in),
    .out_valid_o(unused_weights_valid),
    .out_ready_i(take_rest_i),
    .out_data_o (weights_out),
    .used_o     (unused_weights_used)
  );

  // ---- References ----
  typedef struct packed {
    logic [5:0] raise;
    reference_t raised_to;
  } done_t;
  typedef done_t [Rows-1:0] done_page_t;

  function automatic logic [5:0] distance(reference_t from, reference_t to);
    automatic logic [ReferenceBits:0] difference = (ReferenceBits + 1)'(to) -
        (ReferenceBits + 1)'(from);
    return difference > (ReferenceBits + 1)'(63) ? 6'd63 : difference[5:0];
  endfunction

  // The integer part of L + j * 2^16, at most that of the largest logit.
  function automatic reference_t whole_of(logit_t number, halvings_t halvings);
    automatic logic signed [ReferenceBits:0] sum =
        (ReferenceBits + 1)'(number >>> LogitFractionBits) + (ReferenceBits + 1)'(halvings);
    return sum[ReferenceBits:ReferenceBits-1] == 2'b01 ? {1'b0, {(ReferenceBits - 1) {1'b1}}}
                                                       : sum[ReferenceBits-1:0];
  endfunction

  reference_t before_q[Rows];   // M before this page.
  reference_t largest_q[Rows];
  logic       any_before_q, ended_q, ended_counts_q;
  done_page_t done_in, done_out;

  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < Rows; r++) begin
      automatic reference_t whole = rest_comes ? rest_i[r].whole
          : whole_of(midpoint_comes ? midpoints[r] : logit[r%Units], tag[0].sampled.halvings);
      automatic logic comes = rest_comes || midpoint_comes ||
          (logit_comes && tag[0].phase == phase_t'(r / Units));
      if (clear_i) largest_q[r] <= NoReference;
      else if (comes && whole > largest_q[r]) largest_q[r] <= whole;
      if (clear_i) before_q[r] <= NoReference;
      else if (ended_q) before_q[r] <= largest_q[r];
    end
    ended_counts_q <= tag[0].counts;
  end

  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) begin
      // Before the first token there is nothing to raise.
      done_in[r] = '{
          raise: any_before_q ? distance(before_q[r], largest_q[r]) : '0,
          raised_to: largest_q[r]
      };
      done_raise_o[r] = done_out[r].raise;
      done_reference_o[r] = done_out[r].raised_to;
    end
  end

  logic unused_done_ready;
  logic [PageBits:0] unused_done_used;
  nkv_fifo #(
    .T(done_page_t),
    .Depth(Pages)
  ) u_done (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (ended_q),
    .in_ready_o (unused_done_ready),
    .in_data_i  (done_in),
    .out_valid_o(done_valid_o),
    .out_ready_i(done_ready_i),
    .out_data_o (done_out),
    .used_o     (unused_done_used)
  );
  wire done_taken = done_valid_o && done_ready_i;
  assign idle_o = state_q == StPage && !page_valid_i && pages_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StPage;
      phase_q <= '0;
      midpoint_q <= 1'b0;
      room_q <= (QueueBits + 1)'(Queue);
      taken_q <= '0;
      pages_q <= '0;
      rests_due_q <= '0;
      write_q <= '0;
      read_q <= '0;
      any_before_q <= 1'b0;
      ended_q <= 1'b0;
    end else if (clear_i) begin
      state_q <= StPage;
      phase_q <= '0;
      midpoint_q <= 1'b0;
      room_q <= (QueueBits + 1)'(Queue);
      taken_q <= '0;
      pages_q <= '0;
      rests_due_q <= '0;
      write_q <= '0;
      read_q <= '0;
      any_before_q <= 1'b0;
      ended_q <= 1'b0;
    end else begin
      if (feeds && !midpoint_q) phase_q <= phase_q + 1'b1;
      if (feeds && sampled && phase_q == '1) midpoint_q <= 1'b1;
      else if (feeds) midpoint_q <= 1'b0;
      // Scores that wait for a whole page have what to do while its successor's values begin.
      taken_q <= release_i ? '0 : taken_q + (QueueBits + 1)'(take_i);
      room_q <= room_q + (release_i ? taken_q : '0) -
          (QueueBits + 1)'(feeds_last || (feeds && midpoint_q) || (ends && page_rest_i));
      pages_q <= pages_q + (PageBits + 1)'(ends) - (PageBits + 1)'(done_taken);
      rests_due_q <= rests_due_q + ($clog2(TailAnswers) + 1)'(ends && page_rest_i) -
          ($clog2(TailAnswers) + 1)'(rest_comes);
      if (written) write_q <= write_q + 1'b1;
      if (take_i) read_q <= read_q + 1'b1;
      ended_q <= page_ends;
      if (ended_q && ended_counts_q) any_before_q <= 1'b1;
      unique case (state_q)
        StPage: if (page_valid_i) state_q <= page_scored_i ? StTokens : StEnd;
        StTokens: if (score_valid_i && score_ready_o && score_last_i) state_q <= StEnd;
        StEnd: if (ends) state_q <= StPage;
        default: state_q <= StPage;
      endcase
    end
  end

  wire unused_units = logit_valid[1] ^ (^tag[1]) ^ midpoints_valid;

endmodule
