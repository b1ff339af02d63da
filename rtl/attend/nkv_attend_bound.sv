// What BOUNDED knows of its error: the sums measured when its rounds ask for it, and the bounds that go
// with the result. Of a state that no sample has measured nothing is known.

module nkv_attend_bound
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_sample_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,        // Before each command.
  input  attend_command_t command_i,

  input  logic            measure_i,      // For one cycle, while the sums stand still.
  input  logic [7:0]      rounds_i,       // That there were in the end.
  input  logic            taken_i,        // All that was read has been added.
  output sample_report_t  report_o,
  output logic [31:0]     bound_o[Rows],
  output logic [31:0]     largest_o,      // Of the rows in use.

  output logic            read_valid_o,   // Of the sums that grow; 3 cycles later acc_i.
  output logic            read_z_o,
  output row_index_t      read_row_o,
  output logic [$clog2(Channels)-1:0] read_channel_o,
  output sample_group_t   read_sum_o,
  input  sum_t            acc_i
);

  localparam logic [31:0] Infinity = 32'h7F80_0000;

  logic        measured, all_within, known[Rows];
  log_t        log_bound[Rows], log_error;
  logic [31:0] measured_bound[Rows];

  nkv_sample_measure u_measure (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i     (measure_i),
    .rows_i      (group_t'(command_i.group)),
    .value_dim_i (dim_t'(command_i.value_dim)),
    .sixteenths_i(command_i.z),
    .error_i     (command_i.error),
    .read_valid_o,
    .read_z_o,
    .read_row_o,
    .read_channel_o,
    .read_sum_o,
    .acc_i,
    .done_o      (measured),
    .known_o     (known),
    .log_bound_o (log_bound),
    .bound_o     (measured_bound),
    .log_error_o (log_error),
    .all_within_o(all_within)
  );

  always_comb begin
    report_o = '{
        taken: taken_i,
        measured: measured,
        all_within: all_within,
        log_error: log_error,
        known: '0,
        log_bound: '0
    };
    largest_o = '0;
    for (int unsigned r = 0; r < Rows; r++) begin
      report_o.known[r] = known[r];
      report_o.log_bound[r] = log_bound[r];
      bound_o[r] = rounds_i == '0 ? Infinity : measured_bound[r];
      if (group_t'(r) < group_t'(command_i.group) && bound_o[r] > largest_o) largest_o = bound_o[r];
    end
  end

  wire unused = ^command_i;

endmodule
