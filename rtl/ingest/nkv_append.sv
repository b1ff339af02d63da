// APPEND: source rows to pages, all or nothing. Takes a checked command of up to ListPages pages.
//
//   page list --> append_places --> source_fetch --> source_words --> page_build --> memory
//
// With CODES the gains that stand behind the page list are read before any place is touched.
//
// No page is written before all places are judged, and none can be found before all are in memory:
// first every place loses its old header, then bodies and headers go out, the first 8 bytes of
// each header withheld; once memory has them, these 8 bytes, and then the entries with exponents.
// An error (POISON or PAGE_OVERFLOW, detail = the page) leaves places without a page, and the
// entries as they were.
//
// While no APPEND is under way, a guest may have pages built of its own rows (nkv_transcode).

module nkv_append
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,

  input  logic            start_i,
  input  append_command_t command_i,       // Checked; held until done.
  input  domain_t         domain_i,
  output logic            done_o,          // For one cycle.
  output outcome_t        outcome_o,

  output logic            load_o,
  output list_load_t      list_o,
  input  logic            loaded_i,
  input  logic            poisoned_i,
  output logic            judges_o,        // Places are judged, and nothing of memory is waited for.
  output page_index_t     page_o,          // To look up; the entry follows by one cycle.
  input  page_entry_t     entry_i,

  output logic            request_valid_o,
  input  logic            request_ready_i,
  output read_request_t   request_o,
  input  logic            beat_valid_i,    // Beats for SinkRows.
  output logic            beat_ready_o,
  input  read_beat_t      beat_i,

  output logic            write_valid_o,
  input  logic            write_ready_i,
  output write_request_t  write_o,
  input  logic            writes_done_i,   // Memory has all that was accepted.

  input  guest_page_t     guest_i,
  output guest_report_t   guest_o
);

  localparam int unsigned EntriesPerBurst = BurstBytes / PageEntryBytes;
  localparam int unsigned GainIndexBits = $clog2(Channels / GranuleBytes);

  typedef enum logic [3:0] {
    StIdle,
    StLoad,
    StLoading,
    StPlaces,
    StGains,    // With CODES: the gains of K are asked for
    StGaining,  // and come.
    StLook,     // For each page: its entry,
    StWrite,    // and one write of this step.
    StSettle,   // Until memory has them all.
    StPageLook,
    StPageStart,
    StPage,
    StDrain,    // After an error: until no row is on its way.
    StDone
  } state_e;

  typedef enum logic [1:0] {
    StepWipe,     // Headers that were there before.
    StepBuild,
    StepPublish,  // The new headers' first word.
    StepEnter     // Entries, with their exponents.
  } step_e;

  state_e       state_q;
  step_e        step_q;
  page_index_t  index_q;
  page_layout_t layout_q;
  logic [PageIndexBits:0] pages_q;
  logic [31:0]  first_token_q;
  logic [63:0]  page_address_q;
  logic [15:0]  page_generation_q;
  verdict_t     verdict_q;

  // Whose pages are built.
  wire append_command_t command = guest_i.active ? guest_i.command : command_i;
  append_command_t row_command;
  always_comb begin
    row_command = command;
    if (guest_i.active) row_command.flags = '0;
  end

  wire page_shape_t shape = '{
      value_dim: command.value_dim,
      head_dim: command.head_dim,
      flags: 8'(command.flags[AppendFlagKeyScales]) << PageFlagKeyScales |
          8'(command.flags[AppendFlagCodes]) << PageFlagCodes,
      dtype: command.dtype,
      v_form: command.v_form,
      k_form: command.k_form
  };
  wire is_last = (PageIndexBits + 1)'(index_q) + 1'b1 == pages_q;
  wire begins = (state_q == StIdle && start_i) || guest_i.load;
  wire appends = state_q inside {StPageLook, StPageStart, StPage};
  wire builds = appends || guest_i.active;

  // ---- Where the pages go ----
  logic        places_done;
  verdict_t    places_verdict;
  page_index_t places_page;

  nkv_append_places u_places (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i       (state_q == StLoading && loaded_i && !poisoned_i),
    .command_i,
    .window_bytes_i(domain_i.window_bytes),
    .page_bytes_i  (layout_q.total_bytes),
    .pages_i       (pages_q),
    .done_o        (places_done),
    .verdict_o     (places_verdict),
    .page_o        (places_page),
    .entry_i
  );

  assign load_o = state_q == StLoad;
  assign list_o = '{address: command_i.page_list, entries: pages_q};
  assign judges_o = state_q == StPlaces;
  assign page_o = judges_o ? places_page : index_q;

  // ---- Gains ----
  logic     gains_valid, gains_ready, gains_done, gains_poisoned;
  granule_t gains;
  logic [GainIndexBits-1:0] gains_index;
  wire gaining = state_q == StGaining;
  wire [63:0] gains_address = command_i.page_list + 64'(pages_q) * PageEntryBytes;
  wire read_request_t gains_request = '{
      tag: '{sink: SinkRows, last_bytes: 7'(BurstBytes), default: '0},
      bursts: bursts_of(32'(command_i.head_dim) + 32'(gains_address[5:0])),
      address: gains_address
  };

  nkv_code_gains u_gains (
    .clk_i,
    .rst_ni,
    .clear_i     (clear_i || begins),
    .first_i     (gains_address[5:3]),
    .last_i      (GainIndexBits'(command_i.head_dim / 16'(GranuleBytes)) - 1'b1),
    .beat_valid_i(beat_valid_i && gaining),
    .beat_ready_o(gains_ready),
    .beat_i,
    .valid_o     (gains_valid),
    .index_o     (gains_index),
    .gains_o     (gains),
    .done_o      (gains_done),
    .poisoned_o  (gains_poisoned)
  );

  // ---- Source rows ----
  logic        rows_idle, poisoned, values_free, values_begin, values_valid;
  logic        keys_free, keys_begin, keys_valid, scale_valid;
  page_index_t poisoned_page;
  element_t    word[ExactLanes];
  token_t      scale_row;
  logic [31:0] scale;
  wire rows_start = guest_i.start || (state_q == StSettle && writes_done_i && step_q == StepWipe);
  wire drain = state_q == StDrain || guest_i.drain;
  logic          fetch_valid, words_ready;
  wire           words_valid = guest_i.active ? guest_i.beat_valid : beat_valid_i && !gaining;
  wire read_beat_t words_beat = guest_i.active ? guest_i.beat : beat_i;
  read_request_t fetch_request;
  assign request_valid_o = state_q == StGains || (fetch_valid && !guest_i.active);
  assign request_o = state_q == StGains ? gains_request : fetch_request;
  assign beat_ready_o = gaining ? gains_ready : words_ready && !guest_i.active;

  nkv_source_fetch u_fetch (
    .clk_i,
    .rst_ni,
    .clear_i        (clear_i || begins),
    .start_i        (rows_start),
    .command_i      (row_command),
    .stop_i         (drain),
    .idle_o         (rows_idle),
    .request_valid_o(fetch_valid),
    .request_ready_i(guest_i.active ? guest_i.request_ready : request_ready_i),
    .request_o      (fetch_request),
    .row_taken_i    (words_valid && words_ready && words_beat.last)
  );

  nkv_source_words u_words (
    .clk_i,
    .rst_ni,
    .clear_i       (clear_i || begins),
    .start_i       (rows_start),
    .command_i     (row_command),
    .drop_i        (drain),
    .beat_valid_i  (words_valid),
    .beat_ready_o  (words_ready),
    .beat_i        (words_beat),
    .poisoned_o    (poisoned),
    .page_o        (poisoned_page),
    .values_free_i (values_free),
    .values_begin_o(values_begin),
    .values_valid_o(values_valid),
    .keys_free_i   (keys_free),
    .keys_begin_o  (keys_begin),
    .keys_valid_o  (keys_valid),
    .word_o        (word),
    .scale_valid_o (scale_valid),
    .scale_row_o   (scale_row),
    .scale_o       (scale)
  );

  // ---- Pages ----
  logic           page_done, page_overflow, page_write_valid;
  exponent_t      k_exponent, v_exponent;
  write_request_t page_write;
  (* ram_style = "block" *) logic [15:0] exponents[ListPages];
  logic [15:0]    exponents_q;  // Of page index_q in the cycle before.

  nkv_page_build u_build (
    .clk_i,
    .rst_ni,
    .clear_i           (clear_i || begins || drain),
    .command_i         (command),
    .layout_i          (layout_q),
    .tenant_i          (guest_i.active ? guest_i.tenant : domain_i.tenant),
    .gains_valid_i     (gains_valid),
    .gains_index_i     (gains_index),
    .gains_i           (gains),
    .page_start_i      (state_q == StPageStart || guest_i.start),
    .page_address_i    (guest_i.active ? guest_i.address : page_address_q),
    .page_generation_i (guest_i.active ? guest_i.generation : page_generation_q),
    .page_first_token_i(guest_i.active ? guest_i.command.first_token : first_token_q),
    .page_done_o       (page_done),
    .page_overflow_o   (page_overflow),
    .k_exponent_o      (k_exponent),
    .v_exponent_o      (v_exponent),
    .values_free_o     (values_free),
    .values_begin_i    (values_begin),
    .values_valid_i    (values_valid),
    .keys_free_o       (keys_free),
    .keys_begin_i      (keys_begin),
    .keys_valid_i      (keys_valid),
    .word_i            (word),
    .scale_valid_i     (scale_valid || guest_i.scale_valid),
    .scale_row_i       (guest_i.active ? guest_i.scale_row : scale_row),
    .scale_i           (guest_i.active ? guest_i.scale : scale),
    .write_valid_o     (page_write_valid),
    .write_ready_i     (write_ready_i && builds),
    .write_o           (page_write)
  );

  assign guest_o = '{
      total_bytes: layout_q.total_bytes,
      done: page_done,
      overflow: page_overflow,
      k_exponent: k_exponent,
      v_exponent: v_exponent,
      rows_idle: rows_idle,
      request_valid: fetch_valid,
      request: fetch_request,
      beat_ready: words_ready
  };

  always_ff @(posedge clk_i) begin
    if (page_done) exponents[index_q] <= {v_exponent, k_exponent};
    exponents_q <= exponents[index_q];
  end

  // ---- Writes ----
  wire [63:0] place = 64'(entry_i.page) * PageGrainBytes;
  wire [63:0] entry_place = command_i.page_list + 64'(index_q) * PageEntryBytes;

  always_comb begin
    write_valid_o = builds ? page_write_valid : state_q == StWrite;
    write_o = page_write;
    if (!builds) begin
      write_o = '{address: place, strobes: '1, data: '0};
      if (step_q == StepPublish) begin
        write_o.strobes = ~HeaderRest;
        write_o.data[$bits(header_word_t)-1:0] = header_word(shape.flags);
      end
      if (step_q == StepEnter) begin
        write_o.address = {entry_place[63:6], 6'd0};
        write_o.strobes = 64'hff << {entry_place[5:3], 3'd0};
        write_o.data = {EntriesPerBurst{exponents_q, entry_i.generation, entry_i.page}};
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (begins) layout_q <= page_layout(shape);
    if (state_q == StPageStart) page_address_q <= place;
    if (state_q == StPageStart) page_generation_q <= entry_i.generation;
  end

  // ---- Order of things ----
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, step_q, index_q, pages_q, first_token_q, done_o, outcome_o} <= '0;
      verdict_q <= VerdictOk;
    end else if (clear_i) begin
      state_q <= StIdle;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      unique case (state_q)
        StIdle: begin
          step_q <= StepWipe;
          index_q <= '0;
          pages_q <= (PageIndexBits + 1)'(command_i.tokens >> TokenBits);
          first_token_q <= command_i.first_token;
          verdict_q <= VerdictOk;
          if (start_i) state_q <= StLoad;
        end
        StLoad: state_q <= StLoading;
        StLoading: begin
          if (loaded_i) state_q <= poisoned_i ? StDone : StPlaces;
          if (loaded_i && poisoned_i) verdict_q.status <= StatusPoison;
        end
        StPlaces: begin
          if (places_done) begin
            verdict_q <= places_verdict;
            state_q <= command_i.flags[AppendFlagCodes] ? StGains : StLook;
            if (places_verdict.status != StatusOk) state_q <= StDone;
          end
        end
        StGains: if (request_ready_i) state_q <= StGaining;
        StGaining: begin
          if (gains_done) begin
            state_q <= gains_poisoned ? StDone : StLook;
            if (gains_poisoned) verdict_q.status <= StatusPoison;
          end
        end
        StLook: state_q <= StWrite;
        StWrite: begin
          if (write_ready_i) begin
            index_q <= is_last ? '0 : index_q + 1'b1;
            state_q <= is_last ? StSettle : StLook;
          end
        end
        StSettle: begin
          if (writes_done_i) begin
            step_q <= step_e'(step_q + 1'b1);
            unique case (step_q)
              StepWipe: state_q <= StPageLook;
              StepEnter: state_q <= StDone;
              default: state_q <= StLook;
            endcase
          end
        end
        StPageLook: state_q <= StPageStart;
        StPageStart: state_q <= StPage;
        StPage: begin
          if (page_done) begin
            index_q <= is_last ? '0 : index_q + 1'b1;
            first_token_q <= first_token_q + 32'(PageTokens);
            state_q <= is_last ? StSettle : StPageLook;
          end
          if (page_overflow) begin
            verdict_q <= '{status: StatusPageOverflow, detail: 64'(index_q)};
            state_q <= StDrain;
          end
        end
        StDrain: if (rows_idle) state_q <= StDone;
        default: begin
          state_q <= StIdle;
          done_o <= 1'b1;
          outcome_o <= '0;
          outcome_o.verdict <= verdict_q;
          outcome_o.count <= verdict_q.status == StatusOk ? 32'(pages_q) : '0;
        end
      endcase
      if (appends && poisoned) begin
        verdict_q <= '{status: StatusPoison, detail: 64'(poisoned_page)};
        state_q <= StDrain;
      end
    end
  end

  wire unused = ^{entry_i, domain_i.window_base, entry_place[2:0]};

endmodule
