// The register block of a CXL hotness monitoring unit (CHMU), as the CXL specification has it from
// 3.2 on and as Linux's driver reads it: offsets, fields and codes. They are the specification's,
// not part of the contract in rtl/abi.
//
// Registers are 64 bits at multiples of 8. A block is a common part and its instances; ours has
// one. Offsets below count from the block, those that CAP2 and CAP3 report from the instance.

package nkv_chmu_pkg;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  typedef logic [15:0] offset_t;

  // ---- Offsets ----------------------------------------------------------------------------
  localparam offset_t CommonCap0 = 16'h00;
  localparam offset_t CommonCap1 = 16'h08;
  localparam offset_t InstanceBase = 16'h10;
  localparam offset_t Cap0 = 16'h10;
  localparam offset_t Cap1 = 16'h18;
  localparam offset_t Cap2 = 16'h20;  // Offset of the range bitmap, from the instance
  localparam offset_t Cap3 = 16'h28;  // Offset of the hot list, from the instance
  localparam offset_t Conf0 = 16'h50;
  localparam offset_t Conf1 = 16'h58;
  localparam offset_t Conf2 = 16'h60;
  localparam offset_t Status = 16'h70;
  localparam offset_t HeadTail = 16'h78;  // HEAD in [15:0], TAIL in [31:16]
  localparam offset_t RangeBitmap = 16'h80;

  // ---- Fields -----------------------------------------------------------------------------
  typedef struct packed {
    logic [47:0] reserved_16;
    logic [7:0]  instances;
    logic [3:0]  reserved_4;
    logic [3:0]  version;
  } common_cap0_t;

  typedef struct packed {
    logic [47:0] reserved_16;
    logic [15:0] instance_length;  // Bytes
  } common_cap1_t;

  typedef struct packed {
    logic [15:0] hotlist_size;     // Entries
    logic [11:0] min_epoch_value;
    logic [3:0]  min_epoch_scale;
    logic [11:0] max_epoch_value;
    logic [3:0]  max_epoch_scale;
    logic [1:0]  reserved_14;
    logic [5:0]  tracked_m2s;      // Bit n: kind n + 1 of track_e
    logic [1:0]  epoch_type;       // 0 global, 1 per counter
    logic        level_interrupt;
    logic        overflow_interrupt;
    logic [3:0]  msi_number;
  } cap0_t;

  typedef struct packed {
    logic [10:0] reserved_53;
    logic        insert_after_clear;
    logic        overlapping_ranges;
    logic        randomized_down_sampling;
    logic        always_on;
    logic        epoch_based;
    logic [15:0] down_sampling;    // Bit n: one of 2**n
    logic [31:0] unit_sizes;       // Bit n: 256 B << n
  } cap1_t;

  typedef struct packed {
    logic [31:0] hotness_threshold;
    logic [13:0] reserved_18;
    logic        reset_counters;   // Reads 0
    logic        enable;
    logic [4:0]  reserved_11;
    logic        interrupt_on_level;
    logic        interrupt_on_overflow;
    logic        randomize;
    logic [7:0]  m2s_to_track;
  } conf0_t;

  typedef struct packed {
    logic [11:0] epoch_value;
    logic [3:0]  epoch_scale;
    logic [7:0]  mode;
    logic [7:0]  down_sampling;    // One access of 2**n counts
    logic [31:0] unit_size;        // log2 of bytes, as Linux writes it
  } conf1_t;

  typedef struct packed {
    logic [47:0] reserved_16;
    logic [15:0] notification_threshold;
  } conf2_t;

  typedef struct packed {
    logic [21:0] reserved_42;
    logic        level;            // RW1C
    logic        overflow;         // RW1C
    logic [7:0]  counter_width;
    logic [15:0] operation;        // operation_e
    logic [14:0] reserved_1;
    logic        enabled;
  } status_t;

  typedef struct packed {
    logic [31:0] reserved_32;
    logic [15:0] tail;             // Next entry that the unit writes
    logic [15:0] head;             // Next entry that the host takes
  } head_tail_t;

  // ---- Codes ------------------------------------------------------------------------------
  // CONF0.m2s_to_track
  localparam logic [7:0] TrackNonTeeRead = 8'd1;
  localparam logic [7:0] TrackNonTeeWrite = 8'd2;
  localparam logic [7:0] TrackNonTeeReadWrite = 8'd3;
  localparam logic [7:0] TrackRead = 8'd4;
  localparam logic [7:0] TrackWrite = 8'd5;
  localparam logic [7:0] TrackReadWrite = 8'd6;

  // CONF1.mode
  localparam logic [7:0] ModeEpoch = 8'd0;
  localparam logic [7:0] ModeAlwaysOn = 8'd1;

  // Scales of epochs: 100 us, and 10 times as much with each further one.
  localparam logic [3:0] Scale100Us = 4'd1;
  localparam logic [3:0] Scale1S = 4'd5;

  typedef enum logic [15:0] {
    OperationNone = 16'd0,
    OperationEnable = 16'd1,
    OperationDisable = 16'd2,
    OperationReset = 16'd3
  } operation_e;

  // ---- Entries and ranges -----------------------------------------------------------------
  // An entry of the hot list is the unit's number above a count of CounterWidth bits.
  localparam int unsigned CounterWidth = 16;
  typedef logic [CounterWidth-1:0] count_t;
  // A bit of the range bitmap stands for 256 MiB.
  localparam int unsigned BlockLog2 = 28;
  localparam int unsigned SmallestUnitLog2 = 8;

  // ---- Inside the unit --------------------------------------------------------------------
  localparam int unsigned DpaBits = 52;
  typedef logic [DpaBits-1:0] dpa_t;

  typedef struct packed {
    logic is_write;
    dpa_t dpa;
  } access_t;

  // What the filter lets through, and how.
  typedef struct packed {
    logic       reads;
    logic       writes;
    logic       randomize;
    logic [3:0] down_sampling;
    logic [5:0] unit_log2;
  } filter_t;

  // What a write leaves in a register.
  function automatic logic [63:0] written(input logic [63:0] old, input logic [63:0] data,
                                          input logic [7:0] strobes);
    for (int i = 0; i < 8; i++) written[8*i+:8] = strobes[i] ? data[8*i+:8] : old[8*i+:8];
  endfunction

  // Bits of a unit's number whose parity is bit `place` of hash `row`: one output of splitmix64.
  function automatic logic [63:0] hash_mask(input int row, input int place);
    logic [63:0] z;
    z = (64'(row) * 64 + 64'(place) + 1) * 64'h9e37_79b9_7f4a_7c15;
    z = (z ^ (z >> 30)) * 64'hbf58_476d_1ce4_e5b9;
    z = (z ^ (z >> 27)) * 64'h94d0_49bb_1331_11eb;
    hash_mask = z ^ (z >> 31);
  endfunction

endpackage
