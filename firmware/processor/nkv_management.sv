// The management side of the card: the firmware's processor, the registers by which hosts speak to
// it, and the way to what it manages. Nothing here is on a query's way: the engine works whatever
// the firmware does.
//
//   host -- registers --> nkv_mailbox <--> nkv_share <--> nkv_processor's memory
//                                              |
//                                              `--> operations: memory, registers, flash memory

module nkv_management
  import nkv_firmware_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  // While held, the processor stands still, and words of its ROM can be written.
  input  logic        hold_i,
  input  logic        load_valid_i,
  input  logic [31:0] load_at_i,
  input  logic [31:0] load_data_i,

  // nkv_mailbox
  input  logic        req_i,
  input  logic        we_i,
  input  logic [11:3] addr_i,
  input  logic [7:0]  strobes_i,
  input  logic [63:0] wdata_i,
  output logic [63:0] rdata_o,
  output logic        interrupt_o,         // For a cycle: the mailbox's, or an event's.

  // nkv_share
  input  logic [63:0] memory_bytes_i,
  input  logic [63:0] serial_i,
  input  logic [63:0] dynamic_bytes_i,
  input  logic [15:0] temperature_i,
  output logic                operation_valid_o,
  output firmware_operation_e operation_o,
  output logic [63:0]         operation_at_o,
  output logic [31:0]         operation_bytes_o,
  output logic [511:0]        operation_line_o,
  input  logic                operation_done_i,
  input  logic                operation_failed_i,
  input  logic [63:0]         operation_at_i,
  input  logic [511:0]        operation_line_i,
  input  logic                error_valid_i,
  output logic                error_ready_o,
  input  logic [63:0]         error_at_i,
  input  logic                error_corrected_i,

  output logic        busy_o,              // Starts, or has something to do.
  output logic        failed_o             // nkv_processor
);
  localparam int unsigned WordBits = $clog2(MailboxBytes / 4);

  logic [3:0]  share_write;
  logic [31:0] share_at, share_data, port_data;
  logic        cleared, runs_q;

  logic                command_valid, answer_valid, payload_write, ready, background_runs;
  logic [15:0]         opcode, answer_status;
  logic [20:0]         payload_bytes, answer_bytes;
  logic [WordBits-1:0] payload_at;
  logic [31:0]         payload_in, payload_out, event_logs;
  logic [63:0]         background;
  logic                mailbox_interrupt, share_interrupt, errors_taken, restart;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) runs_q <= 1'b0;
    else runs_q <= cleared && !hold_i;
  end

  assign busy_o = !ready || command_valid || operation_valid_o || background_runs ||
                  error_valid_i || !errors_taken;
  assign interrupt_o = mailbox_interrupt || share_interrupt;

  nkv_processor u_processor (
    .clk_i,
    .rst_ni      (runs_q),
    .port_valid_i(hold_i ? load_valid_i : 1'b1),
    .port_write_i(hold_i ? '1 : share_write),
    .port_at_i   (hold_i ? load_at_i : share_at),
    .port_data_i (hold_i ? load_data_i : share_data),
    .port_data_o (port_data),
    .failed_o,
    .restart_o   (restart)
  );

  nkv_mailbox u_mailbox (
    .clk_i,
    .rst_ni,
    .req_i,
    .we_i,
    .addr_i,
    .strobes_i,
    .wdata_i,
    .rdata_o,
    .command_valid_o  (command_valid),
    .opcode_o         (opcode),
    .payload_bytes_o  (payload_bytes),
    .answer_valid_i   (answer_valid),
    .answer_status_i  (answer_status),
    .answer_bytes_i   (answer_bytes),
    .payload_write_i  (payload_write),
    .payload_at_i     (payload_at),
    .payload_i        (payload_in),
    .payload_o        (payload_out),
    .ready_i          (ready),
    .failed_i         (failed_o),
    .event_logs_i     (event_logs),
    .background_runs_i(background_runs),
    .background_i     (background),
    .interrupt_o      (mailbox_interrupt)
  );

  nkv_share u_share (
    .clk_i,
    .rst_ni           (rst_ni && !hold_i),
    .memory_bytes_i,
    .serial_i,
    .dynamic_bytes_i,
    .temperature_i,
    .restart_i        (restart),
    .cleared_o        (cleared),
    .port_write_o     (share_write),
    .port_at_o        (share_at),
    .port_data_o      (share_data),
    .port_data_i      (port_data),
    .command_valid_i  (command_valid),
    .opcode_i         (opcode),
    .payload_bytes_i  (payload_bytes),
    .answer_valid_o   (answer_valid),
    .answer_status_o  (answer_status),
    .answer_bytes_o   (answer_bytes),
    .payload_write_o  (payload_write),
    .payload_at_o     (payload_at),
    .payload_o        (payload_in),
    .payload_i        (payload_out),
    .ready_o          (ready),
    .event_logs_o     (event_logs),
    .background_runs_o(background_runs),
    .background_o     (background),
    .interrupt_o      (share_interrupt),
    .operation_valid_o,
    .operation_o,
    .operation_at_o,
    .operation_bytes_o,
    .operation_line_o,
    .operation_done_i,
    .operation_failed_i,
    .operation_at_i,
    .operation_line_i,
    .error_valid_i,
    .error_ready_o,
    .error_at_i,
    .error_corrected_i,
    .errors_taken_o   (errors_taken)
  );

endmodule
