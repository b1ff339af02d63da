// A hotness monitoring unit of the CXL specification (CHMU): counts the host's accesses to units of
// the memory, and lists those units that reach a threshold. One instance; Linux finds its block
// through the Register Locator (identifier 5).
//
//   access --> filter --> counters (exact | sketch) --> hot list --> registers
//
// One access per cycle, never held up; it is in the hot list 7 cycles later (exact counters) or 10
// (sketch). A unit is listed when it reaches the threshold, once an epoch, so that the count of its
// entry is the threshold (with the sketch: its estimate at that time); in always-on mode, which the
// sketch has not, each time that it has had that many accesses more.
//
// Accesses are not counted while counters are swept: after a reset, and once in 2**TagBits epochs
// (one cycle per unit, or per word of a sketch's row).

module nkv_chmu
  import nkv_chmu_pkg::*;
#(
  parameter int unsigned Blocks = 64,         // Memory, in 256 MiB
  parameter int unsigned UnitLog2 = 12,       // Smallest unit
  parameter int unsigned UnitSizes = 2,       // From the smallest on, each twice the one before
  parameter int unsigned Entries = 1024,      // Of the hot list: a power of two, 4,096 at most
  parameter int unsigned Sketch = 0,          // 0: exact counters, 1: sketch
  parameter int unsigned SketchWords = 32_768,
  parameter int unsigned TagBits = Sketch != 0 ? 5 : 16,
  parameter int unsigned ClockKhz = 400_000,
  parameter int unsigned MsiNumber = 0
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic    access_valid_i,
  input  access_t access_i,

  // Registers (nkv_chmu_registers)
  input  logic        req_i,
  input  logic        we_i,
  input  logic [15:0] addr_i,
  input  logic [7:0]  strobes_i,
  input  logic [63:0] wdata_i,
  output logic [63:0] rdata_o,

  output logic interrupt_o                    // For one cycle: send the MSI of CAP0.
);

  localparam int unsigned UnitBits = BlockLog2 + $clog2(Blocks) - UnitLog2;
  localparam int unsigned RangeWords = (Blocks + 63) / 64;
  localparam int unsigned RangeIndexBits = RangeWords > 1 ? $clog2(RangeWords) : 1;
  localparam int unsigned SketchCountBits = 14;
  localparam count_t LargestThreshold = Sketch != 0 ? count_t'((1 << SketchCountBits) - 1) : '1;

  localparam cap0_t Capability0 = '{
    hotlist_size: 16'(Entries),
    min_epoch_value: 12'd1,
    min_epoch_scale: Scale100Us,
    max_epoch_value: '1,
    max_epoch_scale: Scale1S,
    tracked_m2s: '1,
    epoch_type: 2'd0,
    level_interrupt: 1'b1,
    overflow_interrupt: 1'b1,
    msi_number: 4'(MsiNumber),
    default: '0
  };
  localparam cap1_t Capability1 = '{
    insert_after_clear: 1'b0,
    overlapping_ranges: 1'b0,
    randomized_down_sampling: 1'b1,
    always_on: Sketch == 0,
    epoch_based: 1'b1,
    down_sampling: '1,
    unit_sizes: ((32'd1 << UnitSizes) - 1'b1) << (UnitLog2 - SmallestUnitLog2),
    default: '0
  };

  // ---- Registers and control --------------------------------------------------------------
  logic enable, reset, config_valid, refuse, enabled, locked, start, clear, busy;
  operation_e operation;
  filter_t filter;
  count_t threshold;
  logic always_on;
  logic [3:0] epoch_scale;
  logic [11:0] epoch_value;
  logic range_write;
  logic [RangeIndexBits-1:0] range_index;
  logic [63:0] range_data, entry_data;
  logic overflow, head_write, entry_read;
  logic [15:0] used, head, tail, head_new;
  logic [$clog2(Entries)-1:0] entry_index;

  nkv_chmu_registers #(
    .Capability0(Capability0),
    .Capability1(Capability1),
    .LargestThreshold(LargestThreshold),
    .RangeWords(RangeWords),
    .Entries(Entries)
  ) u_registers (
    .clk_i,
    .rst_ni,
    .req_i,
    .we_i,
    .addr_i,
    .strobes_i,
    .wdata_i,
    .rdata_o,
    .enable_o(enable),
    .reset_o(reset),
    .config_valid_o(config_valid),
    .refuse_i(refuse),
    .enabled_i(enabled),
    .locked_i(locked),
    .operation_i(operation),
    .filter_o(filter),
    .threshold_o(threshold),
    .always_on_o(always_on),
    .epoch_scale_o(epoch_scale),
    .epoch_value_o(epoch_value),
    .range_write_o(range_write),
    .range_index_o(range_index),
    .range_data_i(range_data),
    .clear_i(clear),
    .overflow_i(overflow),
    .used_i(used),
    .head_i(head),
    .tail_i(tail),
    .head_write_o(head_write),
    .head_o(head_new),
    .entry_read_o(entry_read),
    .entry_index_o(entry_index),
    .entry_data_i(entry_data),
    .interrupt_o
  );

  nkv_chmu_control u_control (
    .clk_i,
    .rst_ni,
    .enable_i(enable),
    .reset_i(reset),
    .valid_i(config_valid),
    .refuse_o(refuse),
    .busy_i(busy),
    .start_o(start),
    .clear_o(clear),
    .enabled_o(enabled),
    .locked_o(locked),
    .operation_o(operation)
  );

  logic epoch_end;
  nkv_chmu_epoch #(
    .ClockKhz(ClockKhz)
  ) u_epoch (
    .clk_i,
    .rst_ni,
    .run_i(enabled && !always_on),
    .start_i(start),
    .scale_i(epoch_scale),
    .value_i(epoch_value),
    .end_o(epoch_end)
  );

  // ---- From accesses to entries -----------------------------------------------------------
  logic counted, hot;
  logic [UnitBits-1:0] unit_number, hot_unit;
  count_t hot_count;

  nkv_chmu_filter #(
    .Blocks(Blocks),
    .UnitLog2(UnitLog2),
    .UnitSizes(UnitSizes)
  ) u_filter (
    .clk_i,
    .rst_ni,
    .enabled_i(enabled),
    .start_i(start),
    .filter_i(filter),
    .range_write_i(range_write),
    .range_index_i(range_index),
    .range_strobes_i(strobes_i),
    .range_data_i(wdata_i),
    .range_data_o(range_data),
    .valid_i(access_valid_i),
    .access_i,
    .valid_o(counted),
    .unit_o(unit_number)
  );

  wire epoch = start || epoch_end;
  if (Sketch != 0) begin : g_sketch
    nkv_chmu_sketch #(
      .UnitBits(UnitBits),
      .RowWords(SketchWords),
      .CountBits(SketchCountBits),
      .TagBits(TagBits)
    ) u_counters (
      .clk_i,
      .rst_ni,
      .clear_i(clear),
      .epoch_i(epoch),
      .busy_o(busy),
      .threshold_i(threshold),
      .valid_i(counted),
      .unit_i(unit_number),
      .hot_valid_o(hot),
      .hot_unit_o(hot_unit),
      .hot_count_o(hot_count)
    );
  end else begin : g_exact
    nkv_chmu_exact #(
      .Units(Blocks << (BlockLog2 - UnitLog2)),
      .TagBits(TagBits)
    ) u_counters (
      .clk_i,
      .rst_ni,
      .clear_i(clear),
      .epoch_i(epoch),
      .busy_o(busy),
      .threshold_i(threshold),
      .restart_i(always_on),
      .valid_i(counted),
      .unit_i(unit_number),
      .hot_valid_o(hot),
      .hot_unit_o(hot_unit),
      .hot_count_o(hot_count)
    );
  end

  nkv_chmu_list #(
    .Entries(Entries),
    .UnitBits(UnitBits)
  ) u_list (
    .clk_i,
    .rst_ni,
    .clear_i(clear),
    .valid_i(hot),
    .unit_i(hot_unit),
    .count_i(hot_count),
    .overflow_o(overflow),
    .head_write_i(head_write),
    .head_i(head_new),
    .head_o(head),
    .tail_o(tail),
    .used_o(used),
    .read_i(entry_read),
    .read_index_i(entry_index),
    .read_data_o(entry_data)
  );

endmodule
