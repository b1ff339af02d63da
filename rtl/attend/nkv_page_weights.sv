// Weights of a page's tokens, in order, ahead of their values: takes the logits of all rows of a
// token, turns two a cycle into weights (ARITHMETIC.md 3.4), and queues them token by token. A token that
// is not visible has weights of zero and takes one cycle instead of four.

module nkv_page_weights
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_attend_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,

  input  logic               start_i,          // A page, while idle_o; the rest is held until that comes.
  input  token_mask_t        visible_i,        // Tokens that have logits.
  input  reference_t         reference_i[Rows],

  output logic               take_o,           // The oldest logits are done with.
  input  logit_t             logit_i[Rows],    // The oldest ones, a cycle behind.

  output logic               row_due_o,        // A row has weights and has not been issued.
  input  logic               row_issued_i,
  input  logic               pop_i,            // The oldest row's values have been added.
  output weight_t            weight_o[Rows],   // Of that row.
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
  typedef logic [$clog2(PageTokens)-1:0] page_token_t;

  typedef struct packed {
    logic   hidden;
    logic   last;   // Of its token.
    phase_t phase;
  } step_t;

  logic               busy_q;
  page_token_t        token_q;      // That gets weights.
  phase_t             phase_q;
  logic [QueueBits:0] begun_q;      // Tokens in the queue or on their way there.

  wire hidden = !visible_i[token_q];
  wire may_begin = phase_q != '0 || begun_q < (QueueBits + 1)'(Queue);
  wire go = busy_q && may_begin;
  wire last_phase = hidden || phase_q == '1;
  assign take_o = go && last_phase && !hidden;

  logic  fed_q;
  step_t step_q;
  assign idle_o = !busy_q && !fed_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      token_q <= '0;
      phase_q <= '0;
      begun_q <= '0;
      fed_q <= 1'b0;
      step_q <= '0;
    end else if (clear_i) begin
      busy_q <= 1'b0;
      phase_q <= '0;
      begun_q <= '0;
      fed_q <= 1'b0;
    end else begin
      fed_q <= go;
      step_q <= '{hidden: hidden, last: last_phase, phase: phase_q};
      begun_q <= begun_q + (QueueBits + 1)'(go && phase_q == '0) - (QueueBits + 1)'(pop_i);
      if (start_i) begin
        busy_q <= 1'b1;
        token_q <= '0;
        phase_q <= '0;
      end else if (go) begin
        phase_q <= last_phase ? '0 : phase_q + 1'b1;
        if (last_phase) token_q <= token_q + 1'b1;
        if (last_phase && token_q == '1) busy_q <= 1'b0;
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
      .valid_i    (fed_q),
      .tag_i      (step_q),
      .logit_i    (logit_i[{step_q.phase, 1'(u)}]),
      .reference_i(reference_i[{step_q.phase, 1'(u)}]),
      .valid_o    (valid[u]),
      .tag_o      (step[u]),
      .weight_o   (weight[u]),
      .shift_o    (shift[u]),
      .units_o    (units[u])
    );
  end

  // ---- The queue: one narrow memory per query row ----
  logic [QueueBits-1:0] write_q, read_q;
  logic [QueueBits:0]   due_q;      // Rows that have not been issued.
  wire pushes = valid[0] && step[0].last;
  assign row_due_o = due_q != '0;

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    (* ram_style = "distributed" *) weight_t weights[Queue];
    (* ram_style = "distributed" *) shift_t  shifts[Queue];
    (* ram_style = "distributed" *) units_t  unit_sums[Queue];
    always_ff @(posedge clk_i) begin
      if (valid[0] && (step[0].hidden || step[0].phase == phase_t'(r / Units))) begin
        weights[write_q] <= step[0].hidden ? '0 : weight[r%Units];
        shifts[write_q] <= step[0].hidden ? '0 : shift[r%Units];
        unit_sums[write_q] <= step[0].hidden ? '0 : units[r%Units];
      end
    end
    assign weight_o[r] = weights[read_q];
    assign shift_o[r] = shifts[read_q];
    assign units_o[r] = unit_sums[read_q];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q <= '0;
      due_q <= '0;
    end else if (clear_i) begin
      write_q <= '0;
      read_q <= '0;
      due_q <= '0;
    end else begin
      if (pushes) write_q <= write_q + 1'b1;
      if (pop_i) read_q <= read_q + 1'b1;
      due_q <= due_q + (QueueBits + 1)'(pushes) - (QueueBits + 1)'(row_issued_i);
    end
  end

  wire unused = valid[1] ^ (^step[1]);

endmodule
