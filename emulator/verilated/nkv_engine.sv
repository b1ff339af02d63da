// nkv_engine for simulations of what is around engines: a model that is compiled once, however many tops there
// are and however many engines one has. nkv_engine's outputs are registers of its own, so that a call a cycle is
// all there is between the two; the model says if they are not.

module nkv_engine
  import nkv_pkg::*;
#(
  parameter int unsigned WatchdogCycles = nkv_pkg::PatienceCycles
) (
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,
  input  logic            forfeit_i,
  output logic            quiet_o,

  input  logic            command_valid_i,
  output logic            command_ready_o,
  input  engine_command_t command_i,
  output logic            outcome_valid_o,
  input  logic            outcome_ready_i,
  output outcome_t        outcome_o,
  output results_t        results_o,
  output logic            fatal_o,

  output logic            ar_valid_o,
  input  logic            ar_ready_i,
  output axi_ar_t         ar_o,
  input  logic            r_valid_i,
  input  axi_r_t          r_i,
  output logic            w_valid_o,
  input  logic            w_ready_i,
  output axi_w_t          w_o,
  input  logic            b_valid_i,
  input  axi_b_t          b_i
);

  import "DPI-C" function chandle nkv_engine_model_make();
  import "DPI-C" function void nkv_engine_model_free(input chandle model);
  import "DPI-C" function void nkv_engine_model_clock(
    input  chandle                           model,
    input  bit                               rst_n,
    input  bit                               clear,
    input  bit                               forfeit,
    output bit                               quiet,
    input  bit                               command_valid,
    output bit                               command_ready,
    input  bit [$bits(engine_command_t)-1:0] command,
    output bit                               outcome_valid,
    input  bit                               outcome_ready,
    output bit [$bits(outcome_t)-1:0]        outcome,
    output bit [$bits(results_t)-1:0]        results,
    output bit                               fatal,
    output bit                               ar_valid,
    input  bit                               ar_ready,
    output bit [$bits(axi_ar_t)-1:0]         ar,
    input  bit                               r_valid,
    input  bit [$bits(axi_r_t)-1:0]          r,
    output bit                               w_valid,
    input  bit                               w_ready,
    output bit [$bits(axi_w_t)-1:0]          w,
    input  bit                               b_valid,
    input  bit [$bits(axi_b_t)-1:0]          b
  );

  chandle model;
  initial model = nkv_engine_model_make();
  final nkv_engine_model_free(model);

  logic     quiet, command_ready, outcome_valid, fatal, ar_valid, w_valid;
  outcome_t outcome;
  results_t results;
  axi_ar_t  ar;
  axi_w_t   w;
  // A cycle of the model's is one of reset where that falls between cycles.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    nkv_engine_model_clock(model, rst_ni, clear_i, forfeit_i, quiet, command_valid_i, command_ready,
                           command_i, outcome_valid, outcome_ready_i, outcome, results, fatal,
                           ar_valid, ar_ready_i, ar, r_valid_i, r_i, w_valid, w_ready_i, w, b_valid_i,
                           b_i);
    {quiet_o, command_ready_o, fatal_o} <= {quiet, command_ready, fatal};
    {outcome_valid_o, outcome_o, results_o} <= {outcome_valid, outcome, results};
    {ar_valid_o, ar_o, w_valid_o, w_o} <= {ar_valid, ar, w_valid, w};
  end

  // The model was compiled with the usual one.
  if (WatchdogCycles != nkv_pkg::PatienceCycles) begin : gen_patience
    $error("the engine's model has the usual WatchdogCycles");
  end

endmodule
