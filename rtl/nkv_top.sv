// The near-data engine of one memory slice: registers and queues on the host's side, an AXI port to
// memory on the other.
//
//   CSR bus --> nkv_csr --> nkv_queues --> nkv_engine
//                               |              |
//                               `- nkv_axi_mux ´ --> memory

module nkv_top
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter int unsigned WatchdogCycles = 262144,
  parameter logic [63:0] ClockHz = 64'd400_000_000
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  // Registers: one access per cycle, answered in the next (nkv_csr).
  input  logic        csr_req_i,
  input  logic        csr_we_i,
  input  logic [31:0] csr_addr_i,
  input  logic [63:0] csr_wdata_i,
  output logic [63:0] csr_rdata_o,
  output logic        csr_error_o,

  input  logic [63:0] memory_bytes_i,
  output logic [MaxQueues-1:0] posted_o,   // A pulse for each completion in memory.

  output logic        ar_valid_o,
  input  logic        ar_ready_i,
  output axi_ar_t     ar_o,
  input  logic        r_valid_i,
  output logic        r_ready_o,
  input  axi_r_t      r_i,
  output logic        w_valid_o,
  input  logic        w_ready_i,
  output axi_w_t      w_o,
  input  logic        b_valid_i,
  output logic        b_ready_o,
  input  axi_b_t      b_i
);

  csr_reg2hw_t reg2hw;
  csr_hw2reg_t hw2reg;
  csr_queue_status_t [MaxQueues-1:0] queue_status;
  logic fatal;

  always_comb begin
    hw2reg = '0;
    hw2reg.memory_bytes = memory_bytes_i;
    hw2reg.features[FeatureTicks] = 1'b1;
    hw2reg.features[FeatureTopk] = 1'b1;
    hw2reg.limits = '{
        queues: 8'(MaxQueues),
        group: 8'(Rows),
        head_dim: 16'(Channels),
        top_k: 16'(MaxTopK),
        tokens_log2: 8'(ListTokensLog2)
    };
    hw2reg.tick_hz = ClockHz;
    hw2reg.device_status = '{ready: !fatal, fatal: fatal};
    hw2reg.queue_status = queue_status;
  end

  nkv_csr u_csr (
    .clk_i,
    .rst_ni,
    .req_i   (csr_req_i),
    .we_i    (csr_we_i),
    .addr_i  (csr_addr_i),
    .wdata_i (csr_wdata_i),
    .rdata_o (csr_rdata_o),
    .error_o (csr_error_o),
    .reg2hw_o(reg2hw),
    .hw2reg_i(hw2reg)
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

  nkv_queues #(
    .Client(QueuesClient)
  ) u_queues (
    .clk_i,
    .rst_ni,
    .reset_i        (reg2hw.control.reset),
    .registers_i    (reg2hw),
    .memory_bytes_i,
    .status_o       (queue_status),
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
    .posted_o
  );

  nkv_engine #(
    .Client(EngineClient),
    .WatchdogCycles(WatchdogCycles)
  ) u_engine (
    .clk_i,
    .rst_ni,
    .clear_i        (reg2hw.control.reset),
    .command_valid_i(command_valid),
    .command_ready_o(command_ready),
    .command_i      (command),
    .outcome_valid_o(outcome_valid),
    .outcome_ready_i(outcome_ready),
    .outcome_o      (outcome),
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
    .ar_valid_o,
    .ar_ready_i,
    .ar_o,
    .r_valid_i,
    .r_ready_o,
    .r_i,
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_ready_o,
    .b_i
  );

endmodule
