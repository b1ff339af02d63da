// nkv_command_order with ports that C++ can name one by one. Of a command only its first word and its
// tenant are the test's, of an outcome only its count.
module nkv_command_order_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter int unsigned WatchdogCycles = 100
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,

  input  logic        command_valid_i,
  output logic        command_ready_o,
  input  logic [15:0] command_tenant_i,
  input  logic [31:0] command_word_i,
  output logic        outcome_valid_o,
  input  logic        outcome_ready_i,
  output logic [7:0]  outcome_status_o,
  output logic [31:0] outcome_count_o,
  output logic [7:0]  results_o,
  output logic        fatal_o,

  output logic [31:0] word_o,
  output logic        busy_o,
  output logic        check_o,
  input  logic        checked_i,
  input  logic [7:0]  verdict_status_i,
  input  logic        runs_i,
  output logic        dispatch_o,
  input  logic        done_i,
  input  logic [31:0] done_count_i,
  input  logic        results_left_i,
  input  logic [7:0]  results_i,
  input  logic        writes_done_i,
  output logic        trails_o,
  output logic [15:0] trailing_tenant_o,
  input  logic        results_done_i,
  input  logic        progress_i
);

  engine_command_t command, running;
  outcome_t outcome;
  domain_t trailing_domain;

  always_comb begin
    command = '0;
    command.domain.tenant = command_tenant_i;
    command.command[31:0] = command_word_i;
  end

  nkv_command_order #(
    .WatchdogCycles(WatchdogCycles)
  ) u_order (
    .clk_i,
    .rst_ni,
    .clear_i,
    .command_valid_i,
    .command_ready_o,
    .command_i        (command),
    .outcome_valid_o,
    .outcome_ready_i,
    .outcome_o        (outcome),
    .results_o,
    .fatal_o,
    .command_o        (running),
    .busy_o,
    .check_o,
    .checked_i,
    .verdict_i        ('{status: status_e'(verdict_status_i), detail: '0}),
    .runs_i,
    .dispatch_o,
    .done_i,
    .done_outcome_i   ('{count: done_count_i, default: '0}),
    .results_left_i,
    .results_i,
    .writes_done_i,
    .trails_o,
    .trailing_domain_o(trailing_domain),
    .results_done_i,
    .progress_i
  );

  assign outcome_status_o = outcome.verdict.status;
  assign outcome_count_o = outcome.count;
  assign word_o = running.command[31:0];
  assign trailing_tenant_o = trailing_domain.tenant;

  wire unused = ^{outcome, running, trailing_domain};

endmodule
