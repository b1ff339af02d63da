// nkv_command_check with the fields of what it takes and says as ports.
module nkv_command_check_bench
  import nkv_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         valid_i,
  input  logic [511:0] command_i,
  input  address_t     window_bytes_i,
  output logic         done_o,
  output logic [7:0]   status_o,
  output logic [63:0]  detail_o
);

  verdict_t verdict;

  nkv_command_check u_check (
    .clk_i,
    .rst_ni,
    .valid_i,
    .command_i('{
        domain: '{tenant: '0, window_bytes: window_bytes_i, window_base: '0},
        command: command_i
    }),
    .done_o,
    .verdict_o(verdict)
  );

  assign status_o = verdict.status;
  assign detail_o = verdict.detail;

endmodule
