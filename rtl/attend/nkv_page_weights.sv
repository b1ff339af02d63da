// Weights of a page's tokens, in order, ahead of their values: takes the logits of all rows of a
// token, turns two a cycle into weights (ARITHMETIC.md 3.4), and queues them token by token, those of
// pages' rests in a queue of their own. A token that is not visible has weights of zero and takes one
// cycle instead of four.

module nkv_page_weights
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_attend_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,

  input  logic               start_i,          // A page, while idle_o; the rest is held until that comes.
  input  token_mask_t        rows_i,           // Tokens that get weights,
  input  token_mask_t        visible_i,        // and those of them that have logits.
  input  logic               rest_i,           // It has a rest.
  input  reference_t         reference_i[Rows],

  output logic               take_o,           // The oldest token's logits are done with.
  input  logit_t             logit_i[Rows],    // Of the oldest token, a cycle behind.
  output logic               take_rest_o,
  input  weight_t            rest_weight_i[Rows],

  output logic               pushed_o,         // One more token has its weights,
  output logic               pushed_rest_o,    // or one more rest.
  input  logic               of_rest_i,        // The oldest rest is meant, not the oldest token.
  input  logic               pop_i,            // Its values have been added.
  output weight_t            weight_o[Rows],
  output shift_t             shift_o[Rows],
  output units_t             units_o[Rows],
  output logic               idle_o            // All of a page's weights are on their way.
);

  localparam int unsigned Units = 2;
  localparam int unsigned Phases = Rows / Units;
  localparam int unsigned PhaseBits = $clog2(Phases);
  localparam int unsigned Queue = 16;
  localparam int unsigned QueueBits = $clog2(Queue);
  typedef logic [PhaseBits-1:0] phase_t;

  typedef struct packed {
    logic   rest;
    logic   hidden;
    logic   last;   // Of its token.
    phase_t phase;
  } step_t;

  token_mask_t left_q;              // Tokens of the page that have no weights yet,
  logic        rest_left_q;         // and its rest.
  phase_t      phase_q;
  logic [QueueBits:0] begun_q;      // Tokens in their queue or on their way there,
  logic [QueueBits:0] rests_q;      // and rests.

  wire token_mask_t token = left_q & (~left_q + 1'b1);
  wire tokens_left = left_q != '0;
  wire hidden = tokens_left && (token & visible_i) == '0;
  wire may_begin = phase_q != '0 ||
      (tokens_left ? begun_q : rests_q) < (QueueBits + 1)'(Queue);
  wire go = (tokens_left || rest_left_q) && may_begin;
  wire last_phase = hidden || phase_q == '1;
  assign take_o = go && last_phase && !hidden;

  logic  fed_q;
  step_t step_q;
  wire   begins_token = go && phase_q == '0 && tokens_left;
  wire   begins_rest = go && phase_q == '0 && !tokens_left;
  // The weights of a rest go along with its logits, which are a cycle behind.
  assign take_rest_o = fed_q && step_q.rest && step_q.last;
  assign idle_o = !tokens_left && !rest_left_q && !fed_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      left_q <= '0;
      rest_left_q <= 1'b0;
      phase_q <= '0;
      begun_q <= '0;
      rests_q <= '0;
      fed_q <= 1'b0;
      step_q <= '0;
    end else if (clear_i) begin
      left_q <= '0;
      rest_left_q <= 1'b0;
      phase_q <= '0;
      begun_q <= '0;
      rests_q <= '0;
      fed_q <= 1'b0;
    end else begin
      fed_q <= go;
      step_q <= '{rest: !tokens_left, hidden: hidden, last: last_phase, phase: phase_q};
      begun_q <= begun_q + (QueueBits + 1)'(begins_token) - (QueueBits + 1)'(pop_i && !of_rest_i);
      rests_q <= rests_q + (QueueBits + 1)'(begins_rest) - (QueueBits + 1)'(pop_i && of_rest_i);
      if (start_i) begin
        left_q <= rows_i;
        rest_left_q <= rest_i;
        phase_q <= '0;
      end else if (go) begin
        phase_q <= last_phase ? '0 : phase_q + 1'b1;
        if (last_phase && tokens_left) left_q <= left_q & ~token;
        if (last_phase && !tokens_left) rest_left_q <= 1'b0;
      end
    end
  end

  // ---- Weights ----
  logic    valid[Units];
  step_t   step[Units];
  weight_t weight[Units];
  shift_t  shift[Units];
  units_t  units[Units];

  for (genvar u = 0; u < int'(Units); u++) begin : g_unit
    nkv_weight #(
      .TagBits($bits(step_t))
    ) u_weight (
      .clk_i,
      .rst_ni,
      .bounded_i     (1'b0),
      .valid_i       (fed_q),
      .tag_i         (step_q),
      .logit_i       (logit_i[{step_q.phase, 1'(u)}]),
      .reference_i   (reference_i[{step_q.phase, 1'(u)}]),
      .given_i       (step_q.rest),
      .given_weight_i(rest_weight_i[{step_q.phase, 1'(u)}]),
      .others_i      (1'b0),
      .halvings_i    ('0),
      .valid_o       (valid[u]),
      .tag_o         (step[u]),
      .weight_o      (weight[u]),
      .shift_o       (shift[u]),
      .units_o       (units[u])
    );
  end

  // ---- Queues: one narrow memory per row, rests in its upper half ----
  logic [QueueBits-1:0] write_q[2], read_q[2];
  wire rest = step[0].rest;
  wire pushes = valid[0] && step[0].last;
  wire [QueueBits:0] write_place = {rest, write_q[rest]};
  wire [QueueBits:0] read_place = {of_rest_i, read_q[of_rest_i]};
  assign pushed_o = pushes && !rest;
  assign pushed_rest_o = pushes && rest;

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    (* ram_style = "distributed" *) weight_t weights[2*Queue];
    (* ram_style = "distributed" *) shift_t  shifts[2*Queue];
    (* ram_style = "distributed" *) units_t  unit_sums[2*Queue];
    always_ff @(posedge clk_i) begin
      if (valid[0] && (step[0].hidden || step[0].phase == phase_t'(r / Units))) begin
        weights[write_place] <= step[0].hidden ? '0 : weight[r%Units];
        shifts[write_place] <= step[0].hidden ? '0 : shift[r%Units];
        unit_sums[write_place] <= step[0].hidden ? '0 : units[r%Units];
      end
    end
    assign weight_o[r] = weights[read_place];
    assign shift_o[r] = shifts[read_place];
    assign units_o[r] = unit_sums[read_place];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '{default: '0};
      read_q <= '{default: '0};
    end else if (clear_i) begin
      write_q <= '{default: '0};
      read_q <= '{default: '0};
    end else begin
      if (pushes) write_q[rest] <= write_q[rest] + 1'b1;
      if (pop_i) read_q[of_rest_i] <= read_q[of_rest_i] + 1'b1;
    end
  end

  wire unused = valid[1] ^ (^step[1]);

endmodule
