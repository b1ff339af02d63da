// The queues: rings in device memory on one side, commands and outcomes on the other.
//
// A queue is taken up, or refused, when software enables it, with the registers that it has then.
// While it runs, its commands go out one at a time and in order; queues take turns. A completion is
// one write of 64 bytes, made when its slot has been read by the host, and announced when memory has
// taken it. Disabling a queue lets the command in flight end; `reset_i` forgets everything.
//
// Sections "Registers" and "completion" of the contract's reference.

module nkv_queues
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter logic [2:0] Client = 3'd7     // Upper bits of the ids of its reads and writes.
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               reset_i,     // CONTROL.RESET

  // verilator lint_off UNUSEDSIGNAL
  input  csr_reg2hw_t        registers_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [63:0]        memory_bytes_i,
  output csr_queue_status_t [MaxQueues-1:0] status_o,

  output logic               ar_valid_o,
  input  logic               ar_ready_i,
  output axi_ar_t            ar_o,
  input  logic               r_valid_i,
  input  axi_r_t             r_i,

  output logic               w_valid_o,
  input  logic               w_ready_i,
  output axi_w_t             w_o,
  input  logic               b_valid_i,
  input  axi_b_t             b_i,

  output logic               command_valid_o,
  input  logic               command_ready_i,
  output engine_command_t    command_o,
  input  logic               outcome_valid_i,  // Of the command that was taken last.
  output logic               outcome_ready_o,
  input  outcome_t           outcome_i,

  output logic [MaxQueues-1:0] posted_o        // A pulse for each completion in memory.
);

  localparam int unsigned QueueBits = $clog2(MaxQueues);
  typedef logic [QueueBits-1:0] queue_t;

  // What a queue was enabled with.
  typedef struct packed {
    address_t   sq_base;
    address_t   cq_base;
    logic [3:0] ring_log2;
    domain_t    domain;
  } setup_t;

  setup_t setup_q[MaxQueues];
  logic [MaxQueues-1:0] enabled_q, running_q, refused_q;
  logic [MaxQueues-1:0][15:0] sq_head_q, cq_tail_q;

  for (genvar i = 0; i < MaxQueues; i++) begin : g_status
    assign status_o[i] = '{refused: refused_q[i], running: running_q[i]};
  end

  // ---- Enabling and disabling, one queue per cycle in turn ----
  queue_t     look_q;
  logic       acceptable;
  logic [3:0] ring_log2;

  nkv_queue_check u_check (
    .memory_bytes_i,
    .sq_base_i     (registers_i.sq_base[look_q]),
    .cq_base_i     (registers_i.cq_base[look_q]),
    .ring_entries_i(registers_i.ring_entries[look_q]),
    .window_base_i (registers_i.window_base[look_q]),
    .window_bytes_i(registers_i.window_bytes[look_q]),
    .acceptable_o  (acceptable),
    .ring_log2_o   (ring_log2)
  );

  typedef enum logic [2:0] {
    StIdle,     // Looks for a queue that has a command and room for its completion.
    StFetch,    // Asks for the command.
    StArrive,
    StOffer,    // Until the engine takes it.
    StRun,
    StPost,     // Writes the completion.
    StSettle    // Until memory has it.
  } state_e;

  state_e state_q;
  queue_t queue_q;
  wire active = state_q != StIdle;

  wire enable = registers_i.queue_control[look_q].enable;
  wire changes = enable != enabled_q[look_q] && !(active && queue_q == look_q);

  // ---- Whose turn it is ----
  logic [MaxQueues-1:0] due;
  always_comb begin
    for (int unsigned i = 0; i < MaxQueues; i++) begin
      automatic logic [15:0] entries = 16'd1 << setup_q[i].ring_log2;
      automatic logic [15:0] submitted = registers_i.sq_tail[i][15:0] - sq_head_q[i];
      automatic logic [15:0] unread = cq_tail_q[i] - registers_i.cq_head[i][15:0];
      // A doorbell further ahead than the ring is long cannot be right; nothing is fetched for it.
      due[i] = running_q[i] && registers_i.queue_control[i].enable && submitted != '0 &&
          submitted <= entries && unread < entries;
    end
  end

  queue_t turn;
  logic   any_due;
  logic [MaxQueues-1:0] unused_grant;
  nkv_round_robin #(
    .Requests(MaxQueues)
  ) u_turns (
    .clk_i,
    .rst_ni,
    .request_i(due),
    .valid_o  (any_due),
    .ready_i  (state_q == StIdle),
    .grant_o  (unused_grant),
    .index_o  (turn)
  );

  // ---- The command in flight ----
  logic [511:0] command_q;
  outcome_t     outcome_q;
  logic [63:0]  ticks_q;
  wire setup_t  setup = setup_q[queue_q];
  wire [15:0]   ring_mask = (16'd1 << setup.ring_log2) - 16'd1;
  wire [15:0]   sq_slot = sq_head_q[queue_q] & ring_mask;
  wire [15:0]   cq_slot = cq_tail_q[queue_q] & ring_mask;
  wire          odd_round = |(cq_tail_q[queue_q] & (ring_mask + 16'd1));
  // Each reset takes the next epoch: what memory still answers to earlier accesses is dropped.
  logic [1:0]   epoch_q;
  wire axi_id_t id = axi_id_t'({Client, epoch_q, 3'b0, queue_q});
  wire          arrives = r_valid_i && r_i.id == id;
  wire          settles = b_valid_i && b_i.id == id;

  assign ar_valid_o = state_q == StFetch;
  assign ar_o = '{id: id, addr: setup.sq_base + address_t'({sq_slot, 6'b0}), len: '0};

  assign command_valid_o = state_q == StOffer;
  assign command_o = '{domain: setup.domain, command: command_q};
  assign outcome_ready_o = state_q == StRun;

  completion_t completion;
  always_comb begin
    completion = '0;
    completion.tag = command_q[31:16];
    completion.status = outcome_q.verdict.status;
    completion.phase = 8'(!odd_round);
    completion.count = outcome_q.count;
    completion.detail = outcome_q.verdict.detail;
    completion.stream_bursts = outcome_q.stream_bursts;
    completion.refine_bursts = outcome_q.refine_bursts;
    completion.exact_bursts = outcome_q.exact_bursts;
    completion.value_bursts = outcome_q.value_bursts;
    completion.sq_head = sq_head_q[queue_q];
    completion.flags = outcome_q.flags;
    completion.ticks = ticks_q;
  end

  assign w_valid_o = state_q == StPost;
  assign w_o = '{
      id: id,
      addr: setup.cq_base + address_t'({cq_slot, 6'b0}),
      strb: '1,
      poison: 1'b0,
      data: completion
  };

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      look_q <= '0;
      state_q <= StIdle;
      queue_q <= '0;
      command_q <= '0;
      outcome_q <= '0;
      ticks_q <= '0;
      enabled_q <= '0;
      running_q <= '0;
      refused_q <= '0;
      sq_head_q <= '0;
      cq_tail_q <= '0;
      posted_o <= '0;
      epoch_q <= '0;
    end else if (reset_i) begin
      epoch_q <= epoch_q + 2'd1;
      state_q <= StIdle;
      enabled_q <= '0;
      running_q <= '0;
      refused_q <= '0;
      posted_o <= '0;
    end else begin
      look_q <= look_q + 1'b1;
      posted_o <= '0;
      ticks_q <= ticks_q + 64'd1;
      if (changes) begin
        enabled_q[look_q] <= enable;
        running_q[look_q] <= enable && acceptable;
        refused_q[look_q] <= enable && !acceptable;
        sq_head_q[look_q] <= '0;
        cq_tail_q[look_q] <= '0;
      end
      unique case (state_q)
        StIdle: begin
          queue_q <= turn;
          ticks_q <= '0;
          if (any_due) state_q <= StFetch;
        end
        StFetch: if (ar_ready_i) state_q <= StArrive;
        StArrive: begin
          command_q <= r_i.data;
          if (arrives) begin
            state_q <= StOffer;
            sq_head_q[queue_q] <= sq_head_q[queue_q] + 16'd1;
            if (r_i.poison || r_i.error) begin
              state_q <= StPost;
              outcome_q <= '0;
              outcome_q.verdict <= '{status: StatusPoison, detail: '0};
            end
          end
        end
        StOffer: if (command_ready_i) state_q <= StRun;
        StRun: begin
          outcome_q <= outcome_i;
          if (outcome_valid_i) state_q <= StPost;
        end
        StPost: if (w_ready_i) state_q <= StSettle;
        StSettle: begin
          if (settles) begin
            state_q <= StIdle;
            posted_o[queue_q] <= 1'b1;
            cq_tail_q[queue_q] <= cq_tail_q[queue_q] + 16'd1;
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (changes) begin
      setup_q[look_q] <= '{
          sq_base: address_t'(registers_i.sq_base[look_q]),
          cq_base: address_t'(registers_i.cq_base[look_q]),
          ring_log2: ring_log2,
          domain: '{
              tenant: registers_i.tenant[look_q].number,
              window_bytes: address_t'(registers_i.window_bytes[look_q]),
              window_base: address_t'(registers_i.window_base[look_q])
          }
      };
    end
  end

  wire unused = ^{registers_i.control, r_i.last, b_i.error};

endmodule
