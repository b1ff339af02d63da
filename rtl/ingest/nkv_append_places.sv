// Judges where an APPEND wants its pages: every page in the window (ADDRESS_FAULT, detail = the
// first that is not), and no page on another one or on a source row (BAD_FIELD, detail = offset of
// `page_list`). An entry takes 4 cycles; where entries do not ascend, sorting takes more (nkv_places_apart).

module nkv_append_places
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,

  input  logic            start_i,        // The rest is held until done_o.
  input  append_command_t command_i,
  input  address_t        window_bytes_i,
  input  logic [31:0]     page_bytes_i,
  input  logic [PageIndexBits:0] pages_i,
  output logic            done_o,         // For one cycle.
  output verdict_t        verdict_o,

  output page_index_t     page_o,         // To look up; the entry follows by one cycle.
  input  page_entry_t     entry_i
);

  localparam int unsigned GrainBits = $clog2(PageGrainBytes);
  localparam int unsigned PageListOffset = 32;  // In the command.

  typedef logic [31:0] grain_t;       // Place of a page.
  typedef logic [53:0] place_t;       // Of a byte that may lie beyond every window.

  typedef enum logic [2:0] {
    StIdle,
    StLook,
    StTake,
    StBounds,   // Where the page ends.
    StJudge,    // Window and sources.
    StApart,    // All of them against each other.
    StDone
  } state_e;

  state_e      state_q;
  page_index_t index_q;
  grain_t      grain_q;
  place_t      begin_q, end_q;
  place_t      keys_end_q, values_end_q;
  logic        collides_q;

  wire has_values = command_i.v_form != RowFormNone;
  wire [31:0] key_row = source_row_bytes(
      command_i.dtype, command_i.head_dim, command_i.flags[AppendFlagKeyScales]);
  wire [31:0] value_row = source_row_bytes(command_i.dtype, command_i.value_dim, 1'b0);
  wire [31:0] page_grains = page_bytes_i >> GrainBits;
  wire is_last = (PageIndexBits + 1)'(index_q) + 1'b1 == pages_i;

  wire on_keys = spans_overlap(64'(begin_q), 64'(end_q), 64'(place_t'(command_i.keys)),
                               64'(keys_end_q));
  wire on_values = has_values && spans_overlap(
      64'(begin_q), 64'(end_q), 64'(place_t'(command_i.values)), 64'(values_end_q));

  // ---- Against each other ----
  logic judged, apart;
  logic [31:0] unused_place, unused_extent;
  nkv_places_apart #(
    .Places(ListPages)
  ) u_apart (
    .clk_i,
    .rst_ni,
    .clear_i (clear_i || state_q == StIdle),
    .extent_i(page_grains),
    .put_i   (state_q == StJudge),
    .place_i (grain_q),
    .judge_i (state_q == StApart),
    .done_o  (judged),
    .apart_o (apart),
    .look_i  ('0),
    .place_o (unused_place),
    .extent_o(unused_extent)
  );

  assign page_o = index_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, index_q, grain_q, begin_q, end_q, keys_end_q, values_end_q} <= '0;
      {collides_q, done_o} <= '0;
      verdict_o <= VerdictOk;
    end else if (clear_i) begin
      state_q <= StIdle;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      unique case (state_q)
        StIdle: begin
          index_q <= '0;
          collides_q <= 1'b0;
          verdict_o <= VerdictOk;
          keys_end_q <= place_t'(command_i.keys +
                                 source_span(command_i.tokens, command_i.key_stride, key_row));
          values_end_q <= place_t'(
              command_i.values + source_span(command_i.tokens, command_i.value_stride, value_row));
          if (start_i) state_q <= StLook;
        end
        StLook: state_q <= StTake;
        StTake: begin
          grain_q <= entry_i.page;
          begin_q <= place_t'(entry_i.page) << GrainBits;
          state_q <= StBounds;
        end
        StBounds: begin
          end_q <= begin_q + place_t'(page_bytes_i);
          state_q <= StJudge;
        end
        StJudge: begin
          index_q <= index_q + 1'b1;
          state_q <= is_last ? StApart : StLook;
          if (on_keys || on_values) collides_q <= 1'b1;
          if (end_q > place_t'(window_bytes_i)) begin
            verdict_o <= '{status: StatusAddressFault, detail: 64'(index_q)};
            state_q <= StDone;
          end
        end
        StApart: begin
          if (judged || collides_q) begin
            if (collides_q || !apart) begin
              verdict_o <= '{status: StatusBadField, detail: 64'(PageListOffset)};
            end
            state_q <= StDone;
          end
        end
        default: begin
          state_q <= StIdle;
          done_o <= 1'b1;
        end
      endcase
    end
  end

  wire unused = ^{command_i, entry_i};

endmodule
