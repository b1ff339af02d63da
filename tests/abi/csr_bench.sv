// nkv_csr with the ports that its test looks at taken out of the wide structs; of the queues'
// registers, those of the queue that `queue_i` names.
module csr_bench
  import nkv_abi_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        req_i,
  input  logic        we_i,
  input  logic [31:0] addr_i,
  input  logic [63:0] wdata_i,
  output logic [63:0] rdata_o,
  output logic        error_o,

  input  logic [63:0] external_rdata_i,
  input  logic [63:0] features_i,
  input  logic [63:0] memory_bytes_i,
  input  logic [7:0]  limit_queues_i,
  input  logic [7:0]  limit_group_i,
  input  logic [15:0] limit_head_dim_i,
  input  logic [15:0] limit_top_k_i,
  input  logic [63:0] tick_hz_i,
  input  logic        ready_i,
  input  logic        fatal_i,

  input  logic [3:0]  queue_i,
  input  logic        running_i,
  input  logic        refused_i,

  output logic        reset_o,
  output logic [63:0] sq_base_o,
  output logic [63:0] cq_base_o,
  output logic [63:0] ring_entries_o,
  output logic        enable_o,
  output logic [63:0] sq_tail_o,
  output logic [63:0] cq_head_o,
  output logic [63:0] window_base_o,
  output logic [63:0] window_bytes_o,
  output logic [15:0] tenant_o,
  output logic [3:0]  weight_o,
  output logic [63:0] coalesce_o
);

  // Of registers that are no queue's, reading back is enough.
  // verilator lint_off UNUSEDSIGNAL
  csr_reg2hw_t reg2hw;
  // verilator lint_on UNUSEDSIGNAL
  csr_hw2reg_t hw2reg;

  always_comb begin
    hw2reg = '0;
    hw2reg.features = features_i;
    hw2reg.memory_bytes = memory_bytes_i;
    hw2reg.limits.queues = limit_queues_i;
    hw2reg.limits.group = limit_group_i;
    hw2reg.limits.head_dim = limit_head_dim_i;
    hw2reg.limits.top_k = limit_top_k_i;
    hw2reg.tick_hz = tick_hz_i;
    hw2reg.device_status.ready = ready_i;
    hw2reg.device_status.fatal = fatal_i;
    hw2reg.queue_status[queue_i].running = running_i;
    hw2reg.queue_status[queue_i].refused = refused_i;
  end

  nkv_csr u_csr (
    .clk_i,
    .rst_ni,
    .req_i,
    .we_i,
    .addr_i,
    .wdata_i,
    .rdata_o,
    .error_o,
    .reg2hw_o(reg2hw),
    .hw2reg_i(hw2reg),
    .external_rdata_i
  );

  assign reset_o = reg2hw.control.reset;
  assign sq_base_o = reg2hw.sq_base[queue_i];
  assign cq_base_o = reg2hw.cq_base[queue_i];
  assign ring_entries_o = reg2hw.ring_entries[queue_i];
  assign enable_o = reg2hw.queue_control[queue_i].enable;
  assign sq_tail_o = reg2hw.sq_tail[queue_i];
  assign cq_head_o = reg2hw.cq_head[queue_i];
  assign window_base_o = reg2hw.window_base[queue_i];
  assign window_bytes_o = reg2hw.window_bytes[queue_i];
  assign tenant_o = reg2hw.tenant[queue_i].number;
  assign weight_o = reg2hw.weight[queue_i].share;
  assign coalesce_o =
      64'({reg2hw.coalesce[queue_i].wait_ticks, reg2hw.coalesce[queue_i].completions});

endmodule
