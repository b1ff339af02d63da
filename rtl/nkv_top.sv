// The near-data engines between the CXL IP and its memory: as many of them as memory has slices, in
// the shell that joins them to registers, queues, host and memory.

module nkv_top
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned Slices = 1,         // Of memory: 1, 2 or 4.
  parameter int unsigned Engines = Slices,   // 1, 2 or 4.
  parameter int unsigned WatchdogCycles = nkv_pkg::PatienceCycles,
  parameter logic [63:0] ClockHz = 64'd400_000_000
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  // Registers: one access per cycle, answered in the next.
  input  logic        csr_req_i,
  input  logic        csr_we_i,
  input  logic [31:0] csr_addr_i,
  input  logic [63:0] csr_wdata_i,
  output logic [63:0] csr_rdata_o,
  output logic        csr_error_o,

  input  logic [63:0] memory_bytes_i,
  output interrupts_t irq_o,               // Levels: INTERRUPT_STATUS without what is masked.

  // The host's accesses to device memory, as the CXL IP divides them among slices (nkv_inline).
  input  host_request_t   [Slices-1:0] host_i,
  output host_answer_t    [Slices-1:0] host_o,
  output dev_load_e       [Slices-1:0] load_o,   // DevLoad

  // The memory controllers, a slice each.
  output memory_request_t [Slices-1:0] memory_o,
  input  memory_answer_t  [Slices-1:0] memory_i
);

  logic                          clear, forfeit;
  logic            [Engines-1:0] command_valid, command_ready, outcome_valid, outcome_ready, fatal;
  logic            [Engines-1:0] quiet;
  engine_command_t [Engines-1:0] command;
  outcome_t        [Engines-1:0] outcome;
  results_t        [Engines-1:0] results;
  logic            [Engines-1:0] ar_valid, ar_ready, r_valid, w_valid, w_ready, b_valid;
  axi_ar_t         [Engines-1:0] ar;
  axi_r_t          [Engines-1:0] r;
  axi_w_t          [Engines-1:0] w;
  axi_b_t          [Engines-1:0] b;

  nkv_shell #(
    .Slices(Slices),
    .Engines(Engines),
    .WatchdogCycles(WatchdogCycles),
    .ClockHz(ClockHz)
  ) u_shell (
    .clk_i,
    .rst_ni,
    .csr_req_i,
    .csr_we_i,
    .csr_addr_i,
    .csr_wdata_i,
    .csr_rdata_o,
    .csr_error_o,
    .memory_bytes_i,
    .irq_o,
    .host_i,
    .host_o,
    .load_o,
    .memory_o,
    .memory_i,
    .engine_clear_o   (clear),
    .engine_forfeit_o (forfeit),
    .engine_quiet_i   (quiet),
    .command_valid_o  (command_valid),
    .command_ready_i  (command_ready),
    .command_o        (command),
    .outcome_valid_i  (outcome_valid),
    .outcome_ready_o  (outcome_ready),
    .outcome_i        (outcome),
    .results_i        (results),
    .fatal_i          (fatal),
    .engine_ar_valid_i(ar_valid),
    .engine_ar_ready_o(ar_ready),
    .engine_ar_i      (ar),
    .engine_r_valid_o (r_valid),
    .engine_r_o       (r),
    .engine_w_valid_i (w_valid),
    .engine_w_ready_o (w_ready),
    .engine_w_i       (w),
    .engine_b_valid_o (b_valid),
    .engine_b_o       (b)
  );

  nkv_engine #(
    .WatchdogCycles(WatchdogCycles)
  ) u_engine[Engines-1:0] (
    .clk_i,
    .rst_ni,
    .clear_i        (clear),
    .forfeit_i      (forfeit),
    .quiet_o        (quiet),
    .command_valid_i(command_valid),
    .command_ready_o(command_ready),
    .command_i      (command),
    .outcome_valid_o(outcome_valid),
    .outcome_ready_i(outcome_ready),
    .outcome_o      (outcome),
    .results_o      (results),
    .fatal_o        (fatal),
    .ar_valid_o     (ar_valid),
    .ar_ready_i     (ar_ready),
    .ar_o           (ar),
    .r_valid_i      (r_valid),
    .r_i            (r),
    .w_valid_o      (w_valid),
    .w_ready_i      (w_ready),
    .w_o            (w),
    .b_valid_i      (b_valid),
    .b_i            (b)
  );

endmodule
