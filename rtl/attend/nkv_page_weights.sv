// Weights of a page's tokens, in order, ahead of their values: takes the logits of all rows of a
// token, turns two a cycle into weights (ARITHMETIC.md 3.4), and queues them token by token, those of
// pages' means in a queue of their own: of the rest, which comes last. A token that is not visible has
// weights of zero and takes one cycle instead of four.
//
// A sampled token (8.4) has four weights, each of four cycles: of its own values for sum 0 and for its
// group's, then of minus the mean for both. One that was drawn for sure has nothing for its group: two
// weights. Its logits are those of its score, then of its midpoint.

module nkv_page_weights
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,

  input  logic               bounded_i,        // There are sampled tokens; held during a command.

  input  logic               start_i,          // A page, while idle_o; the rest is held until that comes.
  input  token_mask_t        rows_i,           // Tokens that get weights,
  input  token_mask_t        visible_i,        // those of them that have logits,
  input  token_mask_t        sampled_i,        // and those that are sampled, all of them visible.
  input  logic               rest_i,           // It has a rest.
  input  reference_t         reference_i[Rows],

  output logic               take_o,           // The oldest logits are done with.
  input  logit_t             logit_i[Rows],    // The oldest ones, a cycle behind,
  input  halvings_t          halvings_i,       // and the token's j
  input  sample_group_t      group_i,          // and group, if it is sampled.
  output logic               take_rest_o,
  input  weight_t            rest_weight_i[Rows],

  output logic               row_due_o,        // A row has weights and has not been issued:
  output logic               row_again_o,      // it will be once more.
  input  logic               row_issued_i,
  output logic               mean_due_o,       // So has a mean;
  output logic               mean_negate_o,    // minus it is meant.
  output logic               mean_again_o,
  input  logic               mean_issued_i,

  input  logic               of_mean_i,        // The oldest mean is meant, not the oldest row.
  input  logic               pop_i,            // Its values have been added.
  output sample_group_t      sum_o,            // To this sum; 0 is all that there is without bounded_i.
  output logic               subtract_o,       // Its units are to be subtracted.
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

  // What goes with the weights of a row or a mean.
  typedef struct packed {
    logic          again;   // It has the next ones, too.
    logic          negate;
    sample_group_t sum;
  } entry_t;

  typedef struct packed {
    logic   mean;
    logic   rest;
    logic   hidden;
    logic   others; // For a group.
    logic   again;
    logic   last;   // Of its weights.
    phase_t phase;
  } step_t;

  typedef struct packed {
    logic   mean;
    logic   hidden;
    logic   last;
    phase_t phase;
    entry_t entry;
  } tag_t;

  token_mask_t left_q;              // Tokens of the page that have no weights yet,
  logic        rest_left_q;         // and its rest.
  logic [1:0]  entry_q;             // Which of a sampled token's weights.
  phase_t      phase_q;
  logic [QueueBits:0] begun_q[2];   // Rows in their queue or on their way there, and means.

  wire token_mask_t token = left_q & (~left_q + 1'b1);
  wire tokens_left = left_q != '0;
  wire hidden = tokens_left && (token & visible_i) == '0;
  wire sampled = bounded_i && (token & sampled_i) != '0;
  wire last_sampled = (left_q & sampled_i & ~token) == '0;
  wire of_mean = !tokens_left || entry_q[1];
  wire may_begin = phase_q != '0 || begun_q[of_mean] < (QueueBits + 1)'(Queue);
  wire go = (tokens_left || rest_left_q) && may_begin;
  wire last_phase = hidden || phase_q == '1;
  // Of the token's logits, which have come by the last phase of its first weight.
  wire sure = halvings_i == '0;
  wire last_entry = !sampled || entry_q == 2'd3 || (entry_q == 2'd2 && sure);
  // Of its token, or its mean: a sampled one's values are taken twice, and means until the page's last.
  wire again = sampled && (entry_q[1] ? !last_entry || !last_sampled || rest_left_q
                                      : entry_q == 2'd0 && !sure);
  assign take_o = go && last_phase && !hidden && (!sampled || entry_q[0] || sure);

  logic  fed_q;
  step_t step_q;
  // The weights of a rest go along with its logits, which are a cycle behind.
  assign take_rest_o = fed_q && step_q.rest && step_q.last;
  assign idle_o = !tokens_left && !rest_left_q && !fed_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      left_q <= '0;
      rest_left_q <= 1'b0;
      entry_q <= '0;
      phase_q <= '0;
      begun_q <= '{default: '0};
      fed_q <= 1'b0;
      step_q <= '0;
    end else if (clear_i) begin
      left_q <= '0;
      rest_left_q <= 1'b0;
      entry_q <= '0;
      phase_q <= '0;
      begun_q <= '{default: '0};
      fed_q <= 1'b0;
    end else begin
      fed_q <= go;
      step_q <= '{
          mean: of_mean,
          rest: !tokens_left,
          hidden: hidden,
          others: sampled && entry_q[0],
          again: again,
          last: last_phase,
          phase: phase_q
      };
      for (int unsigned i = 0; i < 2; i++) begin
        begun_q[i] <= begun_q[i] +
            (QueueBits + 1)'(go && phase_q == '0 && of_mean == 1'(i)) -
            (QueueBits + 1)'(pop_i && of_mean_i == 1'(i));
      end
      if (start_i) begin
        left_q <= rows_i;
        rest_left_q <= rest_i;
        entry_q <= '0;
        phase_q <= '0;
      end else if (go) begin
        phase_q <= last_phase ? '0 : phase_q + 1'b1;
        if (last_phase) entry_q <= last_entry ? '0 : entry_q + (sampled && sure ? 2'd2 : 2'd1);
        if (last_phase && last_entry && tokens_left) left_q <= left_q & ~token;
        if (last_phase && !tokens_left) rest_left_q <= 1'b0;
      end
    end
  end

  // ---- Weights ----
  logic    valid[Units];
  tag_t    tag[Units];
  weight_t weight[Units];
  shift_t  shift[Units];
  units_t  units[Units];

  wire tag_t tag_in = '{
      mean: step_q.mean,
      hidden: step_q.hidden,
      last: step_q.last,
      phase: step_q.phase,
      entry: '{
          again: step_q.again,
          negate: step_q.mean && !step_q.rest,
          sum: step_q.others ? group_i : '0
      }
  };

  for (genvar u = 0; u < int'(Units); u++) begin : g_unit
    nkv_weight #(
      .TagBits($bits(tag_t))
    ) u_weight (
      .clk_i,
      .rst_ni,
      .bounded_i,
      .valid_i       (fed_q),
      .tag_i         (tag_in),
      .logit_i       (logit_i[{step_q.phase, 1'(u)}]),
      .reference_i   (reference_i[{step_q.phase, 1'(u)}]),
      .given_i       (step_q.rest),
      .given_weight_i(rest_weight_i[{step_q.phase, 1'(u)}]),
      .others_i      (step_q.others),
      .halvings_i,
      .valid_o       (valid[u]),
      .tag_o         (tag[u]),
      .weight_o      (weight[u]),
      .shift_o       (shift[u]),
      .units_o       (units[u])
    );
  end

  // ---- Queues: one narrow memory per query row, means in its upper half ----
  typedef logic [QueueBits-1:0] place_t;
  place_t write_q[2], issue_q[2], read_q[2];
  logic [QueueBits:0] due_q[2];     // Entries that have not been issued.
  wire mean = tag[0].mean;
  wire pushes = valid[0] && tag[0].last;
  wire [1:0] issued = {mean_issued_i, row_issued_i};
  wire [QueueBits:0] write_place = {mean, write_q[mean]};
  wire [QueueBits:0] read_place = {of_mean_i, read_q[of_mean_i]};

  (* ram_style = "distributed" *) entry_t entries[2*Queue];
  always_ff @(posedge clk_i) if (pushes) entries[write_place] <= tag[0].entry;
  wire entry_t read_entry = entries[read_place];
  wire entry_t row_entry = entries[{1'b0, issue_q[0]}];
  wire entry_t mean_entry = entries[{1'b1, issue_q[1]}];
  assign row_due_o = due_q[0] != '0;
  assign mean_due_o = due_q[1] != '0;
  assign row_again_o = row_entry.again;
  assign mean_again_o = mean_entry.again;
  assign mean_negate_o = mean_entry.negate;
  assign sum_o = read_entry.sum;
  assign subtract_o = read_entry.negate;

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    (* ram_style = "distributed" *) weight_t weights[2*Queue];
    (* ram_style = "distributed" *) shift_t  shifts[2*Queue];
    (* ram_style = "distributed" *) units_t  unit_sums[2*Queue];
    always_ff @(posedge clk_i) begin
      if (valid[0] && (tag[0].hidden || tag[0].phase == phase_t'(r / Units))) begin
        weights[write_place] <= tag[0].hidden ? '0 : weight[r%Units];
        shifts[write_place] <= tag[0].hidden ? '0 : shift[r%Units];
        unit_sums[write_place] <= tag[0].hidden ? '0 : units[r%Units];
      end
    end
    assign weight_o[r] = weights[read_place];
    assign shift_o[r] = shifts[read_place];
    assign units_o[r] = unit_sums[read_place];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '{default: '0};
      issue_q <= '{default: '0};
      read_q <= '{default: '0};
      due_q <= '{default: '0};
    end else if (clear_i) begin
      write_q <= '{default: '0};
      issue_q <= '{default: '0};
      read_q <= '{default: '0};
      due_q <= '{default: '0};
    end else begin
      for (int unsigned i = 0; i < 2; i++) begin
        automatic logic is_pushed = pushes && mean == 1'(i);
        if (is_pushed) write_q[i] <= write_q[i] + 1'b1;
        if (issued[i]) issue_q[i] <= issue_q[i] + 1'b1;
        if (pop_i && of_mean_i == 1'(i)) read_q[i] <= read_q[i] + 1'b1;
        due_q[i] <= due_q[i] + (QueueBits + 1)'(is_pushed) - (QueueBits + 1)'(issued[i]);
      end
    end
  end

  wire unused = valid[1] ^ (^tag[1]) ^ (^{read_entry.again, row_entry.negate, row_entry.sum,
                                          mean_entry.sum});

endmodule
