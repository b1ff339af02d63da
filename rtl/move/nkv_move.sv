// COPY, TRANSCODE, READ and GATHER: pages and rows to other places. nkv_copy or nkv_read works, as the
// command is; what they use of the engine is shared.

`include "nkv_assert.svh"

module nkv_move
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::guest_page_t;
  import nkv_ingest_pkg::guest_report_t;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic           start_i,
  input  logic [511:0]   command_i,       // Checked; held until done.
  input  address_t       window_bytes_i,
  output logic           done_o,          // For one cycle.
  output outcome_t       outcome_o,

  output logic           load_o,
  output list_load_t     list_o,
  input  logic           loaded_i,
  input  logic           poisoned_i,
  output logic           judges_o,        // Places are judged, and nothing of memory is waited for.
  output logic           looks_o,         // To look up; the entry follows by one cycle.
  output page_index_t    page_o,
  input  page_entry_t    entry_i,

  output logic           pass_start_o,
  output logic           pass_clear_o,
  output pass_setup_t    pass_o,
  output logic           visits_o,        // Visits come from here, not from pass_o.
  output logic           visit_valid_o,
  input  logic           visit_ready_i,
  output visit_t         visit_o,
  output logic           visits_end_o,
  input  pass_report_t   pass_i,
  input  page_index_t    verified_page_i,
  output logic [31:0]    verified_crc_o,
  input  logic           body_valid_i,
  output logic           body_ready_o,
  input  page_record_t   record_i,        // Of the body.

  output logic           request_valid_o,
  input  logic           request_ready_i,
  output read_request_t  request_o,
  input  logic           beat_valid_i,    // Beats for SinkArray and SinkIds.
  output logic           beat_ready_o,
  input  read_beat_t     beat_i,

  output guest_page_t    guest_o,         // The page builder of APPEND.
  input  guest_report_t  guest_i,

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o,
  input  logic           writes_done_i    // Memory has all that was accepted.
);

  wire opcode_e opcode = opcode_e'(command_i[7:0]);
  wire copies = opcode inside {OpcodeCopy, OpcodeTranscode};
  wire is_array = beat_valid_i && beat_i.tag.sink == SinkArray;

  logic           copied, copy_load, copy_start, copy_clear, copy_body_ready, copy_beat_ready;
  logic           copy_write_valid;
  list_load_t     copy_list;
  pass_setup_t    copy_pass;
  write_request_t copy_write;
  outcome_t       copy_outcome;

  nkv_copy u_copy (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i       (start_i && copies),
    .command_i     (pages_command_t'(command_i)),
    .window_bytes_i,
    .done_o        (copied),
    .outcome_o     (copy_outcome),
    .load_o        (copy_load),
    .list_o        (copy_list),
    .loaded_i,
    .poisoned_i,
    .judges_o,
    .looks_o,
    .page_o,
    .entry_i,
    .pass_start_o  (copy_start),
    .pass_clear_o  (copy_clear),
    .pass_o        (copy_pass),
    .pass_i,
    .body_valid_i  (body_valid_i && copies),
    .body_ready_o  (copy_body_ready),
    .record_i,
    .beat_valid_i  (is_array && copies),
    .beat_ready_o  (copy_beat_ready),
    .beat_i,
    .guest_o,
    .guest_i,
    .write_valid_o (copy_write_valid),
    .write_ready_i (write_ready_i && copies),
    .write_o       (copy_write),
    .writes_done_i
  );

  logic           read_done, read_load, read_start, read_clear, read_body_ready, read_beat_ready;
  logic           read_write_valid, chooses;
  list_load_t     read_list;
  pass_setup_t    read_pass;
  write_request_t read_write;
  outcome_t       read_outcome;

  nkv_read u_read (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i        (start_i && !copies),
    .gathers_i      (opcode == OpcodeGather),
    .command_i      (gather_command_t'(command_i)),
    .window_bytes_i,
    .done_o         (read_done),
    .outcome_o      (read_outcome),
    .load_o         (read_load),
    .list_o         (read_list),
    .loaded_i,
    .poisoned_i,
    .pass_start_o   (read_start),
    .pass_clear_o   (read_clear),
    .pass_o         (read_pass),
    .visits_o       (chooses),
    .visit_valid_o,
    .visit_ready_i,
    .visit_o,
    .visits_end_o,
    .pass_i,
    .verified_page_i,
    .verified_crc_o,
    .body_valid_i   (body_valid_i && !copies),
    .body_ready_o   (read_body_ready),
    .record_i,
    .request_valid_o,
    .request_ready_i,
    .request_o,
    .id_beat_valid_i(beat_valid_i && beat_i.tag.sink == SinkIds),
    .beat_valid_i   (is_array && !copies),
    .beat_ready_o   (read_beat_ready),
    .beat_i,
    .write_valid_o  (read_write_valid),
    .write_ready_i  (write_ready_i && !copies),
    .write_o        (read_write)
  );

  assign done_o = copied || read_done;
  assign outcome_o = copies ? copy_outcome : read_outcome;
  assign load_o = copy_load || read_load;
  assign list_o = copies ? copy_list : read_list;
  assign pass_start_o = copy_start || read_start;
  assign pass_clear_o = copy_clear || read_clear;
  assign pass_o = copies ? copy_pass : read_pass;
  assign visits_o = chooses && !copies;
  assign body_ready_o = copies ? copy_body_ready : read_body_ready;
  assign beat_ready_o = beat_i.tag.sink == SinkIds || (copies ? copy_beat_ready : read_beat_ready);
  assign write_valid_o = copies ? copy_write_valid : read_write_valid;
  assign write_o = copies ? copy_write : read_write;

  `NKV_ASSERT_STAYS(VisitStays_A, visit_valid_o, visit_ready_i, visit_o, clear_i || start_i || pass_clear_o)
  `NKV_ASSERT_STAYS(RequestStays_A, request_valid_o, request_ready_i, request_o, clear_i || start_i)
  `NKV_ASSERT_STAYS(WriteStays_A, write_valid_o, write_ready_i, write_o, clear_i || start_i)

endmodule
