// Generated from rtl/abi/nearkv.toml by rtl/abi/gen.py; do not edit.
//
// The device's registers behind a 64-bit bus without wait states.
//
// An access takes one cycle: `req_i` with `addr_i` (a byte offset in the register map) and, to
// write, `we_i` and `wdata_i`. The next cycle has the answer, which stays until that of the next
// access: `error_o` if there is no register at this very offset, else `rdata_o` for a read.
// Writes to read-only registers and to bits without a field change nothing and are no error.
//
// External registers are kept by others, who see the same accesses: `external_rdata_i` has their
// answer a cycle after the access, and keeps it.

module nkv_csr
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

  output csr_reg2hw_t reg2hw_o,
  input  csr_hw2reg_t hw2reg_i,
  input  logic [63:0] external_rdata_i
);

  csr_reg2hw_t regs_q;

  // An address in a block that repeats is the offset of its first copy and an index.
  logic [31:0] offset;
  logic [3:0] index;

  always_comb begin
    offset = addr_i;
    index = '0;
    if (addr_i[31:8] == RegErrorEntry[31:8]) begin
      offset[7:4] = '0;
    end
    if (addr_i[31:11] == RegSqBase[31:11]) begin
      offset[10:7] = '0;
      index = 4'(addr_i[10:7]);
    end
    if (addr_i[31:11] == RegTotalCommands[31:11]) begin
      offset[10:7] = '0;
    end
    if (addr_i[31:14] == RegHostHotness[31:14]) begin
      offset[13:3] = '0;
    end
    if (addr_i[31:14] == RegNearHotness[31:14]) begin
      offset[13:3] = '0;
    end
  end

  logic known, external;
  logic [63:0] rdata;

  always_comb begin
    known = 1'b1;
    external = 1'b0;
    rdata = '0;
    unique case (offset)
      RegId: rdata = AbiId;
      RegAbi: rdata = 64'({AbiMinor, AbiMajor});
      RegFeatures: rdata = hw2reg_i.features;
      RegMemoryBytes: rdata = hw2reg_i.memory_bytes;
      RegLimits: rdata = 64'({
        hw2reg_i.limits.tokens_log2,
        hw2reg_i.limits.top_k,
        hw2reg_i.limits.head_dim,
        hw2reg_i.limits.group,
        hw2reg_i.limits.queues
      });
      RegTickHz: rdata = hw2reg_i.tick_hz;
      RegControl: rdata = 64'(1'b0);
      RegDeviceStatus: rdata = 64'({hw2reg_i.device_status.fatal, hw2reg_i.device_status.ready});
      RegTickCount: rdata = hw2reg_i.tick_count;
      RegInterruptStatus: external = 1'b1;
      RegInterruptMask: rdata = 64'({
        regs_q.interrupt_mask.queues,
        regs_q.interrupt_mask.errors,
        regs_q.interrupt_mask.near_hotness,
        regs_q.interrupt_mask.host_hotness
      });
      RegErrorState: external = 1'b1;
      RegErrorHead: rdata = 64'(regs_q.error_head.count);
      RegInlineControl: rdata = 64'({
        regs_q.inline_control.age_cycles,
        regs_q.inline_control.share,
        regs_q.inline_control.custom
      });
      RegInlineLimits: rdata = 64'({
        regs_q.inline_limits.writes,
        regs_q.inline_limits.reads,
        regs_q.inline_limits.near_least
      });
      RegInlineLoad: rdata = 64'({regs_q.inline_load.overload, regs_q.inline_load.optimal});
      RegDoorbellBase: rdata = regs_q.doorbell_base;
      RegDoorbellEnable: rdata = 64'(regs_q.doorbell_enable.queues);
      RegCodecs: rdata = 64'({hw2reg_i.codecs.read, hw2reg_i.codecs.built});
      RegErrorEntry: external = 1'b1;
      RegErrorDetail: external = 1'b1;
      RegSqBase: rdata = regs_q.sq_base[index];
      RegCqBase: rdata = regs_q.cq_base[index];
      RegRingEntries: rdata = regs_q.ring_entries[index];
      RegQueueControl: rdata = 64'(regs_q.queue_control[index].enable);
      RegSqTail: rdata = regs_q.sq_tail[index];
      RegCqHead: rdata = regs_q.cq_head[index];
      RegWindowBase: rdata = regs_q.window_base[index];
      RegWindowBytes: rdata = regs_q.window_bytes[index];
      RegTenant: rdata = 64'(regs_q.tenant[index].number);
      RegQueueStatus: rdata = 64'({
        hw2reg_i.queue_status[index].refused,
        hw2reg_i.queue_status[index].running
      });
      RegWeight: rdata = 64'(regs_q.weight[index].share);
      RegCoalesce: rdata = 64'({
        regs_q.coalesce[index].wait_ticks,
        regs_q.coalesce[index].completions
      });
      RegTotalCommands: external = 1'b1;
      RegTotalStreamBursts: external = 1'b1;
      RegTotalRefineBursts: external = 1'b1;
      RegTotalExactBursts: external = 1'b1;
      RegTotalValueBursts: external = 1'b1;
      RegTotalWrittenBursts: external = 1'b1;
      RegTotalBusyTicks: external = 1'b1;
      RegTotalReadRefusedTicks: external = 1'b1;
      RegTotalWriteRefusedTicks: external = 1'b1;
      RegTotalMemoryWaitTicks: external = 1'b1;
      RegHostHotness: external = 1'b1;
      RegNearHotness: external = 1'b1;
      default: known = 1'b0;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      regs_q <= '{default: '0};
    end else begin
      regs_q.control.reset <= 1'b0;
      if (req_i && we_i) begin
        unique case (offset)
          RegControl: begin
            regs_q.control.reset <= wdata_i[0];
            if (wdata_i[0]) begin
              regs_q.error_head.count <= '0;
              regs_q.doorbell_enable.queues <= '0;
              for (int unsigned i = 0; i < RegQueueControlCount; i++) begin
                regs_q.queue_control[i].enable <= '0;
              end
            end
          end
          RegInterruptMask: begin
            regs_q.interrupt_mask.host_hotness <= wdata_i[0];
            regs_q.interrupt_mask.near_hotness <= wdata_i[1];
            regs_q.interrupt_mask.errors <= wdata_i[2];
            regs_q.interrupt_mask.queues <= wdata_i[18:3];
          end
          RegErrorHead: begin
            regs_q.error_head.count <= wdata_i[15:0];
          end
          RegInlineControl: begin
            regs_q.inline_control.custom <= wdata_i[0];
            regs_q.inline_control.share <= wdata_i[4:1];
            regs_q.inline_control.age_cycles <= wdata_i[14:5];
          end
          RegInlineLimits: begin
            regs_q.inline_limits.near_least <= wdata_i[15:0];
            regs_q.inline_limits.reads <= wdata_i[31:16];
            regs_q.inline_limits.writes <= wdata_i[47:32];
          end
          RegInlineLoad: begin
            regs_q.inline_load.optimal <= wdata_i[15:0];
            regs_q.inline_load.overload <= wdata_i[31:16];
          end
          RegDoorbellBase: begin
            regs_q.doorbell_base <= wdata_i;
          end
          RegDoorbellEnable: begin
            regs_q.doorbell_enable.queues <= wdata_i[15:0];
          end
          RegSqBase: begin
            regs_q.sq_base[index] <= wdata_i;
          end
          RegCqBase: begin
            regs_q.cq_base[index] <= wdata_i;
          end
          RegRingEntries: begin
            regs_q.ring_entries[index] <= wdata_i;
          end
          RegQueueControl: begin
            regs_q.queue_control[index].enable <= wdata_i[0];
          end
          RegSqTail: begin
            regs_q.sq_tail[index] <= wdata_i;
          end
          RegCqHead: begin
            regs_q.cq_head[index] <= wdata_i;
          end
          RegWindowBase: begin
            regs_q.window_base[index] <= wdata_i;
          end
          RegWindowBytes: begin
            regs_q.window_bytes[index] <= wdata_i;
          end
          RegTenant: begin
            regs_q.tenant[index].number <= wdata_i[15:0];
          end
          RegWeight: begin
            regs_q.weight[index].share <= wdata_i[3:0];
          end
          RegCoalesce: begin
            regs_q.coalesce[index].completions <= wdata_i[15:0];
            regs_q.coalesce[index].wait_ticks <= wdata_i[47:16];
          end
          default: ;
        endcase
      end
    end
  end

  logic [63:0] rdata_q;
  logic external_q;
  assign rdata_o = external_q ? external_rdata_i : rdata_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      rdata_q <= '0;
      external_q <= 1'b0;
      error_o <= 1'b0;
    end else if (req_i) begin
      rdata_q <= we_i ? '0 : rdata;
      external_q <= external && !we_i;
      error_o <= !known;
    end
  end

  assign reg2hw_o = regs_q;

endmodule
