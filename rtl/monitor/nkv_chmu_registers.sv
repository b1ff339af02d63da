// The registers of a CHMU block with one instance (nkv_chmu_pkg), behind a 64-bit bus without wait
// states: `req_i` with the word's offset in `addr_i` (its low three bits do not count) and, to
// write, `we_i`, `wdata_i` and a strobe per byte; the next cycle has the answer. HEAD and TAIL are
// two registers of 16 bits in one word, told apart by their strobes.
//
// Offsets without a register read 0; writes to them, to what is read-only and to the hot list
// change nothing. While the unit is enabled or has an operation in progress, its configuration
// stays as it is: of CONF0 only enable, reset and the interrupts can be written, of CONF1 and the
// bitmap nothing.
//
// STATUS.overflow remembers that an entry was lost, STATUS.level that the list held more entries
// than CONF2 says; writing 1 clears them, unless an entry is lost that very cycle. Where the list
// is still too full the level bit comes back the next cycle. interrupt_o is high for one cycle when
// a bit whose interrupt is enabled becomes set.

module nkv_chmu_registers
  import nkv_chmu_pkg::*;
#(
  parameter cap0_t Capability0 = '0,
  parameter cap1_t Capability1 = '0,
  parameter count_t LargestThreshold = '1,
  parameter int unsigned RangeWords = 1,
  parameter int unsigned Entries = 1024,
  localparam int unsigned RangeIndexBits = RangeWords > 1 ? $clog2(RangeWords) : 1,
  localparam int unsigned EntryIndexBits = $clog2(Entries)
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic        req_i,
  input  logic        we_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [15:0] addr_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [7:0]  strobes_i,
  input  logic [63:0] wdata_i,
  output logic [63:0] rdata_o,

  // Control and configuration
  output logic        enable_o,
  output logic        reset_o,
  output logic        config_valid_o,
  input  logic        refuse_i,
  input  logic        enabled_i,
  input  logic        locked_i,
  input  operation_e  operation_i,
  output filter_t     filter_o,
  output count_t      threshold_o,
  output logic        always_on_o,
  output logic [3:0]  epoch_scale_o,
  output logic [11:0] epoch_value_o,

  output logic                      range_write_o,
  output logic [RangeIndexBits-1:0] range_index_o,
  input  logic [63:0]               range_data_i,

  // Hot list
  input  logic                      clear_i,
  input  logic                      overflow_i,
  input  logic [15:0]               used_i,
  input  logic [15:0]               head_i,
  input  logic [15:0]               tail_i,
  output logic                      head_write_o,
  output logic [15:0]               head_o,
  output logic                      entry_read_o,
  output logic [EntryIndexBits-1:0] entry_index_o,
  input  logic [63:0]               entry_data_i,

  output logic interrupt_o
);

  // Offsets from the instance, as CAP2 and CAP3 have them.
  localparam offset_t RangeOffset = RangeBitmap - InstanceBase;
  localparam offset_t ListOffset = RangeOffset + offset_t'(8 * RangeWords);
  localparam offset_t InstanceLength = ListOffset + offset_t'(8 * Entries);
  localparam offset_t ListBase = InstanceBase + ListOffset;
  localparam offset_t BlockEnd = InstanceBase + InstanceLength;

  conf0_t conf0_q;
  conf1_t conf1_q;
  conf2_t conf2_q;
  logic overflow_q, level_q;
  logic [1:0] raised_q;

  wire offset_t offset = {addr_i[15:3], 3'b0};
  wire in_ranges = offset >= RangeBitmap && offset < ListBase;
  wire in_list = offset >= ListBase && offset < BlockEnd;
  wire write = req_i && we_i;
  // Of what is written, only fields count.
  // verilator lint_off UNUSEDSIGNAL
  wire status_t cleared = status_t'(written('0, wdata_i, strobes_i));
  // verilator lint_on UNUSEDSIGNAL
  wire write_status = write && offset == Status;

  assign range_index_o = RangeIndexBits'((offset - RangeBitmap) >> 3);
  assign range_write_o = write && in_ranges && !locked_i;
  assign entry_index_o = EntryIndexBits'((offset - ListBase) >> 3);
  assign entry_read_o = req_i && !we_i && in_list;
  assign head_write_o = write && offset == HeadTail && strobes_i[1:0] == '1;
  assign head_o = wdata_i[15:0];

  // ---- Reading ----------------------------------------------------------------------------
  status_t status;
  logic [63:0] rdata;
  always_comb begin
    status = '0;
    status.enabled = enabled_i;
    status.operation = operation_i;
    status.counter_width = 8'(CounterWidth);
    status.overflow = overflow_q;
    status.level = level_q;

    unique case (offset)
      CommonCap0: rdata = common_cap0_t'{instances: 8'd1, version: 4'd1, default: '0};
      CommonCap1: rdata = common_cap1_t'{instance_length: InstanceLength, default: '0};
      Cap0: rdata = Capability0;
      Cap1: rdata = Capability1;
      Cap2: rdata = 64'(RangeOffset);
      Cap3: rdata = 64'(ListOffset);
      Conf0: rdata = conf0_q;
      Conf1: rdata = conf1_q;
      Conf2: rdata = conf2_q;
      Status: rdata = status;
      HeadTail: rdata = head_tail_t'{tail: tail_i, head: head_i, default: '0};
      default: rdata = in_ranges ? range_data_i : '0;
    endcase
  end

  logic [63:0] rdata_q;
  logic entry_q;
  assign rdata_o = entry_q ? entry_data_i : rdata_q;
  always_ff @(posedge clk_i) begin
    if (req_i) begin
      rdata_q <= rdata;
      entry_q <= in_list;
    end
  end

  // ---- Writing ----------------------------------------------------------------------------
  // verilator lint_off UNUSEDSIGNAL
  conf0_t conf0_new;
  conf1_t conf1_new;
  conf2_t conf2_new;
  // verilator lint_on UNUSEDSIGNAL
  assign conf0_new = conf0_t'(written(conf0_q, wdata_i, strobes_i));
  assign conf1_new = conf1_t'(written(conf1_q, wdata_i, strobes_i));
  assign conf2_new = conf2_t'(written(conf2_q, wdata_i, strobes_i));
  assign reset_o = write && offset == Conf0 && conf0_new.reset_counters;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      conf0_q <= '0;
      conf1_q <= '0;
      conf2_q <= '0;
      overflow_q <= 1'b0;
      level_q <= 1'b0;
      raised_q <= '0;
      interrupt_o <= 1'b0;
    end else begin
      if (refuse_i) conf0_q.enable <= 1'b0;
      if (write && offset == Conf0) begin
        conf0_q.enable <= conf0_new.enable;
        conf0_q.interrupt_on_level <= conf0_new.interrupt_on_level;
        conf0_q.interrupt_on_overflow <= conf0_new.interrupt_on_overflow;
        if (!locked_i) begin
          conf0_q.hotness_threshold <= conf0_new.hotness_threshold;
          conf0_q.randomize <= conf0_new.randomize;
          conf0_q.m2s_to_track <= conf0_new.m2s_to_track;
        end
      end
      if (write && offset == Conf1 && !locked_i) conf1_q <= conf1_new;
      if (write && offset == Conf2) begin
        conf2_q.notification_threshold <= conf2_new.notification_threshold;
      end

      overflow_q <= !clear_i && (overflow_i || (overflow_q && !(write_status && cleared.overflow)));
      level_q <= !clear_i && !(write_status && cleared.level) &&
                 (level_q || used_i > conf2_q.notification_threshold);

      // A lost entry in the cycle in which the host clears the last one's bit is news, too.
      raised_q <= {overflow_q && conf0_q.interrupt_on_overflow &&
                   !(write_status && cleared.overflow), level_q && conf0_q.interrupt_on_level};
      interrupt_o <= (overflow_q && conf0_q.interrupt_on_overflow && !raised_q[1]) ||
                     (level_q && conf0_q.interrupt_on_level && !raised_q[0]);
    end
  end

  // ---- What the configuration says --------------------------------------------------------
  wire [7:0] track = conf0_q.m2s_to_track;
  wire [31:0] unit_bit = conf1_q.unit_size - 32'(SmallestUnitLog2);
  logic kind_valid, unit_valid, sampling_valid, mode_valid, threshold_valid;
  always_comb begin
    kind_valid = track >= TrackNonTeeRead && track <= TrackReadWrite &&
                 Capability0.tracked_m2s[3'(track - 1'b1)];
    unit_valid = unit_bit[31:5] == '0 && Capability1.unit_sizes[unit_bit[4:0]];
    sampling_valid = conf1_q.down_sampling[7:4] == '0 &&
                     Capability1.down_sampling[conf1_q.down_sampling[3:0]] &&
                     (Capability1.randomized_down_sampling || !conf0_q.randomize);
    threshold_valid = conf0_q.hotness_threshold <= 32'(LargestThreshold);
    unique case (conf1_q.mode)
      ModeEpoch: mode_valid = Capability1.epoch_based && conf1_q.epoch_value != '0 &&
                              conf1_q.epoch_scale >= Scale100Us && conf1_q.epoch_scale <= Scale1S;
      ModeAlwaysOn: mode_valid = Capability1.always_on;
      default: mode_valid = 1'b0;
    endcase
  end

  assign enable_o = conf0_q.enable;
  assign config_valid_o = kind_valid && unit_valid && sampling_valid && mode_valid &&
                          threshold_valid;
  // A threshold of nothing is that of one access.
  assign threshold_o = conf0_q.hotness_threshold == '0 ? count_t'(1)
                                                       : count_t'(conf0_q.hotness_threshold);
  assign always_on_o = conf1_q.mode == ModeAlwaysOn;
  assign epoch_scale_o = conf1_q.epoch_scale;
  assign epoch_value_o = conf1_q.epoch_value;
  assign filter_o = '{
    // The memory has no trusted part: all requests are non-TEE requests.
    reads: track == TrackNonTeeRead || track == TrackNonTeeReadWrite || track == TrackRead ||
           track == TrackReadWrite,
    writes: track == TrackNonTeeWrite || track == TrackNonTeeReadWrite || track == TrackWrite ||
            track == TrackReadWrite,
    randomize: conf0_q.randomize,
    down_sampling: conf1_q.down_sampling[3:0],
    unit_log2: conf1_q.unit_size[5:0]
  };

endmodule
