// What the units behind the registers pass each other.

package nkv_queue_pkg;

  import nkv_abi_pkg::*;
  import nkv_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  localparam int unsigned QueueBits = $clog2(MaxQueues);
  typedef logic [QueueBits-1:0] queue_t;
  // Free-running, as doorbells are.
  typedef logic [15:0] ring_count_t;

  // What a queue was enabled with.
  typedef struct packed {
    address_t   sq_base;
    address_t   cq_base;
    logic [3:0] ring_log2;
    domain_t    domain;
  } queue_setup_t;

  // Where a command's completion goes.
  typedef struct packed {
    address_t address;
    logic     phase;
  } completion_place_t;

  // A command that has started, as whatever deals with its end must know it.
  typedef struct packed {
    queue_t            queue_index;
    logic [15:0]       tenant;
    logic [15:0]       tag;
    logic [7:0]        opcode;
    ring_count_t       sq_head;   // After it.
    completion_place_t place;
  } started_t;

  // What happens at the engine's memory port in a cycle.
  typedef struct packed {
    logic       ar_valid;
    logic       ar_ready;
    logic [9:0] ar_len;           // Beats - 1.
    logic       r_valid;
    logic       w_valid;
    logic       w_ready;
    logic       w_trails;         // The write is one of the command before the one that runs.
    logic       b_valid;
    logic       b_trails;         // So was the write that is answered.
  } port_events_t;

  // What happened there since a command started. Each cycle is of one kind at the most.
  typedef struct packed {
    logic [63:0] ticks;
    logic [31:0] read_bursts;
    logic [31:0] written_bursts;
    logic [31:0] read_refused_ticks;
    logic [31:0] write_refused_ticks;
    logic [31:0] memory_wait_ticks;
  } activity_t;

  // A command that has ended.
  typedef struct packed {
    started_t  started;
    outcome_t  outcome;
    activity_t activity;
  } ended_t;

  // An access to registers, answered in the next cycle.
  typedef struct packed {
    logic        valid;
    logic        write;
    logic [31:0] address;
    logic [63:0] data;
  } csr_access_t;

  // Interrupts, by their bit in INTERRUPT_STATUS, which is their line.
  localparam int unsigned OtherInterrupts = 3;  // Those that are no queue's.
  localparam int unsigned Interrupts = OtherInterrupts + MaxQueues;
  typedef logic [Interrupts-1:0] interrupts_t;

  // verilator lint_on UNUSEDPARAM

endpackage
