// The near-data engine between the CXL IP and its memory: its front, one engine, and the inline path on
// which the host's accesses pass them.
//
//   CSR bus --> nkv_front (registers, queues) --> nkv_engine
//                               |                     |
//                               `---- nkv_axi_mux ----´
//                                          |
//   host's ports, one a slice --------> nkv_inline --> memory, one port a slice
//                                 `--> nkv_hotness

module nkv_top
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned Slices = 1,       // Of memory: 1, 2 or 4.
  parameter int unsigned WatchdogCycles = 262144,
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
  input  logic      [Slices-1:0] host_ar_valid_i,
  output logic      [Slices-1:0] host_ar_ready_o,
  input  access_t   [Slices-1:0] host_ar_i,
  output logic      [Slices-1:0] host_r_valid_o,
  input  logic      [Slices-1:0] host_r_ready_i,
  output access_r_t [Slices-1:0] host_r_o,
  input  logic      [Slices-1:0] host_aw_valid_i,
  output logic      [Slices-1:0] host_aw_ready_o,
  input  access_t   [Slices-1:0] host_aw_i,
  input  logic      [Slices-1:0] host_w_valid_i,
  output logic      [Slices-1:0] host_w_ready_o,
  input  access_w_t [Slices-1:0] host_w_i,
  output logic      [Slices-1:0] host_b_valid_o,
  input  logic      [Slices-1:0] host_b_ready_i,
  output axi_b_t    [Slices-1:0] host_b_o,
  output dev_load_e [Slices-1:0] load_o,   // DevLoad

  output logic           [Slices-1:0] memory_ar_valid_o,
  input  logic           [Slices-1:0] memory_ar_ready_i,
  output memory_access_t [Slices-1:0] memory_ar_o,
  input  logic           [Slices-1:0] memory_r_valid_i,
  output logic           [Slices-1:0] memory_r_ready_o,
  input  memory_r_t      [Slices-1:0] memory_r_i,
  output logic           [Slices-1:0] memory_aw_valid_o,
  input  logic           [Slices-1:0] memory_aw_ready_i,
  output memory_access_t [Slices-1:0] memory_aw_o,
  output logic           [Slices-1:0] memory_w_valid_o,
  input  logic           [Slices-1:0] memory_w_ready_i,
  output access_w_t      [Slices-1:0] memory_w_o,
  input  logic           [Slices-1:0] memory_b_valid_i,
  output logic           [Slices-1:0] memory_b_ready_o,
  input  memory_b_t      [Slices-1:0] memory_b_i
);

  localparam logic [2:0] EngineClient = 3'd0;
  localparam logic [2:0] QueuesClient = 3'd7;

  logic    [1:0] ar_valid, ar_ready, r_valid, w_valid, w_ready, b_valid;
  axi_ar_t [1:0] ar;
  axi_w_t  [1:0] w;
  axi_r_t        r;
  axi_b_t        b;

  logic            command_valid, command_ready, outcome_valid, outcome_ready;
  engine_command_t command;
  outcome_t        outcome;
  results_t        results;

  csr_access_t csr, registers;
  logic reset, fatal, hotness_known;
  logic [63:0] hotness_rdata;
  logic [1:0] hotness;
  inline_control_t inline_control;
  doorbell_control_t doorbell_control;
  doorbell_t [Slices-1:0] doorbell;
  port_events_t engine_events;

  assign csr = '{
      valid: csr_req_i,
      write: csr_we_i,
      address: csr_addr_i,
      data: csr_wdata_i
  };
  assign engine_events = '{
      ar_valid: ar_valid[0],
      ar_ready: ar_ready[0],
      ar_len: ar[0].len,
      r_valid: r_valid[0],
      w_valid: w_valid[0],
      w_ready: w_ready[0],
      w_trails: w[0].id[0],
      b_valid: b_valid[0],
      b_trails: b.id[0]
  };

  nkv_front #(
    .Slices(Slices),
    .Client(QueuesClient),
    .ClockHz(ClockHz)
  ) u_front (
    .clk_i,
    .rst_ni,
    .access_i       (csr),
    .rdata_o        (csr_rdata_o),
    .error_o        (csr_error_o),
    .irq_o,
    .reset_o        (reset),
    .fatal_i        (fatal),
    .memory_bytes_i,
    .inline_o       (inline_control),
    .doorbells_o    (doorbell_control),
    .doorbell_i     (doorbell),
    .access_o       (registers),
    .hotness_known_i(hotness_known),
    .hotness_rdata_i(hotness_rdata),
    .hotness_i      (hotness),
    .ar_valid_o     (ar_valid[1]),
    .ar_ready_i     (ar_ready[1]),
    .ar_o           (ar[1]),
    .r_valid_i      (r_valid[1]),
    .r_i            (r),
    .w_valid_o      (w_valid[1]),
    .w_ready_i      (w_ready[1]),
    .w_o            (w[1]),
    .b_valid_i      (b_valid[1]),
    .b_i            (b),
    .command_valid_o(command_valid),
    .command_ready_i(command_ready),
    .command_o      (command),
    .outcome_valid_i(outcome_valid),
    .outcome_ready_o(outcome_ready),
    .outcome_i      (outcome),
    .results_i      (results),
    .events_i       (engine_events)
  );

  nkv_engine #(
    .Client(EngineClient),
    .WatchdogCycles(WatchdogCycles)
  ) u_engine (
    .clk_i,
    .rst_ni,
    .clear_i        (reset),
    .command_valid_i(command_valid),
    .command_ready_o(command_ready),
    .command_i      (command),
    .outcome_valid_o(outcome_valid),
    .outcome_ready_i(outcome_ready),
    .outcome_o      (outcome),
    .results_o      (results),
    .fatal_o        (fatal),
    .ar_valid_o     (ar_valid[0]),
    .ar_ready_i     (ar_ready[0]),
    .ar_o           (ar[0]),
    .r_valid_i      (r_valid[0]),
    .r_i            (r),
    .w_valid_o      (w_valid[0]),
    .w_ready_i      (w_ready[0]),
    .w_o            (w[0]),
    .b_valid_i      (b_valid[0]),
    .b_i            (b)
  );

  // ---- Near-data's way to memory ----
  logic near_ar_valid, near_ar_ready, near_r_valid, near_w_valid, near_w_ready, near_b_valid;
  logic unused_r_ready, unused_b_ready;  // Answers are taken at once.
  axi_ar_t near_ar;
  axi_r_t  near_r;
  axi_w_t  near_w;
  axi_b_t  near_b;

  nkv_axi_mux #(
    .Users(2),
    .Clients({QueuesClient, EngineClient})
  ) u_memory (
    .clk_i,
    .rst_ni,
    .ar_valid_i(ar_valid),
    .ar_ready_o(ar_ready),
    .ar_i      (ar),
    .r_valid_o (r_valid),
    .r_o       (r),
    .w_valid_i (w_valid),
    .w_ready_o (w_ready),
    .w_i       (w),
    .b_valid_o (b_valid),
    .b_o       (b),
    .ar_valid_o(near_ar_valid),
    .ar_ready_i(near_ar_ready),
    .ar_o      (near_ar),
    .r_valid_i (near_r_valid),
    .r_ready_o (unused_r_ready),
    .r_i       (near_r),
    .w_valid_o (near_w_valid),
    .w_ready_i (near_w_ready),
    .w_o       (near_w),
    .b_valid_i (near_b_valid),
    .b_ready_o (unused_b_ready),
    .b_i       (near_b)
  );

  nkv_inline #(
    .Slices(Slices)
  ) u_inline (
    .clk_i,
    .rst_ni,
    .control_i      (inline_control),
    .doorbells_i    (doorbell_control),
    .host_ar_valid_i,
    .host_ar_ready_o,
    .host_ar_i,
    .host_r_valid_o,
    .host_r_ready_i,
    .host_r_o,
    .host_aw_valid_i,
    .host_aw_ready_o,
    .host_aw_i,
    .host_w_valid_i,
    .host_w_ready_o,
    .host_w_i,
    .host_b_valid_o,
    .host_b_ready_i,
    .host_b_o,
    .load_o,
    .doorbell_o     (doorbell),
    .near_ar_valid_i(near_ar_valid),
    .near_ar_ready_o(near_ar_ready),
    .near_ar_i      (near_ar),
    .near_r_valid_o (near_r_valid),
    .near_r_o       (near_r),
    .near_w_valid_i (near_w_valid),
    .near_w_ready_o (near_w_ready),
    .near_w_i       (near_w),
    .near_b_valid_o (near_b_valid),
    .near_b_o       (near_b),
    .memory_ar_valid_o,
    .memory_ar_ready_i,
    .memory_ar_o,
    .memory_r_valid_i,
    .memory_r_ready_o,
    .memory_r_i,
    .memory_aw_valid_o,
    .memory_aw_ready_i,
    .memory_aw_o,
    .memory_w_valid_o,
    .memory_w_ready_i,
    .memory_w_o,
    .memory_b_valid_i,
    .memory_b_ready_o,
    .memory_b_i
  );

  // ---- Hotness: of what the host asks for, and of what commands read ----
  logic host_access_valid;
  nkv_chmu_pkg::access_t host_access, near_access;
  assign near_access = '{is_write: 1'b0, dpa: ar[0].addr};

  nkv_host_accesses #(
    .Slices(Slices)
  ) u_host_accesses (
    .clk_i,
    .rst_ni,
    .read_i        (host_ar_valid_i & host_ar_ready_o),
    .read_access_i (host_ar_i),
    .write_i       (host_aw_valid_i & host_aw_ready_o),
    .write_access_i(host_aw_i),
    .valid_o       (host_access_valid),
    .access_o      (host_access)
  );

  nkv_hotness #(
    .ClockKhz(int'(ClockHz / 1000))
  ) u_hotness (
    .clk_i,
    .rst_ni,
    .host_valid_i(host_access_valid),
    .host_i      (host_access),
    .near_valid_i(ar_valid[0] && ar_ready[0]),
    .near_i      (near_access),
    .access_i    (registers),
    .known_o     (hotness_known),
    .rdata_o     (hotness_rdata),
    .interrupt_o (hotness)
  );

endmodule
