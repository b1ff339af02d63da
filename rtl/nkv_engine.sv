// One engine: takes a checked command at a time, reads pages through its own reorder buffer, writes
// results, and gives an outcome once memory has them all.
//
//   command --> command_check --> maintenance  --> page_list, page_pass --> reader, writer --> AXI
//
// A command that makes no progress for `WatchdogCycles` ends with INTERNAL, and the engine takes no
// other until it is cleared: whatever memory does, nothing hangs.

module nkv_engine
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter logic [2:0] Client = '0,
  parameter int unsigned WatchdogCycles = 65536
) (
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,        // CONTROL.RESET

  input  logic            command_valid_i,
  output logic            command_ready_o,
  input  engine_command_t command_i,
  output logic            outcome_valid_o,
  input  logic            outcome_ready_i,
  output outcome_t        outcome_o,
  output logic            fatal_o,

  output logic            ar_valid_o,
  input  logic            ar_ready_i,
  output axi_ar_t         ar_o,
  input  logic            r_valid_i,
  input  axi_r_t          r_i,
  output logic            w_valid_o,
  input  logic            w_ready_i,
  output axi_w_t          w_o,
  input  logic            b_valid_i,
  input  axi_b_t          b_i
);

  typedef enum logic [2:0] {
    StIdle,
    StCheck,
    StDispatch,
    StRun,
    StFlush,    // Until memory has all writes.
    StOutcome
  } state_e;

  state_e          state_q;
  engine_command_t command_q;
  outcome_t        outcome_q;
  logic            fatal_q;
  verdict_t        verdict;
  wire opcode_e    opcode = opcode_e'(command_q.command[7:0]);
  wire             dispatch = state_q == StDispatch && verdict.status == StatusOk;

  assign command_ready_o = state_q == StIdle && !fatal_q;
  assign outcome_valid_o = state_q == StOutcome;
  assign outcome_o = outcome_q;
  assign fatal_o = fatal_q;

  nkv_command_check u_check (
    .clk_i,
    .valid_i  (state_q == StCheck),
    .command_i(command_q),
    .verdict_o(verdict)
  );

  // ---- SCRUB and ERASE ----
  wire      is_maintenance = opcode inside {OpcodeScrub, OpcodeErase};
  logic     maintained;
  outcome_t maintenance_outcome;
  logic          load, loaded, poisoned;
  logic [63:0]   list_address;
  logic [PageIndexBits:0] list_entries;
  logic          pass_start, pass_done, pass_failed, erase;
  logic [31:0]   pass_tokens;
  list_index_t   first_index;
  demand_t       demand;
  plan_t         plan;
  page_failure_t pass_failure;

  nkv_maintenance u_maintenance (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i       (dispatch && is_maintenance),
    .command_i     (pages_command_t'(command_q.command)),
    .done_o        (maintained),
    .outcome_o     (maintenance_outcome),
    .load_o        (load),
    .address_o     (list_address),
    .entries_o     (list_entries),
    .loaded_i      (loaded),
    .poisoned_i    (poisoned),
    .pass_start_o  (pass_start),
    .pass_tokens_o (pass_tokens),
    .first_index_o (first_index),
    .demand_o      (demand),
    .plan_o        (plan),
    .erase_o       (erase),
    .pass_done_i   (pass_done),
    .pass_failed_i (pass_failed),
    .pass_failure_i(pass_failure)
  );

  // ---- Page list and passes ----
  logic          list_request_valid, list_request_ready;
  read_request_t list_request;
  logic          beat_valid, beat_ready;
  read_beat_t    beat;
  page_index_t   page;
  page_entry_t   entry;
  logic [7:0]    unused_k_exponent, unused_v_exponent;

  nkv_page_list u_list (
    .clk_i,
    .rst_ni,
    .load_i         (load),
    .address_i      (list_address),
    .entries_i      (list_entries),
    .loaded_o       (loaded),
    .poisoned_o     (poisoned),
    .request_valid_o(list_request_valid),
    .request_ready_i(list_request_ready),
    .request_o      (list_request),
    .beat_valid_i   (beat_valid && beat.tag.sink == SinkList),
    .beat_i         (beat),
    .page_i         (page),
    .entry_o        (entry),
    .k_exponent_o   (unused_k_exponent),
    .v_exponent_o   (unused_v_exponent)
  );

  logic   visit_valid, visit_ready, visits_end;
  visit_t visit;

  nkv_visible_pages u_visits (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i      (pass_start),
    .tokens_i     (pass_tokens),
    .window_i     ('0),
    .sinks_i      ('0),
    .done_o       (visits_end),
    .visit_valid_o(visit_valid),
    .visit_ready_i(visit_ready && may_visit),
    .visit_o      (visit)
  );

  logic           pass_request_valid, pass_request_ready;
  read_request_t  pass_request;
  logic           header_ready;
  logic           write_valid, write_ready, writer_idle;
  write_request_t write;

  // What an erased page was is seen only once memory has the zeros.
  wire may_visit = !erase || writer_idle;

  nkv_page_pass u_pass (
    .clk_i,
    .rst_ni,
    .clear_i        (clear_i || dispatch),
    .domain_i       (command_q.domain),
    .demand_i       (demand),
    .plan_i         (plan),
    .erase_i        (erase),
    .first_index_i  (first_index),
    .visit_valid_i  (visit_valid && may_visit),
    .visit_ready_o  (visit_ready),
    .visit_i        (visit),
    .visits_end_i   (visits_end),
    .page_o         (page),
    .entry_i        (entry),
    .request_valid_o(pass_request_valid),
    .request_ready_i(pass_request_ready),
    .request_o      (pass_request),
    .header_valid_i (beat_valid && beat.tag.sink == SinkHeader),
    .header_ready_o (header_ready),
    .array_taken_i  (beat_valid && beat.tag.sink == SinkArray),
    .beat_i         (beat),
    .write_valid_o  (write_valid),
    .write_ready_i  (write_ready),
    .write_o        (write),
    .done_o         (pass_done),
    .failed_o       (pass_failed),
    .failure_o      (pass_failure)
  );

  // ---- Memory ----
  wire request_valid = list_request_valid || pass_request_valid;
  wire read_request_t request = list_request_valid ? list_request : pass_request;
  logic     request_ready, read_inside, write_inside, unused_reader_idle;
  address_t read_address, write_address;

  assign list_request_ready = request_ready;
  assign pass_request_ready = request_ready && !list_request_valid;

  nkv_window_guard u_read_guard (
    .domain_i (command_q.domain),
    .offset_i (request.address),
    .bursts_i (request.bursts),
    .inside_o (read_inside),
    .address_o(read_address)
  );

  assign beat_ready = beat.tag.sink == SinkHeader ? header_ready : 1'b1;

  nkv_reader #(
    .Client(Client)
  ) u_reader (
    .clk_i,
    .rst_ni,
    .clear_i,
    .request_valid_i(request_valid),
    .request_ready_o(request_ready),
    .request_i      (request),
    .fault_i        (!read_inside),
    .address_i      (read_address),
    .beat_valid_o   (beat_valid),
    .beat_ready_i   (beat_ready),
    .beat_o         (beat),
    .idle_o         (unused_reader_idle),
    .ar_valid_o,
    .ar_ready_i,
    .ar_o,
    .r_valid_i,
    .r_ready_o      (unused_r_ready),
    .r_i
  );
  logic unused_r_ready;

  nkv_window_guard u_write_guard (
    .domain_i (command_q.domain),
    .offset_i (write.address),
    .bursts_i (burst_count_t'(1)),
    .inside_o (write_inside),
    .address_o(write_address)
  );

  nkv_writer #(
    .Client(Client)
  ) u_writer (
    .clk_i,
    .rst_ni,
    .clear_i,
    .request_valid_i(write_valid),
    .request_ready_o(write_ready),
    .request_i      (write),
    .inside_i       (write_inside),
    .address_i      (write_address),
    .idle_o         (writer_idle),
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_i
  );

  // ---- The command ----
  localparam int unsigned WatchdogBits = $clog2(WatchdogCycles) + 1;
  logic [WatchdogBits-1:0] idle_cycles_q;
  wire waits = state_q inside {StRun, StFlush};
  wire progress = r_valid_i || b_valid_i || beat_valid;
  wire stuck = idle_cycles_q == WatchdogBits'(WatchdogCycles);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      command_q <= '0;
      outcome_q <= '0;
      fatal_q <= 1'b0;
      idle_cycles_q <= '0;
    end else if (clear_i) begin
      state_q <= StIdle;
      fatal_q <= 1'b0;
    end else begin
      idle_cycles_q <= waits && !progress ? idle_cycles_q + 1'b1 : '0;
      unique case (state_q)
        StIdle: begin
          command_q <= command_i;
          if (command_valid_i && command_ready_o) state_q <= StCheck;
        end
        StCheck: state_q <= StDispatch;
        StDispatch: begin
          outcome_q <= '0;
          outcome_q.verdict <= verdict;
          state_q <= dispatch && is_maintenance ? StRun : StOutcome;
          if (dispatch && opcode inside {OpcodeTopk, OpcodeAttend}) begin
            outcome_q.verdict.status <= StatusUnsupported;
          end
        end
        StRun: begin
          if (maintained) begin
            outcome_q <= maintenance_outcome;
            state_q <= StFlush;
          end
        end
        StFlush: if (writer_idle) state_q <= StOutcome;
        StOutcome: if (outcome_ready_i) state_q <= StIdle;
        default: state_q <= StIdle;
      endcase
      if (waits && stuck) begin
        state_q <= StOutcome;
        fatal_q <= 1'b1;
        outcome_q <= '0;
        outcome_q.verdict.status <= StatusInternal;
      end
    end
  end

endmodule
