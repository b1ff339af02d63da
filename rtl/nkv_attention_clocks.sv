// Clocks of the units of nkv_attention that a command does not always need.

module nkv_attention_clocks
  import nkv_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  logic clear_i,         // CONTROL.RESET

  input  logic busy_i,          // A command is here
  input  logic start_i,         // and now begins:
  input  logic ranks_i,         // it is a TOPK, else an ATTEND.
  input  logic input_done_i,    // Its query and list are here.
  input  logic no_rows_i,       // TOPK scores no row for now.
  input  logic set_aside_i,     // Sums become the results',
  input  logic results_busy_i,  // which are still to be written.

  output logic input_clk_o,
  output logic topk_clk_o,
  output logic attend_clk_o,
  output logic result_clk_o,
  output logic exact_clk_o
);

  logic input_busy_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) input_busy_q <= 1'b0;
    else if (start_i) input_busy_q <= 1'b1;
    else if (input_done_i || clear_i) input_busy_q <= 1'b0;
  end
  nkv_idle_clock u_input (
    .clk_i,
    .rst_ni,
    .busy_i(start_i || input_busy_q || clear_i),
    .clk_o (input_clk_o)
  );

  nkv_idle_clock #(
    .HoldCycles(ClearCycles)
  ) u_topk (
    .clk_i,
    .rst_ni,
    .busy_i((busy_i && ranks_i) || clear_i),
    .clk_o (topk_clk_o)
  );
  nkv_idle_clock u_attend (
    .clk_i,
    .rst_ni,
    .busy_i((busy_i && !ranks_i) || results_busy_i || clear_i),
    .clk_o (attend_clk_o)
  );
  nkv_idle_clock u_result (
    .clk_i,
    .rst_ni,
    .busy_i(set_aside_i || results_busy_i || clear_i),
    .clk_o (result_clk_o)
  );
  nkv_idle_clock u_exact (
    .clk_i,
    .rst_ni,
    .busy_i((busy_i && !(ranks_i && no_rows_i)) || results_busy_i || clear_i),
    .clk_o (exact_clk_o)
  );

endmodule
