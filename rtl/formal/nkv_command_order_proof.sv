// What nkv_command_order promises: outcomes come in the order of commands, each accepted command has exactly
// one and its own, also when it runs while the results of the one before it trail, when memory refuses a
// write, and when either is stuck; an outcome that is offered does not change; and where nothing goes on, all
// outcomes come. One command, chosen freely, stands for all: the one whose tenant has the mark. Checks end in
// a cycle, units end what was dispatched once, and results wait for those of the command before
// (results_wait_i of nkv_attention).

module nkv_command_order_proof
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter int unsigned WatchdogCycles = 4
) (
  input logic clk_i,
  input logic clear_i,
  input logic command_valid_i,
  input logic mark_i,            // The command that is offered is the chosen one.
  input logic outcome_ready_i,
  input logic checked_i,
  input logic refused_i,
  input logic runs_i,
  input logic done_i,
  input logic results_left_i,
  input logic writes_done_i,
  input logic writes_failed_i,
  input logic results_done_i,
  input logic results_failed_i,
  input logic progress_i
);

  localparam logic [31:0] Mark = 32'h1;

  logic rst_n = 1'b0;
  logic ready, outcome_valid, fatal, busy, check, dispatch, trails, trailing_ends;
  engine_command_t offered, command;
  outcome_t outcome, done_outcome;
  results_t results;
  domain_t trailing_domain;
  verdict_t verdict;

  // Commands under way, the older first: two at the most.
  logic [1:0] count = '0;
  logic [1:0] marked = '0;     // [0]: the oldest is the chosen one.
  logic       taken = 1'b0;    // The chosen one has been accepted,
  logic       ended = 1'b0;    // and its outcome taken.
  logic       refused = 1'b0;  // The check said no of the chosen one.
  logic       ran = 1'b0;      // It was dispatched to a unit.
  logic       runs = 1'b0;     // One was dispatched and has not ended.
  logic       stands = 1'b0;   // An outcome was offered in the cycle before, and not taken:
  outcome_t   stood = '0;      // this one,
  logic       trailed = 1'b0;  // of a command that trails,
  logic       failed = 1'b0;   // whose results failed.
  logic [3:0] silent = '0;     // Cycles for which nothing went on, and no outcome was offered.

  always_comb begin
    offered = '0;
    offered.domain.tenant = 16'(mark_i && !taken);
    verdict = refused_i ? '{status: StatusBadField, detail: '0} : VerdictOk;
    // Whose outcome it is stands in it.
    done_outcome = '0;
    done_outcome.count = command.domain.tenant[0] ? Mark : '0;
  end

  nkv_command_order #(
    .WatchdogCycles(WatchdogCycles)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .clear_i,
    .command_valid_i,
    .command_ready_o(ready),
    .command_i(offered),
    .outcome_valid_o(outcome_valid),
    .outcome_ready_i,
    .outcome_o(outcome),
    .results_o(results),
    .fatal_o(fatal),
    .command_o(command),
    .busy_o(busy),
    .check_o(check),
    .checked_i,
    .verdict_i(verdict),
    .runs_i,
    .dispatch_o(dispatch),
    .done_i,
    .done_outcome_i(done_outcome),
    .results_left_i,
    .results_i('0),
    .writes_done_i,
    .writes_failed_i,
    .trails_o(trails),
    .trailing_domain_o(trailing_domain),
    .results_done_i,
    .results_failed_i,
    .trailing_ends_o(trailing_ends),
    .progress_i
  );

  wire takes = command_valid_i && ready;
  wire gives = outcome_valid && outcome_ready_i;
  wire marks = mark_i && !taken;
  wire runs_now = dispatch && runs_i;
  wire is_chosen = marked[0];
  wire is_lost = outcome.verdict.status == StatusInternal;
  wire is_refused = outcome.verdict.status == StatusBadField;

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n) begin
      if (clear_i) begin
        count <= '0;
        marked <= '0;
        runs <= 1'b0;
        // Forgotten: it may be chosen again.
        taken <= 1'b0;
        ended <= 1'b0;
        refused <= 1'b0;
        ran <= 1'b0;
      end else begin
        count <= count + 2'(takes) - 2'(gives);
        if (gives) marked <= {takes && count == 2'd2 && marks, count == 2'd1 ? takes && marks
                                                                             : marked[1]};
        else if (takes) marked[count[0]] <= marks;
        if (takes && marks) taken <= 1'b1;
        if (gives && is_chosen) ended <= 1'b1;
        if (check && checked_i && command.domain.tenant[0]) refused <= refused_i;
        if (runs_now && command.domain.tenant[0]) ran <= 1'b1;
        runs <= runs_now || (runs && !done_i);
      end
    end
    stands <= rst_n && outcome_valid && !outcome_ready_i && !clear_i;
    stood <= outcome;
    trailed <= trails;
    failed <= results_failed_i;
    silent <= !rst_n || clear_i || takes || count == '0 || outcome_valid || progress_i
        ? '0 : silent + 4'd1;
  end

  always_comb begin
    if (rst_n) begin
      assume (!check || checked_i);
      assume (!done_i || runs);
      assume (!(done_i && results_left_i && trails));
      assume (!(stands && trailed) || results_failed_i == failed);
      assume (!(stands && trailed && !fatal) || results_done_i);
      a_an_outcome_is_of_a_command : assert (!outcome_valid || count != '0);
      a_no_more_than_two : assert (count <= 2'd2 && !(takes && count == 2'd2));
      a_one_outcome_each : assert (!(gives && is_chosen && ended));
      a_none_for_nobody : assert (!is_chosen || (taken && !ended));
      // Its own: what its units said of it, and nobody else's.
      if (outcome_valid && !is_lost) begin
        a_it_has_its_own_outcome : assert (outcome.count == (is_chosen && ran ? Mark : '0));
        a_it_is_refused_if_the_check_says_so : assert (!is_chosen || is_refused == refused);
      end
      a_an_outcome_stands_until_it_is_taken : assert (!stands || (outcome_valid && outcome == stood));
      a_where_nothing_goes_on_outcomes_come : assert (silent <= 4'(WatchdogCycles + 3));
    end
  end

  wire unused = ^{results, trailing_domain, busy, trailing_ends, command};

endmodule
