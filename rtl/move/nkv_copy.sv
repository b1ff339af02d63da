// COPY and TRANSCODE: whole pages to other places, under new generations, as they are or in another codec.
// Takes a checked command of up to ListPages pages.
//
//   headers of all sources --> up to which page the command gets; destinations --> copy_places
//   page_pass --> bodies, verified as they stream --> page_copy | transcode --> memory
//
// No page is written before all places are judged, and none can be found before it was verified and
// memory has all of it: first every place loses its old header, then pages go out, the first
// 8 bytes of each header withheld; once memory has them, these 8 bytes of the pages up to the first that
// fails, and then their entries, and TRANSCODE's sizes. What was begun behind that one stays without a header.

module nkv_copy
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::guest_page_t;
  import nkv_ingest_pkg::guest_report_t;
  import nkv_transcode_pkg::made_page_t;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic           start_i,
  input  pages_command_t command_i,       // Checked; held until done.
  input  address_t       window_bytes_i,
  output logic           done_o,          // For one cycle.
  output outcome_t       outcome_o,

  output logic           load_o,
  output list_load_t     list_o,
  input  logic           loaded_i,
  input  logic           poisoned_i,
  output logic           judges_o,        // Places are judged, and nothing of memory is waited for.
  output logic           looks_o,
  output page_index_t    page_o,          // To look up; the entry follows by one cycle.
  input  page_entry_t    entry_i,

  output logic           pass_start_o,
  output logic           pass_clear_o,    // Before the second pass: what was the first one's is forgotten.
  output pass_setup_t    pass_o,
  input  pass_report_t   pass_i,
  input  logic           body_valid_i,
  output logic           body_ready_o,
  input  page_record_t   record_i,        // Of the body.
  input  logic           beat_valid_i,    // Beats for SinkArray.
  output logic           beat_ready_o,
  input  read_beat_t     beat_i,

  output guest_page_t    guest_o,         // The page builder of APPEND.
  input  guest_report_t  guest_i,

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o,
  input  logic           writes_done_i    // Memory has all that was accepted.
);

  localparam int unsigned EntriesPerBurst = BurstBytes / PageEntryBytes;
  localparam int unsigned SizeBytes = 4;
  localparam int unsigned SizesPerBurst = BurstBytes / SizeBytes;
  localparam int unsigned DestinationOffset = 24;  // In the command.

  typedef logic [PageIndexBits:0] page_count_t;

  function automatic logic [24:0] grains_of(logic [31:0] bytes);
    return 25'((33'(bytes) + 33'(PageGrainBytes) - 33'd1) / 33'(PageGrainBytes));
  endfunction

  typedef enum logic [3:0] {
    StIdle,
    StLoad,     // The new places,
    StLoading,
    StKeep,     // kept here;
    StLoadFrom, // then the sources.
    StLoadingFrom,
    StPlan,     // Headers of all sources,
    StPlanning,
    StPlaces,   // and whether their places meet.
    StLook,     // For each page: where it goes,
    StWrite,    // and one write of this step.
    StSettle,   // Until memory has them all.
    StBodies,
    StCopying,
    StDone
  } state_e;

  typedef enum logic [2:0] {
    StepWipe,     // Headers that were there before.
    StepBodies,
    StepPublish,  // The new headers' first word.
    StepEnter,    // Entries, with their exponents.
    StepSizes     // TRANSCODE: of the new pages.
  } step_e;

  state_e      state_q;
  step_e       step_q;
  page_index_t index_q;
  page_count_t pages_q;    // Of the command; then those that can be copied, and that were.
  page_count_t taken_q;    // Pages whose headers and places are right.
  logic        planned_q;  // No page behind them counts.
  verdict_t    verdict_q;
  logic        kept_valid_q;

  wire is_last = page_count_t'(index_q) + 1'b1 == pages_q;
  wire plans = state_q == StPlanning;
  wire copies = state_q == StCopying;
  wire transcodes = command_i.opcode == OpcodeTranscode;
  wire idle = state_q == StIdle;

  // ---- Where pages go, and what their new headers and entries say ----
  typedef struct packed {
    logic [15:0] generation;
    logic [31:0] page;
  } destination_t;

  typedef struct packed {
    logic [7:0]  v_exponent;
    logic [7:0]  k_exponent;
    logic [31:0] total_bytes;
  } told_t;

  (* ram_style = "block" *) destination_t destinations[ListPages];
  (* ram_style = "block" *) told_t        told[ListPages];
  (* ram_style = "block" *) logic [7:0]   flags[ListPages];
  destination_t destination_q;
  told_t        told_q;
  logic [7:0]   flags_q;
  logic         looked_up_q;  // Of the body at hand.
  logic         take, made;
  made_page_t   made_page;

  page_index_t  places_page;
  wire page_index_t looked_up = plans || copies ? record_i.visit.page
      : judges_o ? places_page : index_q;

  always_ff @(posedge clk_i) begin
    if (kept_valid_q) begin
      destinations[index_q] <= '{generation: entry_i.generation, page: entry_i.page};
    end
    if (plans && take) flags[record_i.visit.page] <= record_i.header.flags;
    if ((plans && take) || made) begin
      told[plans ? record_i.visit.page : made_page.index] <= '{
          v_exponent: plans ? record_i.header.v_exponent : made_page.v_exponent,
          k_exponent: plans ? record_i.header.k_exponent : made_page.k_exponent,
          total_bytes: plans ? record_i.total_bytes : made_page.total_bytes
      };
    end
    destination_q <= destinations[looked_up];
    told_q <= told[looked_up];
    flags_q <= flags[looked_up];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) looked_up_q <= 1'b0;
    else looked_up_q <= body_valid_i && (plans || copies) && !take;
  end
  // A body that was offered is withdrawn when a page before it fails.
  wire looked_up_now = looked_up_q && body_valid_i;

  assign load_o = state_q inside {StLoad, StLoadFrom};
  assign list_o = '{
      address: state_q == StLoad ? command_i.destination : command_i.source,
      entries: pages_q
  };
  assign judges_o = state_q == StPlaces;
  assign looks_o = state_q == StKeep || judges_o;
  assign page_o = judges_o ? places_page : kept_valid_q ? index_q + 1'b1 : index_q;

  // ---- Passes over the sources ----
  assign pass_start_o = state_q inside {StPlan, StBodies};
  assign pass_clear_o = judges_o;
  assign pass_o = '{
      tokens: 32'(pages_q) * PageTokens,
      window: '0,
      sinks: '0,
      first_index: '0,
      demand: '{any_codec: 1'b1, no_codes: transcodes, default: '0},
      plan: step_q == StepBodies
          ? '{whole: '1, compressed: 1'b1, padding: !transcodes, default: '0} : '0,
      erase: 1'b0
  };

  logic placed, collides, copy_ready, copy_idle, copy_beat_ready, copy_write_valid;
  logic maker_ready, maker_idle, maker_beat_ready, maker_write_valid, maker_failed;
  page_failure_t  maker_failure;
  write_request_t copy_write, maker_write;
  wire [63:0] place = 64'(destination_q.page) * PageGrainBytes;
  wire [31:0] room_bytes = transcodes ? command_i.slot_bytes : record_i.total_bytes;
  wire fits = place + 64'(room_bytes) <= 64'(window_bytes_i);
  wire counts = plans && looked_up_now && !planned_q;

  wire body_taken = transcodes ? maker_ready : copy_ready;
  assign take = looked_up_now && (!copies || body_taken);
  assign body_ready_o = take;

  nkv_copy_places u_places (
    .clk_i,
    .rst_ni,
    .clear_i        (clear_i || idle),
    .put_i          (counts && fits),
    .place_i        (destination_q.page),
    .extent_i       (grains_of(room_bytes)),
    .judge_i        (judges_o && taken_q != '0),
    .done_o         (placed),
    .collides_o     (collides),
    .page_o         (places_page),
    .source_i       (judges_o ? entry_i.page : record_i.address[$clog2(PageGrainBytes)+:32]),
    .source_grains_i(grains_of(judges_o ? told_q.total_bytes : record_i.total_bytes))
  );

  nkv_page_copy u_copy (
    .clk_i,
    .rst_ni,
    .clear_i      (clear_i || idle),
    .page_valid_i (copies && looked_up_now && !transcodes),
    .page_ready_o (copy_ready),
    .header_i     (record_i.header),
    .total_bytes_i(record_i.total_bytes),
    .page_i       (destination_q.page),
    .generation_i (destination_q.generation),
    .idle_o       (copy_idle),
    .beat_valid_i (beat_valid_i && !transcodes),
    .beat_ready_o (copy_beat_ready),
    .beat_i       (beat_i.data),
    .write_valid_o(copy_write_valid),
    .write_ready_i(write_ready_i && copies),
    .write_o      (copy_write)
  );

  logic maker_clk;
  nkv_idle_clock u_maker_clock (
    .clk_i,
    .rst_ni,
    .busy_i((transcodes && (start_i || !idle)) || clear_i),
    .clk_o (maker_clk)
  );

  nkv_transcode u_transcode (
    .clk_i        (maker_clk),
    .rst_ni,
    .clear_i      (clear_i || idle),
    .codec_i      (command_i.codec),
    .slot_bytes_i (command_i.slot_bytes),
    .page_valid_i (copies && looked_up_now && transcodes),
    .page_ready_o (maker_ready),
    .record_i     (transcodes ? record_i : '0),  // So that nothing moves while its clock stands.
    .page_i       (destination_q.page),
    .generation_i (destination_q.generation),
    .idle_o       (maker_idle),
    .made_o       (made),
    .made_page_o  (made_page),
    .failed_o     (maker_failed),
    .failure_o    (maker_failure),
    .beat_valid_i (beat_valid_i && transcodes),
    .beat_ready_o (maker_beat_ready),
    .beat_i       (transcodes ? beat_i : '0),
    .guest_o,
    .guest_i,
    .write_valid_o(maker_write_valid),
    .write_ready_i(write_ready_i && copies),
    .write_o      (maker_write)
  );

  assign beat_ready_o = transcodes ? maker_beat_ready : copy_beat_ready;

  // Of one page the pass's verdict comes first: what is not intact is not judged any further.
  wire maker_first = maker_failed && !(pass_i.failed && pass_i.failure.index <= maker_failure.index);
  wire page_failure_t failure = maker_first ? maker_failure : pass_i.failure;
  wire bodies_idle = transcodes ? maker_idle : copy_idle;

  // ---- Writes ----
  wire [63:0] entry_place = command_i.destination + 64'(index_q) * PageEntryBytes;
  wire [63:0] size_place = command_i.result + 64'(index_q) * SizeBytes;
  // No page is as small as that, and it may end with the window.
  wire has_room = !transcodes || command_i.slot_bytes >= 32'(BurstBytes);

  always_comb begin
    write_valid_o = copies ? (transcodes ? maker_write_valid : copy_write_valid)
        : state_q == StWrite;
    write_o = transcodes ? maker_write : copy_write;
    if (!copies) begin
      write_o = '{address: place, strobes: {BurstBytes{has_room}}, data: '0};
      if (step_q == StepPublish) begin
        write_o.strobes = ~HeaderRest;
        write_o.data[$bits(header_word_t)-1:0] = header_word(flags_q);
      end
      if (step_q == StepEnter) begin
        write_o.address = {entry_place[63:6], 6'd0};
        write_o.strobes = 64'hff << {entry_place[5:3], 3'd0};
        write_o.data = {EntriesPerBurst{told_q.v_exponent, told_q.k_exponent,
                                        destination_q.generation, destination_q.page}};
      end
      if (step_q == StepSizes) begin
        write_o.address = {size_place[63:6], 6'd0};
        write_o.strobes = 64'hf << {size_place[5:2], 2'd0};
        write_o.data = {SizesPerBurst{told_q.total_bytes}};
      end
    end
  end

  // ---- Order of things ----
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, step_q, index_q, pages_q, taken_q, planned_q, kept_valid_q} <= '0;
      {done_o, outcome_o} <= '0;
      verdict_q <= VerdictOk;
    end else if (clear_i) begin
      state_q <= StIdle;
      kept_valid_q <= 1'b0;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      kept_valid_q <= 1'b0;
      unique case (state_q)
        StIdle: begin
          step_q <= StepWipe;
          index_q <= '0;
          pages_q <= page_count_t'(command_i.count);
          taken_q <= '0;
          planned_q <= 1'b0;
          verdict_q <= VerdictOk;
          if (start_i) state_q <= StLoad;
        end
        StLoad: state_q <= StLoading;
        StLoading, StLoadingFrom: begin
          if (loaded_i) state_q <= state_q == StLoading ? StKeep : StPlan;
          if (loaded_i && poisoned_i) begin
            verdict_q.status <= StatusPoison;
            pages_q <= '0;
            state_q <= StDone;
          end
        end
        StKeep: begin
          kept_valid_q <= 1'b1;
          if (kept_valid_q) begin
            index_q <= is_last ? '0 : index_q + 1'b1;
            if (is_last) begin
              kept_valid_q <= 1'b0;
              state_q <= StLoadFrom;
            end
          end
        end
        StLoadFrom: state_q <= StLoadingFrom;
        StPlan: state_q <= StPlanning;
        StPlanning: begin
          if (counts) begin
            if (fits) taken_q <= taken_q + 1'b1;
            planned_q <= !fits;
            if (!fits) verdict_q <= '{status: StatusAddressFault, detail: 64'(taken_q)};
          end
          if (pass_i.done) begin
            if (pass_i.failed && !planned_q) begin
              verdict_q <= '{status: pass_i.failure.status, detail: 64'(pass_i.failure.index)};
            end
            state_q <= StPlaces;
          end
        end
        StPlaces: begin
          pages_q <= taken_q;
          if (taken_q == '0) state_q <= StDone;
          if (placed) state_q <= StLook;
          if (placed && collides) begin
            pages_q <= '0;
            verdict_q <= '{status: StatusBadField, detail: 64'(DestinationOffset)};
            state_q <= StDone;
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
              StepWipe: state_q <= StBodies;
              StepEnter: state_q <= transcodes ? StLook : StDone;
              StepSizes: state_q <= StDone;
              default: state_q <= pages_q == '0 ? StDone : StLook;
            endcase
          end
        end
        StBodies: state_q <= StCopying;
        StCopying: begin
          if (pass_i.done && bodies_idle) begin
            if (pass_i.failed || maker_failed) begin
              verdict_q <= '{status: failure.status, detail: 64'(failure.index)};
              pages_q <= page_count_t'(failure.index);
            end
            state_q <= StSettle;
          end
        end
        default: begin
          state_q <= StIdle;
          done_o <= 1'b1;
          outcome_o <= '0;
          outcome_o.verdict <= verdict_q;
          outcome_o.count <= 32'(pages_q);
        end
      endcase
    end
  end

  wire unused = ^{command_i, entry_i, record_i, pass_i, beat_i, entry_place[2:0], size_place[1:0]};

endmodule
