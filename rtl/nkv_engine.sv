// One engine: takes a command at a time, reads pages through its own reorder buffer, writes results, and
// gives an outcome once memory has them all.
//
//   command --> command_check --> maintenance | append | move | attention
//                                     |  page_list, page_pass
//                                     `--> reader, writer --> AXI
//
// While the results of an ATTEND are written it already takes the next command: outcomes keep the order of
// commands, and each command writes in its own window. A command that must not overtake those results is
// for others to hold back.
//
// If there is no progress for `WatchdogCycles`, what is under way ends with INTERNAL, and the engine takes
// no other command until it is cleared: whatever memory does, nothing hangs.

module nkv_engine
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::exponent_t;
  import nkv_ingest_pkg::guest_page_t;
  import nkv_ingest_pkg::guest_report_t;
#(
  parameter logic [2:0] Client = '0,
  parameter int unsigned WatchdogCycles = nkv_pkg::PatienceCycles
) (
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,        // CONTROL.RESET
  input  logic            forfeit_i,      // With clear_i: what memory owes will not come.
  output logic            quiet_o,        // Memory owes no answer.

  input  logic            command_valid_i,
  output logic            command_ready_o,  // The command before has ended, or but for its results.
  input  engine_command_t command_i,
  output logic            outcome_valid_o,  // In the order of commands.
  input  logic            outcome_ready_i,
  output outcome_t        outcome_o,
  output results_t        results_o,        // What the command before is still to write.
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

  // ---- The command ----
  logic            busy, check, checked, dispatch, done, trails, progress;
  logic            results_left, results_busy, results_written, writer_idle;
  logic            writes_failed, results_failed, trailing_ends;
  engine_command_t command;
  domain_t         trailing_domain;
  verdict_t        verdict;
  outcome_t        done_outcome;
  results_t        results;
  wire opcode_e    opcode = opcode_e'(command.command[7:0]);
  wire is_maintenance = opcode inside {OpcodeScrub, OpcodeErase};
  wire is_append = opcode == OpcodeAppend;
  wire is_transcode = opcode == OpcodeTranscode;
  wire is_move = opcode inside {OpcodeCopy, OpcodeRead, OpcodeGather} || is_transcode;
  wire is_scan = opcode inside {OpcodeTopk, OpcodeAttend};

  nkv_command_order #(
    .WatchdogCycles(WatchdogCycles)
  ) u_order (
    .clk_i,
    .rst_ni,
    .clear_i,
    .command_valid_i,
    .command_ready_o,
    .command_i,
    .outcome_valid_o,
    .outcome_ready_i,
    .outcome_o,
    .results_o,
    .fatal_o,
    .command_o        (command),
    .busy_o           (busy),
    .check_o          (check),
    .checked_i        (checked),
    .verdict_i        (verdict),
    .runs_i           (is_maintenance || is_append || is_move || is_scan),
    .dispatch_o       (dispatch),
    .done_i           (done),
    .done_outcome_i   (done_outcome),
    .results_left_i   (results_left),
    .results_i        (results),
    .writes_done_i    (writer_idle),
    .writes_failed_i  (writes_failed),
    .trails_o         (trails),
    .trailing_domain_o(trailing_domain),
    .results_done_i   (!results_busy && results_written),
    .results_failed_i (results_failed),
    .trailing_ends_o  (trailing_ends),
    .progress_i       (progress)
  );

  nkv_command_check u_check (
    .clk_i,
    .rst_ni,
    .valid_i  (check),
    .command_i(command),
    .done_o   (checked),
    .verdict_o(verdict)
  );

  // ---- Page list and passes, whoever uses them ----
  logic         loaded, poisoned;
  page_entry_t  entry;
  pass_report_t report;
  visit_t       visit;
  page_index_t  page, verified_page;
  logic         body_valid, visit_ready;
  page_record_t record;
  logic         beat_valid, beat_ready;
  read_beat_t   beat;

  // ---- SCRUB and ERASE ----
  logic        maintained, maintenance_load, maintenance_start;
  outcome_t    maintenance_outcome;
  list_load_t  maintenance_list;
  pass_setup_t maintenance_pass;

  nkv_maintenance u_maintenance (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i       (dispatch && is_maintenance),
    .command_i     (pages_command_t'(command.command)),
    .done_o        (maintained),
    .outcome_o     (maintenance_outcome),
    .load_o        (maintenance_load),
    .list_o        (maintenance_list),
    .loaded_i      (loaded),
    .poisoned_i    (poisoned),
    .pass_start_o  (maintenance_start),
    .pass_o        (maintenance_pass),
    .pass_i        (report)
  );

  // ---- APPEND ----
  logic           appended, append_load, append_judges, append_beat_ready;
  logic           append_request_valid, append_request_ready;
  logic           append_write_valid, append_write_ready;
  outcome_t       append_outcome;
  list_load_t     append_list;
  page_index_t    append_page;
  read_request_t  append_request;
  write_request_t append_write;
  guest_page_t    guest;
  guest_report_t  guest_report;
  logic           append_clk;

  // It builds TRANSCODE's attendable pages too.
  nkv_idle_clock u_append_clock (
    .clk_i,
    .rst_ni,
    .busy_i((busy && (is_append || is_transcode)) || clear_i),
    .clk_o (append_clk)
  );

  nkv_append u_append (
    .clk_i          (append_clk),
    .rst_ni,
    .clear_i,
    .start_i        (dispatch && is_append),
    .command_i      (append_command_t'(command.command)),
    .domain_i       (command.domain),
    .done_o         (appended),
    .outcome_o      (append_outcome),
    .load_o         (append_load),
    .list_o         (append_list),
    .loaded_i       (loaded),
    .poisoned_i     (poisoned),
    .judges_o       (append_judges),
    .page_o         (append_page),
    .entry_i        (entry),
    .request_valid_o(append_request_valid),
    .request_ready_i(append_request_ready),
    .request_o      (append_request),
    .beat_valid_i   (beat_valid && beat.tag.sink == SinkRows),
    .beat_ready_o   (append_beat_ready),
    .beat_i         (is_append ? beat : '0),  // So that nothing moves while its clock stands.
    .write_valid_o  (append_write_valid),
    .write_ready_i  (append_write_ready),
    .write_o        (append_write),
    .writes_done_i  (writer_idle),
    .guest_i        (guest),
    .guest_o        (guest_report)
  );

  // ---- COPY, TRANSCODE, READ and GATHER ----
  logic           moved, move_load, move_judges, move_looks, move_start, move_clear, move_visits;
  logic           move_visit_valid, move_visits_end, move_body_ready, move_beat_ready;
  logic           move_request_valid, move_request_ready, move_write_valid, move_write_ready;
  outcome_t       move_outcome;
  list_load_t     move_list;
  page_index_t    move_page;
  pass_setup_t    move_pass;
  visit_t         move_visit;
  logic [31:0]    move_crc;
  read_request_t  move_request;
  write_request_t move_write;
  logic           move_clk;
  wire for_move = beat.tag.sink inside {SinkIds, SinkArray} && is_move;

  nkv_idle_clock u_move_clock (
    .clk_i,
    .rst_ni,
    .busy_i((busy && is_move) || clear_i),
    .clk_o (move_clk)
  );

  nkv_move u_move (
    .clk_i          (move_clk),
    .rst_ni,
    .clear_i,
    .start_i        (dispatch && is_move),
    .command_i      (command.command),
    .window_bytes_i (command.domain.window_bytes),
    .done_o         (moved),
    .outcome_o      (move_outcome),
    .load_o         (move_load),
    .list_o         (move_list),
    .loaded_i       (loaded),
    .poisoned_i     (poisoned),
    .judges_o       (move_judges),
    .looks_o        (move_looks),
    .page_o         (move_page),
    .entry_i        (entry),
    .pass_start_o   (move_start),
    .pass_clear_o   (move_clear),
    .pass_o         (move_pass),
    .visits_o       (move_visits),
    .visit_valid_o  (move_visit_valid),
    .visit_ready_i  (visit_ready),
    .visit_o        (move_visit),
    .visits_end_o   (move_visits_end),
    .pass_i         (report),
    .verified_page_i(verified_page),
    .verified_crc_o (move_crc),
    .body_valid_i   (body_valid && is_move),
    .body_ready_o   (move_body_ready),
    .record_i       (record),
    .request_valid_o(move_request_valid),
    .request_ready_i(move_request_ready),
    .request_o      (move_request),
    .beat_valid_i   (beat_valid && for_move),
    .beat_ready_o   (move_beat_ready),
    .beat_i         (beat),
    .guest_o        (guest),
    .guest_i        (guest_report),
    .write_valid_o  (move_write_valid),
    .write_ready_i  (move_write_ready),
    .write_o        (move_write),
    .writes_done_i  (writer_idle)
  );

  // ---- TOPK and ATTEND ----
  logic          attention_done, attention_load, attention_start, attention_abandon;
  logic          attention_body_ready, attention_beat_ready;
  outcome_t      attention_outcome;
  list_load_t    attention_list;
  exponent_t     key_exponent, value_exponent;
  pass_setup_t   attention_pass;
  page_body_t    body;
  logic          attention_request_valid, attention_request_ready;
  logic [1:0]    attention_write_valid, attention_write_ready;
  read_request_t attention_request;
  write_request_t [1:0] attention_write;
  wire for_attention = beat.tag.sink inside {SinkQuery, SinkArray} && is_scan;

  nkv_attention u_attention (
    .clk_i,
    .rst_ni,
    .clear_i,
    .busy_i          (busy && is_scan),
    .start_i         (dispatch && is_scan),
    .command_i       (command.command),
    .done_o          (attention_done),
    .outcome_o       (attention_outcome),
    .results_left_o  (results_left),
    .results_o       (results),
    .results_wait_i  (trails),
    .results_busy_o  (results_busy),
    .load_o          (attention_load),
    .list_o          (attention_list),
    .loaded_i        (loaded),
    .poisoned_i      (poisoned),
    .key_exponent_i  (key_exponent),
    .value_exponent_i(value_exponent),
    .pass_start_o    (attention_start),
    .abandon_o       (attention_abandon),
    .pass_o          (attention_pass),
    .pass_i          (report),
    .body_valid_i    (body_valid && is_scan),
    .body_ready_o    (attention_body_ready),
    .body_i          (body),
    .request_valid_o (attention_request_valid),
    .request_ready_i (attention_request_ready),
    .request_o       (attention_request),
    .beat_valid_i    (beat_valid && for_attention),
    .beat_ready_o    (attention_beat_ready),
    .beat_i          (beat),
    .write_valid_o   (attention_write_valid),
    .write_ready_i   (attention_write_ready),
    .write_o         (attention_write)
  );

  // ---- Page list and passes ----
  logic          list_request_valid, list_request_ready;
  read_request_t list_request;
  wire list_load_t list = is_maintenance ? maintenance_list : is_append ? append_list
      : is_move ? move_list : attention_list;
  wire page_index_t listed_page = is_append ? append_page : is_move && move_looks ? move_page : page;

  nkv_page_list u_list (
    .clk_i,
    .rst_ni,
    .load_i         (maintenance_load || append_load || move_load || attention_load),
    .address_i      (list.address),
    .entries_i      (list.entries),
    .loaded_o       (loaded),
    .poisoned_o     (poisoned),
    .request_valid_o(list_request_valid),
    .request_ready_i(list_request_ready),
    .request_o      (list_request),
    .beat_valid_i   (beat_valid && beat.tag.sink == SinkList),
    .beat_i         (beat),
    .page_i         (listed_page),
    .entry_o        (entry),
    .k_exponent_o   (key_exponent),
    .v_exponent_o   (value_exponent)
  );

  wire pass_setup_t pass =
      is_maintenance ? maintenance_pass : is_move ? move_pass : attention_pass;
  wire move_gives = is_move && move_visits;
  logic        visit_valid, visits_end;
  // What an erased page was is seen only once memory has the zeros.
  wire may_visit = !pass.erase || writer_idle;

  nkv_visible_pages u_visits (
    .clk_i,
    .rst_ni,
    .clear_i      (clear_i || attention_abandon),
    .start_i      (maintenance_start || move_start || attention_start),
    .tokens_i     (pass.tokens),
    .window_i     (pass.window),
    .sinks_i      (pass.sinks),
    .done_o       (visits_end),
    .visit_valid_o(visit_valid),
    .visit_ready_i(visit_ready && may_visit),
    .visit_o      (visit)
  );

  logic           pass_request_valid, pass_request_ready;
  read_request_t  pass_request;
  logic           header_ready;
  logic           erase_valid, erase_ready;
  write_request_t erase_write;

  nkv_page_pass u_pass (
    .clk_i,
    .rst_ni,
    .clear_i        (clear_i || dispatch || move_clear || attention_abandon),
    .domain_i       (command.domain),
    .demand_i       (pass.demand),
    .plan_i         (pass.plan),
    .erase_i        (pass.erase),
    .first_index_i  (pass.first_index),
    .visit_valid_i  (move_gives ? move_visit_valid : visit_valid && may_visit),
    .visit_ready_o  (visit_ready),
    .visit_i        (move_gives ? move_visit : visit),
    .visits_end_i   (move_gives ? move_visits_end : visits_end),
    .page_o         (page),
    .entry_i        (entry),
    .verified_page_o(verified_page),
    .verified_crc_i (move_crc),
    .body_valid_o   (body_valid),
    .body_ready_i   (is_maintenance || (is_move ? move_body_ready : attention_body_ready)),
    .body_o         (body),
    .record_o       (record),
    .request_valid_o(pass_request_valid),
    .request_ready_i(pass_request_ready),
    .request_o      (pass_request),
    .header_valid_i (beat_valid && beat.tag.sink == SinkHeader),
    .header_ready_o (header_ready),
    .array_taken_i  (beat_valid && beat_ready && beat.tag.sink == SinkArray),
    .beat_i         (beat),
    .write_valid_o  (erase_valid),
    .write_ready_i  (erase_ready),
    .write_o        (erase_write),
    .report_o       (report)
  );

  // ---- Memory, for whom everything else waits first ----
  nkv_engine_memory #(
    .Readers(5),
    .Writers(5),
    .Trailing(5'b00010),
    .Client(Client)
  ) u_memory (
    .clk_i,
    .rst_ni,
    .clear_i,
    .forfeit_i,
    .quiet_o,
    .forget_reads_i(attention_abandon),
    .domain_i     (command.domain),
    .trailing_domain_i(trailing_domain),
    .read_valid_i ({move_request_valid, append_request_valid, attention_request_valid,
                    pass_request_valid, list_request_valid}),
    .read_ready_o ({move_request_ready, append_request_ready, attention_request_ready,
                    pass_request_ready, list_request_ready}),
    .read_i       ({move_request, append_request, attention_request, pass_request, list_request}),
    .beat_valid_o (beat_valid),
    .beat_ready_i (beat_ready),
    .beat_o       (beat),
    .write_valid_i({move_write_valid, append_write_valid, attention_write_valid, erase_valid}),
    .write_ready_o({move_write_ready, append_write_ready, attention_write_ready, erase_ready}),
    .write_i      ({move_write, append_write, attention_write, erase_write}),
    .writes_done_o(writer_idle),
    .trailing_done_o(results_written),
    .begins_i     (dispatch),
    .trailing_ends_i(trailing_ends),
    .writes_failed_o(writes_failed),
    .trailing_failed_o(results_failed),
    .ar_valid_o,
    .ar_ready_i,
    .ar_o,
    .r_valid_i,
    .r_i,
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_i
  );

  always_comb begin
    unique case (beat.tag.sink)
      SinkHeader: beat_ready = header_ready;
      SinkQuery, SinkArray:
      beat_ready = is_move ? move_beat_ready : !is_scan || attention_beat_ready;
      SinkRows: beat_ready = append_beat_ready;
      default: beat_ready = 1'b1;
    endcase
  end

  // ---- The end of a command ----
  // A beat that waits for its taker is no progress. The places of a long list are judged for longer than memory
  // may take to answer, and that comes to an end.
  assign progress = r_valid_i || b_valid_i || (beat_valid && beat_ready) || append_judges || move_judges;
  assign done = maintained || appended || moved || attention_done;
  always_comb begin
    done_outcome = attention_outcome;
    if (maintained) done_outcome = maintenance_outcome;
    if (appended) done_outcome = append_outcome;
    if (moved) done_outcome = move_outcome;
  end

endmodule
