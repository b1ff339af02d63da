// READ and GATHER: stored rows back, exact. Takes a checked command for up to ListPages pages.
//
//   ids --> which pages --> page_pass: all that is used of them, verified
//   ids --> id_visits --> page_pass: chosen rows --> row_return --> row_write --> memory, for keys, for values
//
// Nothing is written before all pages that the command touches have been accepted and all arrays that it uses
// have been verified. Rows are read after that, and what has changed by then is told: READ takes whole arrays,
// verified a second time as they stream; GATHER, whose rows lie anywhere, verifies its pages again once it has
// the rows. Pages whose headers are not the same any more are STALE_PAGE, and so are pages that only ids name
// which a host changed under way. Rows that would lie on what the command reads are refused.

module nkv_read
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,

  input  logic            start_i,
  input  logic            gathers_i,       // Held until done, as the command is.
  input  gather_command_t command_i,       // Checked; READ has its fields at the same places.
  input  address_t        window_bytes_i,
  output logic            done_o,          // For one cycle.
  output outcome_t        outcome_o,

  output logic            load_o,
  output list_load_t      list_o,
  input  logic            loaded_i,
  input  logic            poisoned_i,

  output logic            pass_start_o,    // READ: the visits of pass_o.
  output logic            pass_clear_o,    // Before each pass.
  output pass_setup_t     pass_o,
  output logic            visits_o,        // GATHER: visits come from here.
  output logic            visit_valid_o,
  input  logic            visit_ready_i,
  output visit_t          visit_o,
  output logic            visits_end_o,
  input  pass_report_t    pass_i,
  input  page_index_t     verified_page_i,
  output logic [31:0]     verified_crc_o,
  input  logic            body_valid_i,
  output logic            body_ready_o,
  input  page_record_t    record_i,        // Of the body.

  output logic            request_valid_o,
  input  logic            request_ready_i,
  output read_request_t   request_o,
  input  logic            id_beat_valid_i, // Beats for SinkIds; always taken.
  input  logic            beat_valid_i,    // Beats for SinkArray.
  output logic            beat_ready_o,
  input  read_beat_t      beat_i,

  output logic            write_valid_o,
  input  logic            write_ready_i,
  output write_request_t  write_o
);

  localparam int unsigned TokenBits = $clog2(PageTokens);
  localparam int unsigned IdsOffset = 16;     // In the command.
  localparam int unsigned ResultOffset = 32;

  typedef enum logic [3:0] {
    StIdle,
    StIds,       // Which pages ids name.
    StMarking,
    StList,
    StLoading,
    StClear,     // Before each pass.
    StStart,
    StVerify,
    StPlace,     // Whether all rows fit where they are to go.
    StRows,
    StDone
  } state_e;

  typedef enum logic [1:0] {
    PassVerify,
    PassKeys,
    PassValues,
    PassAgain    // GATHER: nothing has changed.
  } pass_e;

  state_e      state_q;
  pass_e       pass_q;
  verdict_t    verdict_q;
  logic [31:0] highest_q;             // Id.
  logic        beyond_q;              // An id is at or above the command's tokens.
  localparam int unsigned Marks = 64;
  localparam int unsigned MarkBits = $clog2(Marks);
  typedef logic [Marks-1:0] marks_t;
  typedef logic [PageIndexBits-MarkBits-1:0] mark_word_t;
  (* ram_style = "distributed" *) marks_t touched[ListPages/Marks];
  logic [ListPages/Marks-1:0] known_q;
  page_index_t page_q;                // That is looked at.
  logic        pages_end_q;
  logic [15:0] head_dim_q, value_dim_q;
  dtype_e      dtype_q;

  wire tensor_e tensor = command_i.tensor;
  wire wants_keys = tensor != TensorValues;
  wire wants_values = tensor != TensorKeys;
  wire verifies = pass_q inside {PassVerify, PassAgain};
  wire of_values = pass_q == PassValues || (verifies && wants_values);
  // READ's first token stands where GATHER's tokens do.
  wire [31:0] end_token = gathers_i ? highest_q + 32'd1 : command_i.tokens + command_i.count;
  wire [31:0] entries = (end_token + 32'(PageTokens) - 32'd1) >> TokenBits;

  wire [63:0] list_bytes = 64'(entries) * PageEntryBytes;
  wire list_inside = span_inside(64'(window_bytes_i), command_i.page_list, list_bytes);

  // ---- Ids ----
  logic        ids_start, ids_poisoned, id_valid, id_ready, id_last, visits_ready;
  logic        chosen_valid, chosen_end;
  logic [31:0] id;
  visit_t      chosen;
  wire marks = state_q == StMarking;
  wire chooses = state_q == StRows;
  wire pass_begins = state_q == StStart;

  assign ids_start = state_q == StIds || (pass_begins && !verifies && gathers_i);
  assign id_ready = marks || (chooses && visits_ready);

  nkv_gather_ids u_ids (
    .clk_i,
    .rst_ni,
    .clear_i   (clear_i || state_q inside {StIdle, StDone}),
    .start_i   (ids_start),
    .address_i (command_i.ids),
    .count_i   (command_i.count),
    .poisoned_o(ids_poisoned),
    .request_valid_o,
    .request_ready_i,
    .request_o,
    .beat_valid_i(id_beat_valid_i),
    .beat_i,
    .id_valid_o(id_valid),
    .id_ready_i(id_ready),
    .id_o      (id),
    .id_last_o (id_last)
  );

  nkv_id_visits u_visits (
    .clk_i,
    .rst_ni,
    .clear_i      (clear_i || pass_begins),
    .id_valid_i   (id_valid && chooses),
    .id_ready_o   (visits_ready),
    .id_i         (id),
    .id_last_i    (id_last),
    .visit_valid_o(chosen_valid),
    .visit_ready_i(visit_ready_i && chooses),
    .visit_o      (chosen),
    .ended_o      (chosen_end)
  );

  // ---- Visits: touched pages ascending, then rows in the order of their ids ----
  wire page_index_t looked_page = verifies ? page_q : chosen.page;
  wire mark_word_t looked_word = looked_page[PageIndexBits-1:MarkBits];
  wire is_touched = known_q[looked_word] && touched[looked_word][looked_page[MarkBits-1:0]];
  wire looks = state_q == StVerify && !pages_end_q;
  wire strays = chooses && gathers_i && chosen_valid && !is_touched;

  assign visits_o = gathers_i;
  assign visit_valid_o = verifies ? looks && is_touched : chosen_valid;
  assign visit_o = verifies ? '{page: page_q, tokens: '1} : chosen;
  assign visits_end_o = verifies ? pages_end_q : chosen_end;

  // ---- Passes ----
  function automatic logic [PageArrayCount-1:0] arrays(logic keys, logic values, logic rows);
    automatic logic [PageArrayCount-1:0] result = '0;
    result[PageArrayKExponents] = keys;
    result[PageArrayKRows] = keys && rows;
    result[PageArrayKExceptions] = keys;
    result[PageArrayVExponents] = values;
    result[PageArrayVRows] = values && rows;
    result[PageArrayVExceptions] = values;
    return result;
  endfunction

  // What is refused loads nothing: no burst may come when the next command loads its list.
  verdict_t ids_verdict;
  always_comb begin
    ids_verdict = VerdictOk;
    if (!list_inside) ids_verdict = '{status: StatusAddressFault, detail: command_i.page_list};
    if (beyond_q) ids_verdict = '{status: StatusBadField, detail: 64'(IdsOffset)};
    if (gathers_i && ids_poisoned) ids_verdict = '{status: StatusPoison, detail: '0};
  end

  assign load_o = state_q == StList && ids_verdict.status == StatusOk;
  assign list_o = '{address: command_i.page_list, entries: (PageIndexBits + 1)'(entries)};
  assign pass_clear_o = state_q == StClear;
  assign pass_start_o = pass_begins && !gathers_i;
  assign pass_o = '{
      tokens: end_token,
      window: command_i.count,
      sinks: '0,
      first_index: '0,
      demand: '{alike: 1'b1, any_values: wants_values, default: '0},
      plan: '{
          whole: verifies ? arrays(wants_keys, wants_values, 1'b1)
              : arrays(!of_values, of_values, 1'b0),
          of_values: of_values,
          rows: !verifies,
          rows_whole: !gathers_i,
          again: pass_q != PassVerify,
          default: '0
      },
      erase: 1'b0
  };

  // ---- What was verified is what rows are read of ----
  (* ram_style = "block" *) logic [31:0] crcs[ListPages];
  wire verified_body = body_valid_i && pass_q == PassVerify && state_q == StVerify;
  always_ff @(posedge clk_i) begin
    if (verified_body) crcs[record_i.visit.page] <= record_i.header.crc_hot ^ record_i.header.crc_cold;
    verified_crc_o <= crcs[verified_page_i];
    if (verified_body) begin
      head_dim_q <= record_i.header.head_dim;
      value_dim_q <= record_i.header.value_dim;
      dtype_q <= record_i.header.dtype;
    end
  end

  // ---- Where rows go ----
  wire [63:0] key_bytes = 64'(command_i.count) * 64'(head_dim_q) * 64'(element_bytes(dtype_q));
  wire [63:0] value_bytes = 64'(command_i.count) * 64'(value_dim_q) * 64'(element_bytes(dtype_q));
  wire [63:0] values_offset =
      wants_keys ? 64'({bursts_of(32'(key_bytes)), 6'd0}) : '0;
  wire [63:0] result_bytes = wants_values ? values_offset + value_bytes : key_bytes;

  wire result_inside = span_inside(64'(window_bytes_i), command_i.result, result_bytes);

  // ---- Whether rows would lie on what is read, if they lie inside of the window ----
  wire [63:0] result_end = command_i.result + result_bytes;
  wire covers_list = spans_overlap(command_i.result, result_end, command_i.page_list,
                                   command_i.page_list + list_bytes);
  wire covers_ids = gathers_i && spans_overlap(command_i.result, result_end, command_i.ids,
                                               command_i.ids + (64'(command_i.count) << 2));
  logic        verified_q, covers_page_q;
  logic [63:0] verified_begin_q, verified_end_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {verified_q, covers_page_q} <= '0;
    end else begin
      verified_q <= verified_body;
      if (verified_q && spans_overlap(command_i.result, result_end, verified_begin_q,
                                      verified_end_q)) begin
        covers_page_q <= 1'b1;
      end
      if (state_q == StIdle) covers_page_q <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    if (verified_body) begin
      verified_begin_q <= record_i.address;
      verified_end_q <= record_i.address + 64'(record_i.total_bytes);
    end
  end

  verdict_t place_verdict;
  always_comb begin
    place_verdict = VerdictOk;
    if (covers_list || covers_ids || covers_page_q) begin
      place_verdict = '{status: StatusBadField, detail: 64'(ResultOffset)};
    end
    if (!result_inside) begin
      place_verdict = '{status: StatusAddressFault, detail: command_i.result};
    end
  end

  // ---- Rows ----
  logic        page_ready, return_ready, returned, room;
  logic        word_valid, word_wide, word_half;
  logic [15:0] element[ExactLanes];
  wire row_clear = clear_i || state_q == StClear || state_q == StDone;
  wire row_start = pass_begins && !verifies;
  assign body_ready_o = verifies || page_ready;
  assign beat_ready_o = verifies || return_ready;

  nkv_row_return u_return (
    .clk_i,
    .rst_ni,
    .clear_i     (row_clear),
    .of_values_i (of_values),
    .page_valid_i(body_valid_i && chooses),
    .page_ready_o(page_ready),
    .header_i    (record_i.header),
    .rows_i      (record_i.visit.tokens),
    .rows_whole_i(!gathers_i),
    .beat_valid_i(beat_valid_i && chooses),
    .beat_ready_o(return_ready),
    .beat_i,
    .issue_i     (room),
    .word_valid_o(word_valid),
    .word_wide_o (word_wide),
    .word_half_o (word_half),
    .element_o   (element)
  );

  nkv_row_write u_write (
    .clk_i,
    .rst_ni,
    .clear_i      (row_clear),
    .start_i      (row_start),
    .address_i    (of_values ? command_i.result + values_offset : command_i.result),
    .bytes_i      (of_values ? 32'(value_bytes) : 32'(key_bytes)),
    .done_o       (returned),
    .room_o       (room),
    .word_valid_i (word_valid),
    .word_wide_i  (word_wide),
    .word_half_i  (word_half),
    .element_i    (element),
    .write_valid_o,
    .write_ready_i,
    .write_o
  );

  // ---- Pages that ids of GATHER name: words of them, which hold something once they are known ----
  wire page_index_t id_page = id[TokenBits+:PageIndexBits];
  wire mark_word_t id_word = id_page[PageIndexBits-1:MarkBits];
  wire marks_t id_mark = marks_t'(1) << id_page[MarkBits-1:0];
  always_ff @(posedge clk_i) begin
    if (state_q == StMarking && id_valid) begin
      touched[id_word] <= (known_q[id_word] ? touched[id_word] : '0) | id_mark;
    end
  end

  // ---- Order of things ----
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, pass_q, highest_q, beyond_q, known_q, page_q, pages_end_q} <= '0;
      {done_o, outcome_o} <= '0;
      verdict_q <= VerdictOk;
    end else if (clear_i) begin
      state_q <= StIdle;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      unique case (state_q)
        StIdle: begin
          pass_q <= PassVerify;
          highest_q <= '0;
          beyond_q <= 1'b0;
          page_q <= '0;
          pages_end_q <= 1'b0;
          verdict_q <= VerdictOk;
          if (start_i) begin
            known_q <= '0;
            state_q <= gathers_i ? StIds : StList;
          end
        end
        StIds: state_q <= StMarking;
        StMarking: begin
          if (id_valid) begin
            known_q[id_word] <= 1'b1;
            if (id > highest_q) highest_q <= id;
            if (id >= command_i.tokens) beyond_q <= 1'b1;
            if (id_last) state_q <= StList;
          end
        end
        StList: begin
          verdict_q <= ids_verdict;
          state_q <= ids_verdict.status == StatusOk ? StLoading : StDone;
        end
        StLoading: begin
          if (loaded_i) state_q <= poisoned_i ? StDone : StClear;
          if (loaded_i && poisoned_i) verdict_q.status <= StatusPoison;
        end
        StClear: state_q <= StStart;
        StStart: state_q <= verifies ? StVerify : StRows;
        StVerify: begin
          if (looks && (!is_touched || visit_ready_i)) begin
            page_q <= page_q + 1'b1;
            pages_end_q <= 32'(page_q) + 32'd1 == entries;
          end
          if (pass_i.done) begin
            verdict_q <= pass_i.failed
                ? '{status: pass_i.failure.status, detail: 64'(pass_i.failure.index)} : VerdictOk;
            state_q <= pass_i.failed || pass_q == PassAgain ? StDone : StPlace;
          end
        end
        StPlace: begin
          pass_q <= wants_keys ? PassKeys : PassValues;
          verdict_q <= place_verdict;
          state_q <= place_verdict.status == StatusOk ? StClear : StDone;
        end
        StRows: begin
          page_q <= '0;
          pages_end_q <= 1'b0;
          if (strays) verdict_q <= '{status: StatusStalePage, detail: 64'(chosen.page)};
          if (pass_i.done && pass_i.failed) begin
            verdict_q <= '{status: pass_i.failure.status, detail: 64'(pass_i.failure.index)};
            state_q <= StDone;
          end else if (gathers_i && pass_i.done && ids_poisoned) begin
            verdict_q <= '{status: StatusPoison, detail: '0};
            state_q <= StDone;
          end else if (pass_i.done && returned) begin
            pass_q <= pass_q == PassKeys && wants_values ? PassValues : PassAgain;
            state_q <= (pass_q == PassKeys && wants_values) || gathers_i ? StClear : StDone;
            if (verdict_q.status != StatusOk) state_q <= StDone;
          end
        end
        default: begin
          state_q <= StIdle;
          done_o <= 1'b1;
          outcome_o <= '0;
          outcome_o.verdict <= verdict_q;
          outcome_o.count <= verdict_q.status == StatusOk ? command_i.count : '0;
        end
      endcase
    end
  end

  wire unused = ^{command_i, record_i, pass_i};

endmodule
