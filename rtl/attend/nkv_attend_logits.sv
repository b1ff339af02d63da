// The key side of ATTEND (ARITHMETIC.md section 4): turns the scores of pages into logits, and says what a
// page's references are.
//
// Two logits per cycle: four cycles for a visible token, one for another, two for a page. Logits wait
// in a queue, in the order of their tokens.

`include "nkv_assert.svh"

module nkv_attend_logits
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
#(
  localparam int unsigned TokenBits = $clog2(PageTokens)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,           // Before each command.

  input  logit_scale_t         scale_i,           // Held during a command, as the exponents are.
  input  exponent_t            query_exponent_i[Rows],

  input  logic                 page_valid_i,      // In the order in which their scores come.
  output logic                 page_ready_o,
  input  token_mask_t          page_visible_i,    // Tokens whose scores count.

  input  logic                 score_valid_i,
  output logic                 score_ready_o,
  input  logic [TokenBits-1:0] score_token_i,
  input  logic                 score_last_i,      // Of its page.
  input  score_t               score_i[Rows],

  output logic                 done_valid_o,      // A page's logits are complete.
  input  logic                 done_ready_i,
  output logic [5:0]           done_raise_o[Rows],      // By how much M has grown.
  output reference_t           done_reference_o[Rows],  // M with this page.

  input  logic                 take_i,            // The oldest logits are done with,
  input  logic                 release_i,         // or all of its page's: only then others take their places.
  output logit_t               logit_o[Rows],     // The oldest, a cycle behind.
  output logic                 idle_o
);

  localparam int unsigned Units = 2;
  localparam int unsigned Phases = Rows / Units;
  localparam int unsigned PhaseBits = $clog2(Phases);
  typedef logic [PhaseBits-1:0] phase_t;
  localparam int unsigned Queue = 2 * PageTokens;
  localparam int unsigned QueueBits = $clog2(Queue);
  localparam int unsigned Pages = 8;  // That may be complete or on their way there.
  localparam int unsigned PageBits = $clog2(Pages);

  typedef struct packed {
    logic   page_end;  // Behind the last logits of a page; no logit itself.
    logic   counts;    // It has visible tokens.
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

  // ---- What goes into the logit units ----
  wire visible = page_visible_i[score_token_i];
  wire feeds = state_q == StTokens && score_valid_i && visible && room_q != '0;
  wire feeds_last = feeds && phase_q == '1;  // Of a token.
  assign score_ready_o = state_q == StTokens && (!visible || feeds_last);
  wire ends = state_q == StEnd && pages_q != (PageBits + 1)'(Pages);
  assign page_ready_o = ends;

  // ---- Logits ----
  logic   logit_valid[Units];
  tag_t   tag[Units];
  logit_t logit[Units];
  wire tag_t tag_in = '{page_end: ends, counts: page_visible_i != '0, phase: phase_q};

  for (genvar u = 0; u < int'(Units); u++) begin : g_unit
    wire row_index_t row = {phase_q, 1'(u)};
    nkv_logit #(
      .TagBits($bits(tag_t))
    ) u_logit (
      .clk_i,
      .rst_ni,
      .scale_i,
      .valid_i         (feeds || ends),
      .tag_i           (tag_in),
      .score_i         (score_i[row]),
      .query_exponent_i(query_exponent_i[row]),
      .valid_o         (logit_valid[u]),
      .tag_o           (tag[u]),
      .logit_o         (logit[u])
    );
  end

  // ---- The queue: one narrow memory per row ----
  wire logit_comes = logit_valid[0] && !tag[0].page_end;
  wire page_ends = logit_valid[0] && tag[0].page_end;
  logic [QueueBits-1:0] write_q, read_q;

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    (* ram_style = "distributed" *) logit_t memory[Queue];
    logit_t logit_q;
    always_ff @(posedge clk_i) begin
      if (logit_comes && tag[0].phase == phase_t'(r / Units)) memory[write_q] <= logit[r%Units];
      logit_q <= memory[read_q];
    end
    assign logit_o[r] = logit_q;
  end

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

  reference_t before_q[Rows];   // M before this page.
  reference_t largest_q[Rows];
  logic       any_before_q, ended_q, ended_counts_q;
  done_page_t done_in, done_out;

  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < Rows; r++) begin
      automatic reference_t whole = reference_t'(logit[r%Units] >>> LogitFractionBits);
      automatic logic comes = logit_comes && tag[0].phase == phase_t'(r / Units);
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

  logic done_ready;
  logic [PageBits:0] unused_done_used;
  nkv_fifo #(
    .T(done_page_t),
    .Depth(Pages)
  ) u_done (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (ended_q),
    .in_ready_o (done_ready),
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
      room_q <= (QueueBits + 1)'(Queue);
      taken_q <= '0;
      pages_q <= '0;
      write_q <= '0;
      read_q <= '0;
      any_before_q <= 1'b0;
      ended_q <= 1'b0;
    end else if (clear_i) begin
      state_q <= StPage;
      phase_q <= '0;
      room_q <= (QueueBits + 1)'(Queue);
      taken_q <= '0;
      pages_q <= '0;
      write_q <= '0;
      read_q <= '0;
      any_before_q <= 1'b0;
      ended_q <= 1'b0;
    end else begin
      if (feeds) phase_q <= phase_q + 1'b1;
      // Scores that wait for a whole page have what to do while its successor's values begin.
      taken_q <= release_i ? '0 : taken_q + (QueueBits + 1)'(take_i);
      room_q <= room_q + (release_i ? taken_q : '0) - (QueueBits + 1)'(feeds_last);
      pages_q <= pages_q + (PageBits + 1)'(ends) - (PageBits + 1)'(done_taken);
      if (logit_comes && tag[0].phase == '1) write_q <= write_q + 1'b1;
      if (take_i) read_q <= read_q + 1'b1;
      ended_q <= page_ends;
      if (ended_q && ended_counts_q) any_before_q <= 1'b1;
      unique case (state_q)
        StPage: if (page_valid_i) state_q <= StTokens;
        StTokens: if (score_valid_i && score_ready_o && score_last_i) state_q <= StEnd;
        StEnd: if (ends) state_q <= StPage;
        default: state_q <= StPage;
      endcase
    end
  end

  wire unused_units = logit_valid[1] ^ (^tag[1]);

  `NKV_ASSERT_ROOM(DoneHasRoom_A, ended_q, done_ready)

endmodule
