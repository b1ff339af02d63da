// The front of the engines: registers, queues, and what software is told of them.
//
//   host's bus --> doorbell_turns --> nkv_csr --> queues --> commands --> the engines
//   doorbells in memory --´              |          `--> interrupts, totals, error_log
//                                        `--> the inline path's controls

module nkv_front
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned Slices = 1,
  parameter int unsigned Engines = 1,
  parameter int unsigned AnswerCycles = nkv_pkg::PatienceCycles,  // After which an answer of memory is lost.
  parameter logic [2:0]  Client = 3'd7,      // Upper bits of the ids of its reads and writes.
  parameter logic [63:0] ClockHz = 64'd400_000_000
) (
  input  logic            clk_i,
  input  logic            rst_ni,

  input  csr_access_t     access_i,
  output logic [63:0]     rdata_o,           // In the next cycle.
  output logic            error_o,
  output interrupts_t     irq_o,             // Levels, by their bit in INTERRUPT_STATUS.

  output logic            reset_o,           // CONTROL.RESET, until memory owes nothing,
  output logic            forfeit_o,         // or what it owes will not come.
  input  logic [Engines-1:0] quiet_i,        // It owes the engine nothing.
  input  logic [Engines-1:0] fatal_i,        // The engine has stopped.
  input  logic [63:0]     memory_bytes_i,
  output inline_control_t inline_o,
  output doorbell_control_t doorbells_o,
  input  doorbell_t [Slices-1:0] doorbell_i,

  // The hotness monitors, whose registers lie in the same map.
  output csr_access_t     access_o,          // What registers are asked.
  input  logic            hotness_known_i,   // The access is to theirs.
  input  logic [63:0]     hotness_rdata_i,   // In the next cycle.
  input  logic [1:0]      hotness_i,         // Interrupts: host, near-data.

  output logic            ar_valid_o,
  input  logic            ar_ready_i,
  output axi_ar_t         ar_o,
  input  logic            r_valid_i,
  input  axi_r_t          r_i,
  output logic            w_valid_o,
  input  logic            w_ready_i,
  output axi_w_t          w_o,
  input  logic            b_valid_i,
  input  axi_b_t          b_i,

  output logic            [Engines-1:0] command_valid_o,
  input  logic            [Engines-1:0] command_ready_i,
  output engine_command_t [Engines-1:0] command_o,
  input  logic            [Engines-1:0] outcome_valid_i,
  output logic            [Engines-1:0] outcome_ready_o,
  input  outcome_t        [Engines-1:0] outcome_i,
  input  results_t        [Engines-1:0] results_i,
  input  port_events_t    [Engines-1:0] events_i   // Of each engine's memory port.
);

  csr_reg2hw_t reg2hw;
  csr_hw2reg_t hw2reg;
  csr_queue_status_t [MaxQueues-1:0] queue_status;
  csr_access_t access;
  logic completion_lost, queues_quiet;
  logic [63:0] ticks_q, external_rdata;

  nkv_reset #(
    .AnswerCycles(AnswerCycles)
  ) u_reset (
    .clk_i,
    .rst_ni,
    .start_i  (reg2hw.control.reset),
    .quiet_i  (queues_quiet && quiet_i == '1),
    .reset_o,
    .forfeit_o
  );
  assign access_o = access;

  nkv_doorbell_turns #(
    .Slices(Slices)
  ) u_doorbells (
    .clk_i,
    .rst_ni,
    .reset_i   (reset_o),
    .doorbell_i,
    .access_i,
    .access_o  (access)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) ticks_q <= '0;
    else ticks_q <= ticks_q + 64'd1;
  end

  always_comb begin
    hw2reg = '0;
    hw2reg.memory_bytes = memory_bytes_i;
    hw2reg.features[FeatureTicks] = 1'b1;
    hw2reg.features[FeatureIndexer] = 1'b1;
    hw2reg.features[FeatureTranscode] = 1'b1;
    hw2reg.features[FeatureQueueWeights] = 1'b1;
    hw2reg.features[FeatureInterrupts] = 1'b1;
    hw2reg.features[FeatureCounters] = 1'b1;
    hw2reg.features[FeatureErrorLog] = 1'b1;
    hw2reg.features[FeatureInlineControl] = 1'b1;
    hw2reg.features[FeatureMemoryDoorbells] = 1'b1;
    hw2reg.features[FeatureHotness] = 1'b1;
    hw2reg.features[FeatureCodePages] = 1'b1;
    hw2reg.limits = '{
        queues: 8'(MaxQueues),
        group: 8'(Rows),
        head_dim: 16'(Channels),
        top_k: 16'(MaxTopK),
        tokens_log2: 8'(ListTokensLog2)
    };
    hw2reg.codecs = '{built: BuiltCodecs, read: ReadCodecs};
    hw2reg.tick_hz = ClockHz;
    hw2reg.tick_count = ticks_q;
    hw2reg.device_status = '{
        ready: fatal_i != '1 && !completion_lost && !reset_o,
        fatal: fatal_i != '0 || completion_lost
    };
    hw2reg.queue_status = queue_status;
  end

  nkv_csr u_csr (
    .clk_i,
    .rst_ni,
    .req_i           (access.valid),
    .we_i            (access.write),
    .addr_i          (access.address),
    .wdata_i         (access.data),
    .rdata_o,
    .error_o,
    .reg2hw_o        (reg2hw),
    .hw2reg_i        (hw2reg),
    .external_rdata_i(external_rdata)
  );

  // ---- Queues ----
  logic   posted_valid, ended_valid, ended_ready, logged;
  queue_t posted_queue;
  ended_t ended;

  nkv_queues #(
    .Engines(Engines),
    .AnswerCycles(AnswerCycles),
    .Client(Client)
  ) u_queues (
    .clk_i,
    .rst_ni,
    .reset_i        (reset_o),
    .forfeit_i      (forfeit_o),
    .quiet_o        (queues_quiet),
    .registers_i    (reg2hw),
    .memory_bytes_i,
    .status_o       (queue_status),
    .ar_valid_o,
    .ar_ready_i,
    .ar_o,
    .r_valid_i,
    .r_i,
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_i,
    .command_valid_o,
    .command_ready_i,
    .command_o,
    .outcome_valid_i,
    .outcome_ready_o,
    .outcome_i,
    .results_i,
    .events_i,
    .posted_valid_o (posted_valid),
    .posted_queue_o (posted_queue),
    .lost_o         (completion_lost),
    .ended_valid_o  (ended_valid),
    .ended_ready_i  (ended_ready),
    .ended_o        (ended)
  );

  // ---- What software is told ----
  logic totals_known, log_known;
  logic [63:0] totals_rdata, log_rdata;

  nkv_queue_totals u_totals (
    .clk_i,
    .rst_ni,
    .reset_i      (reset_o),
    .ended_valid_i(ended_valid),
    .ended_ready_o(ended_ready),
    .ended_i      (ended),
    .access_i     (access),
    .known_o      (totals_known),
    .rdata_o      (totals_rdata)
  );

  nkv_error_log u_errors (
    .clk_i,
    .rst_ni,
    .reset_i      (reset_o),
    .ended_valid_i(ended_valid),
    .ended_i      (ended),
    .head_i       (reg2hw.error_head.count),
    .access_i     (access),
    .known_o      (log_known),
    .rdata_o      (log_rdata),
    .logged_o     (logged)
  );

  logic [MaxQueues-1:0][15:0] completions;
  logic [MaxQueues-1:0][31:0] wait_ticks;
  interrupts_t interrupts;
  for (genvar i = 0; i < int'(MaxQueues); i++) begin : gen_queue
    assign completions[i] = reg2hw.coalesce[i].completions;
    assign wait_ticks[i] = reg2hw.coalesce[i].wait_ticks;
  end
  wire clears = access.valid && access.write && access.address == RegInterruptStatus;

  nkv_interrupts #(
    .Queues(MaxQueues),
    .Others(OtherInterrupts)
  ) u_interrupts (
    .clk_i,
    .rst_ni,
    .reset_i       (reset_o),
    .completions_i (completions),
    .wait_ticks_i  (wait_ticks),
    .mask_i        (interrupts_t'(reg2hw.interrupt_mask)),
    .posted_valid_i(posted_valid),
    .posted_queue_i(posted_queue),
    .others_i      ({logged, hotness_i[1], hotness_i[0]}),
    .clear_i       (clears ? interrupts_t'(access.data) : '0),
    .status_o      (interrupts),
    .irq_o
  );

  // ---- Registers that nkv_csr does not keep: the answer of the last access's keeper ----
  typedef enum logic [1:0] {
    KeeperInterrupts,
    KeeperTotals,
    KeeperLog,
    KeeperHotness
  } keeper_e;
  keeper_e keeper_q;
  logic [63:0] interrupts_rdata_q;

  always_ff @(posedge clk_i) begin
    if (access.valid) begin
      interrupts_rdata_q <= 64'(interrupts);
      keeper_q <= KeeperInterrupts;
      if (totals_known) keeper_q <= KeeperTotals;
      if (log_known) keeper_q <= KeeperLog;
      if (hotness_known_i) keeper_q <= KeeperHotness;
    end
  end
  always_comb begin
    unique case (keeper_q)
      KeeperTotals: external_rdata = totals_rdata;
      KeeperLog: external_rdata = log_rdata;
      KeeperHotness: external_rdata = hotness_rdata_i;
      default: external_rdata = interrupts_rdata_q;
    endcase
  end

  // ---- The inline path ----
  nkv_inline_registers u_inline (
    .registers_i(reg2hw),
    .control_o  (inline_o),
    .doorbells_o
  );

endmodule
