// Weights of a page's tokens, in order, ahead of their values: reads the logits of all rows of a
// token, turns two a cycle into weights (ARITHMETIC.md 3.4), and queues them token by token. A token
// that is not visible has weights of zero and takes one cycle instead of four.

module nkv_page_weights
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_attend_pkg::*;
#(
  localparam int unsigned TokenBits = $clog2(PageTokens)
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,

  input  logic               start_i,          // A page; the rest is held until its last weights.
  input  token_mask_t        visible_i,
  input  logic               bank_i,
  input  reference_t         reference_i[Rows],

  output logic [TokenBits:0] read_o,           // Bank and token; the logits follow by a cycle.
  input  logit_t             logit_i[Rows],

  output logic               pushed_o,         // One more token has its weights.
  input  logic               pop_i,            // The oldest token's values have been added.
  output weight_t            weight_o[Rows],   // Of the oldest token.
  output shift_t             shift_o[Rows],
  output units_t             units_o[Rows]
);

  localparam int unsigned Units = 2;
  localparam int unsigned Phases = Rows / Units;
  localparam int unsigned PhaseBits = $clog2(Phases);
  localparam int unsigned Queue = 16;
  localparam int unsigned QueueBits = $clog2(Queue);
  typedef logic [PhaseBits-1:0] phase_t;

  typedef struct packed {
    logic   hidden;
    logic   last;   // Of its token.
    phase_t phase;
  } step_t;

  logic busy_q;
  logic [TokenBits-1:0] token_q;
  phase_t phase_q;
  logic [QueueBits:0] begun_q;  // Tokens in the queue or on their way there.

  wire hidden = !visible_i[token_q];
  wire may_begin = phase_q != '0 || begun_q < (QueueBits + 1)'(Queue);
  wire go = busy_q && may_begin;
  wire last_phase = hidden || phase_q == '1;
  assign read_o = {bank_i, token_q};

  logic  fed_q;
  step_t step_q;
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
        if (last_phase) begin
          token_q <= token_q + 1'b1;
          if (token_q == '1) busy_q <= 1'b0;
        end
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

  // ---- Queue: one narrow memory per row ----
  logic [QueueBits-1:0] write_q, read_q;
  assign pushed_o = valid[0] && step[0].last;

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    weight_t weights[Queue];
    shift_t  shifts[Queue];
    units_t  unit_sums[Queue];
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
    end else if (clear_i) begin
      write_q <= '0;
      read_q <= '0;
    end else begin
      if (pushed_o) write_q <= write_q + 1'b1;
      if (pop_i) read_q <= read_q + 1'b1;
    end
  end

  wire unused = valid[1] ^ (^step[1]);

endmodule
