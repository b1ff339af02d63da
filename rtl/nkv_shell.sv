// What stands around the engines: their front, and the inline path on which the host's accesses
// pass them. An engine has a port to memory of its own; the queues share engine 0's.
//
//   CSR bus --> nkv_front (registers, queues) --> commands of each engine
//                               |
//   port of engine 0 ---- nkv_axi_mux ----.
//   ports of the others ------------------+
//                                         |
//   host's ports, one a slice -------> nkv_inline --> memory, one port a slice
//                                `--> nkv_hotness

module nkv_shell
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned Slices = 1,         // Of memory: 1, 2 or 4.
  parameter int unsigned Engines = Slices,   // 1, 2 or 4.
  parameter int unsigned WatchdogCycles = nkv_pkg::PatienceCycles,
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
  input  host_request_t   [Slices-1:0] host_i,
  output host_answer_t    [Slices-1:0] host_o,
  output dev_load_e       [Slices-1:0] load_o,   // DevLoad

  // The memory controllers, a slice each.
  output memory_request_t [Slices-1:0] memory_o,
  input  memory_answer_t  [Slices-1:0] memory_i,

  // The engines. Each is Client 0 to itself; here its number takes the place of that in ids.
  output logic                          engine_clear_o,    // CONTROL.RESET, until memory owes nothing.
  output logic                          engine_forfeit_o,  // What it owes will not come.
  input  logic            [Engines-1:0] engine_quiet_i,    // It owes the engine nothing.
  output logic            [Engines-1:0] command_valid_o,
  input  logic            [Engines-1:0] command_ready_i,
  output engine_command_t [Engines-1:0] command_o,
  input  logic            [Engines-1:0] outcome_valid_i,
  output logic            [Engines-1:0] outcome_ready_o,
  input  outcome_t        [Engines-1:0] outcome_i,
  input  results_t        [Engines-1:0] results_i,
  input  logic            [Engines-1:0] fatal_i,
  input  logic            [Engines-1:0] engine_ar_valid_i,
  output logic            [Engines-1:0] engine_ar_ready_o,
  input  axi_ar_t         [Engines-1:0] engine_ar_i,
  output logic            [Engines-1:0] engine_r_valid_o,  // Answers are taken at once.
  output axi_r_t          [Engines-1:0] engine_r_o,
  input  logic            [Engines-1:0] engine_w_valid_i,
  output logic            [Engines-1:0] engine_w_ready_o,
  input  axi_w_t          [Engines-1:0] engine_w_i,
  output logic            [Engines-1:0] engine_b_valid_o,
  output axi_b_t          [Engines-1:0] engine_b_o
);

  if (64'(WatchdogCycles) * 64'd1_000_000 < 64'(SlotPatienceUs) * ClockHz)
    $error("Queues wait for less than SlotPatienceUs for what a doorbell told of");

  // Bits 0 and 1 are 0, as those of engine 0, whose port the queues use.
  localparam logic [2:0] QueuesClient = 3'd4;

  csr_access_t csr, registers;
  logic hotness_known;
  logic [63:0] hotness_rdata;
  logic [1:0] hotness;
  inline_control_t inline_control;
  doorbell_control_t doorbell_control;
  doorbell_t [Slices-1:0] doorbell;
  port_events_t [Engines-1:0] events;

  assign csr = '{
      valid: csr_req_i,
      write: csr_we_i,
      address: csr_addr_i,
      data: csr_wdata_i
  };

  // ---- The front ----
  logic    queues_ar_valid, queues_ar_ready, queues_r_valid;
  logic    queues_w_valid, queues_w_ready, queues_b_valid;
  axi_ar_t queues_ar;
  axi_w_t  queues_w;
  axi_r_t  queues_r;
  axi_b_t  queues_b;

  nkv_front #(
    .Slices(Slices),
    .Engines(Engines),
    .AnswerCycles(WatchdogCycles),
    .Client(QueuesClient),
    .ClockHz(ClockHz)
  ) u_front (
    .clk_i,
    .rst_ni,
    .access_i       (csr),
    .rdata_o        (csr_rdata_o),
    .error_o        (csr_error_o),
    .irq_o,
    .reset_o        (engine_clear_o),
    .forfeit_o      (engine_forfeit_o),
    .quiet_i        (engine_quiet_i),
    .fatal_i,
    .memory_bytes_i,
    .inline_o       (inline_control),
    .doorbells_o    (doorbell_control),
    .doorbell_i     (doorbell),
    .access_o       (registers),
    .hotness_known_i(hotness_known),
    .hotness_rdata_i(hotness_rdata),
    .hotness_i      (hotness),
    .ar_valid_o     (queues_ar_valid),
    .ar_ready_i     (queues_ar_ready),
    .ar_o           (queues_ar),
    .r_valid_i      (queues_r_valid),
    .r_i            (queues_r),
    .w_valid_o      (queues_w_valid),
    .w_ready_i      (queues_w_ready),
    .w_o            (queues_w),
    .b_valid_i      (queues_b_valid),
    .b_i            (queues_b),
    .command_valid_o,
    .command_ready_i,
    .command_o,
    .outcome_valid_i,
    .outcome_ready_o,
    .outcome_i,
    .results_i,
    .events_i       (events)
  );

  // ---- Near-data's ways to memory ----
  logic    [Engines-1:0] near_ar_valid, near_ar_ready, near_r_valid;
  logic    [Engines-1:0] near_w_valid, near_w_ready, near_b_valid;
  axi_ar_t [Engines-1:0] near_ar;
  axi_r_t  [Engines-1:0] near_r;
  axi_w_t  [Engines-1:0] near_w;
  axi_b_t  [Engines-1:0] near_b;
  logic unused_r_ready, unused_b_ready;  // Answers are taken at once.

  // An engine that has stopped reaches memory no more: its command has completed, and others go on.
  wire [Engines-1:0] asks = engine_ar_valid_i & ~fatal_i;
  wire [Engines-1:0] writes = engine_w_valid_i & ~fatal_i;

  nkv_axi_mux #(
    .Users(2),
    .Clients({QueuesClient, 3'd0})
  ) u_shared (
    .clk_i,
    .rst_ni,
    .ar_valid_i({queues_ar_valid, asks[0]}),
    .ar_ready_o({queues_ar_ready, engine_ar_ready_o[0]}),
    .ar_i      ({queues_ar, engine_ar_i[0]}),
    .r_valid_o ({queues_r_valid, engine_r_valid_o[0]}),
    .r_o       (queues_r),
    .w_valid_i ({queues_w_valid, writes[0]}),
    .w_ready_o ({queues_w_ready, engine_w_ready_o[0]}),
    .w_i       ({queues_w, engine_w_i[0]}),
    .b_valid_o ({queues_b_valid, engine_b_valid_o[0]}),
    .b_o       (queues_b),
    .ar_valid_o(near_ar_valid[0]),
    .ar_ready_i(near_ar_ready[0]),
    .ar_o      (near_ar[0]),
    .r_valid_i (near_r_valid[0]),
    .r_ready_o (unused_r_ready),
    .r_i       (near_r[0]),
    .w_valid_o (near_w_valid[0]),
    .w_ready_i (near_w_ready[0]),
    .w_o       (near_w[0]),
    .b_valid_i (near_b_valid[0]),
    .b_ready_o (unused_b_ready),
    .b_i       (near_b[0])
  );
  assign engine_r_o[0] = near_r[0];
  assign engine_b_o[0] = near_b[0];

  for (genvar i = 0; i < int'(Engines); i++) begin : gen_engine
    assign events[i] = '{
        ar_valid: asks[i],
        ar_ready: engine_ar_ready_o[i],
        ar_len: engine_ar_i[i].len,
        r_valid: engine_r_valid_o[i],
        w_valid: writes[i],
        w_ready: engine_w_ready_o[i],
        w_trails: engine_w_i[i].id[0],
        b_valid: engine_b_valid_o[i],
        b_trails: engine_b_o[i].id[0]
    };
    if (i != 0) begin : gen_own
      assign near_ar_valid[i] = asks[i];
      assign engine_ar_ready_o[i] = near_ar_ready[i];
      assign engine_r_valid_o[i] = near_r_valid[i];
      assign near_w_valid[i] = writes[i];
      assign engine_w_ready_o[i] = near_w_ready[i];
      assign engine_b_valid_o[i] = near_b_valid[i];
      always_comb begin
        near_ar[i] = engine_ar_i[i];
        near_ar[i].id[AxiIdBits-1-:3] = 3'(i);
        near_w[i] = engine_w_i[i];
        near_w[i].id[AxiIdBits-1-:3] = 3'(i);
        engine_r_o[i] = near_r[i];
        engine_r_o[i].id[AxiIdBits-1-:3] = '0;
        engine_b_o[i] = near_b[i];
        engine_b_o[i].id[AxiIdBits-1-:3] = '0;
      end
    end
  end

  nkv_inline #(
    .Slices(Slices),
    .Ports(Engines)
  ) u_inline (
    .clk_i,
    .rst_ni,
    .control_i      (inline_control),
    .doorbells_i    (doorbell_control),
    .host_i,
    .host_o,
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
    .memory_o,
    .memory_i
  );

  // ---- Hotness: of what the host asks for, and of what commands read ----
  logic host_access_valid;
  nkv_chmu_pkg::access_t host_access, near_access;
  logic near_access_valid;
  address_t asked[Engines], near_address;
  logic [(Engines > 1 ? $clog2(Engines) : 1)-1:0] unused_engine;

  nkv_host_accesses #(
    .Slices(Slices)
  ) u_host_accesses (
    .clk_i,
    .rst_ni,
    .host_i,
    .answer_i(host_o),
    .valid_o (host_access_valid),
    .access_o(host_access)
  );

  for (genvar i = 0; i < int'(Engines); i++) begin : gen_asked
    assign asked[i] = engine_ar_i[i].addr;
  end
  nkv_access_turns #(
    .Sources(Engines)
  ) u_near_accesses (
    .clk_i,
    .rst_ni,
    .taken_i  (asks & engine_ar_ready_o),
    .address_i(asked),
    .valid_o  (near_access_valid),
    .source_o (unused_engine),
    .address_o(near_address)
  );
  assign near_access = '{is_write: 1'b0, dpa: near_address};

  nkv_hotness #(
    .ClockKhz(int'(ClockHz / 1000))
  ) u_hotness (
    .clk_i,
    .rst_ni,
    .host_valid_i(host_access_valid),
    .host_i      (host_access),
    .near_valid_i(near_access_valid),
    .near_i      (near_access),
    .access_i    (registers),
    .known_o     (hotness_known),
    .rdata_o     (hotness_rdata),
    .interrupt_o (hotness)
  );

endmodule
