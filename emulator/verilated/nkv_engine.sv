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

  typedef struct packed {
    logic rst_n, clear, forfeit, command_valid, outcome_ready, ar_ready, r_valid, w_ready, b_valid;
  } inputs_t;
  typedef struct packed {
    logic quiet, command_ready, outcome_valid, fatal, ar_valid, w_valid;
  } outputs_t;

  import "DPI-C" function chandle nkv_engine_model_make();
  import "DPI-C" function void nkv_engine_model_free(input chandle model);
  import "DPI-C" function void nkv_engine_model_clock(
    input  chandle                           model,
    input  bit [$bits(inputs_t)-1:0]         inputs,
    input  bit [$bits(engine_command_t)-1:0] command,
    input  bit [$bits(axi_r_t)-1:0]          r,
    input  bit [$bits(axi_b_t)-1:0]          b,
    output bit [$bits(outputs_t)-1:0]        outputs,
    output bit [$bits(outcome_t)-1:0]        outcome,
    output bit [$bits(results_t)-1:0]        results,
    output bit [$bits(axi_ar_t)-1:0]         ar,
    output bit [$bits(axi_w_t)-1:0]          w
  );

  chandle model;
  initial model = nkv_engine_model_make();
  final nkv_engine_model_free(model);

  inputs_t  inputs;
  outputs_t outputs;
  outcome_t outcome;
  results_t results;
  axi_ar_t  ar;
  axi_w_t   w;
  assign inputs = '{
      rst_n: rst_ni,
      clear: clear_i,
      forfeit: forfeit_i,
      command_valid: command_valid_i,
      outcome_ready: outcome_ready_i,
      ar_ready: ar_ready_i,
      r_valid: r_valid_i,
      w_ready: w_ready_i,
      b_valid: b_valid_i
  };
  // A cycle of the model's is one of reset where that falls between cycles.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    nkv_engine_model_clock(model, inputs, command_i, r_i, b_i, outputs, outcome, results, ar, w);
    {quiet_o, command_ready_o, outcome_valid_o, fatal_o, ar_valid_o, w_valid_o} <= outputs;
    outcome_o <= outcome;
    results_o <= results;
    ar_o <= ar;
    w_o <= w;
  end

  // The model was compiled with the usual one.
  if (WatchdogCycles != nkv_pkg::PatienceCycles) begin : gen_patience
    $error("the engine's model has the usual WatchdogCycles");
  end

endmodule
