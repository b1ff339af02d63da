// Generated from rtl/abi/nearkv.toml by rtl/abi/gen.py; do not edit.
//
// The device's registers behind a 64-bit bus without wait states.
//
// An access takes one cycle: `req_i` with `addr_i` (a byte offset in the register map) and, to
// write, `we_i` and `wdata_i`. The next cycle has the answer, which stays until that of the next
// access: `error_o` if there is no register at this very offset, else `rdata_o` for a read.
// Writes to read-only registers and to bits without a field change nothing and are no error.

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
  input  csr_hw2reg_t hw2reg_i
);

  csr_reg2hw_t regs_q;

  // An address in a block that repeats is the offset of its first copy and an index.
  logic [31:0] offset;
  logic [3:0] index;

  always_comb begin
    offset = addr_i;
    index = '0;
    if (addr_i[31:11] == RegSqBase[31:11]) begin
      offset[10:7] = '0;
      index = 4'(addr_i[10:7]);
    end
  end

  logic known;
  logic [63:0] rdata;

  always_comb begin
    known = 1'b1;
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
      default: known = 1'b0;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      regs_q <= '0;
    end else begin
      regs_q.control.reset <= 1'b0;
      if (req_i && we_i) begin
        unique case (offset)
          RegControl: begin
            regs_q.control.reset <= wdata_i[0];
            if (wdata_i[0]) begin
              for (int unsigned i = 0; i < RegQueueControlCount; i++) begin
                regs_q.queue_control[i].enable <= '0;
              end
            end
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
          default: ;
        endcase
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      rdata_o <= '0;
      error_o <= 1'b0;
    end else if (req_i) begin
      rdata_o <= we_i ? '0 : rdata;
      error_o <= !known;
    end
  end

  assign reg2hw_o = regs_q;

endmodule
