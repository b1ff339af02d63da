// The plane stage as TOPK uses it: nkv_scan with the query rows that wait for its start, the records
// of pages that wait to be taken up, the tags of its bursts, and a clock of its own.

module nkv_plane_search
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_scan_pkg::op_t;
  import nkv_scan_pkg::planes_t;
  import nkv_scan_pkg::scan_page_t;
  import nkv_scan_pkg::burst_tag_t;
  import nkv_scan_pkg::page_tokens_t;
  import nkv_scan_pkg::midpoint_t;
  import nkv_scan_pkg::ScanTokens;
  import nkv_scan_pkg::quad_t;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,           // Before each command.
  input  logic          needed_i,          // By the command, from now on.
  input  logic          abort_i,           // The command ends.
  input  logic [15:0]   head_dim_i,

  input  logic          query_valid_i,     // Broadcast, before the start.
  input  row_index_t    query_row_i,
  input  word_index_t   query_word_i,
  input  query_t        query_i[ExactLanes],
  input  logic          started_i,         // OpStart has been taken.
  output logic          query_taken_o,     // All of the query.

  input  logic          op_valid_i,        // Operations of nkv_scan.
  output logic          op_ready_o,
  input  op_t           op_i,
  input  logic          tau_known_i[Rows],
  input  score_t        tau_score_i[Rows],
  output nkv_scan_pkg::constant_t reference_o[Rows],
  output nkv_scan_pkg::shift_t    shift_o[Rows],
  output logic          ranged_o,          // Midpoints have come; those that are not saturated:
  output midpoint_t     highest_o[Rows],
  output midpoint_t     lowest_o[Rows],
  input  logic          read_i,            // Words of midpoints (nkv_scan).
  output logic          read_ready_o,
  input  page_index_t   read_page_i,
  input  logic [1:0]    read_word_i,
  output midpoint_t     midpoint_o[Rows][ScanTokens],
  output logic          spill_valid_o,     // Midpoints to scratch memory (nkv_scan),
  input  logic          spill_ready_i,
  output write_request_t spill_o,
  input  logic          spilled_i,
  input  logic          fill_i,            // and bursts of them from there.
  output logic          refined_o,
  output page_index_t   refined_page_o,

  input  logic          record_valid_i,
  output logic          record_ready_o,
  input  scan_page_t    record_i,

  input  logic          beat_valid_i,      // Digests, planes and granules.
  output logic          beat_ready_o,
  input  read_beat_t    beat_i,

  input  logic          choose_valid_i,    // Tokens to choose from, and those chosen.
  output logic          choose_ready_o,
  input  visit_t        choose_i,
  output logic          chosen_valid_o,
  input  logic          chosen_ready_i,
  output visit_t        chosen_o
);

  // ---- The query waits for the start ----
  typedef struct packed {
    row_index_t  row;
    word_index_t word;
    logic [ExactLanes-1:0][QueryBits-1:0] data;
  } query_word_t;
  query_word_t query_in, query_out;
  logic query_valid, query_ready, unused_query_ready;
  logic [$clog2(Rows*RowWords):0] unused_query_used;
  always_comb begin
    query_in.row = query_row_i;
    query_in.word = query_word_i;
    for (int unsigned i = 0; i < ExactLanes; i++) query_in.data[i] = query_i[i];
  end
  nkv_fifo #(
    .T(query_word_t),
    .Depth(Rows * RowWords)
  ) u_query (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (query_valid_i),
    .in_ready_o (unused_query_ready),
    .in_data_i  (query_in),
    .out_valid_o(query_valid),
    .out_ready_i(query_ready && started_i),
    .out_data_o (query_out),
    .used_o     (unused_query_used)
  );
  assign query_taken_o = !query_valid;

  // ---- Records wait, so that digests are asked for long before their page is taken up ----
  logic waiting_valid, waiting_pop;
  logic [2:0] unused_waiting_used;
  scan_page_t waiting;
  nkv_fifo #(
    .T(scan_page_t),
    .Depth(4)
  ) u_records (
    .clk_i,
    .rst_ni,
    .clear_i    (clear_i || abort_i),
    .in_valid_i (record_valid_i),
    .in_ready_o (record_ready_o),
    .in_data_i  (record_i),
    .out_valid_o(waiting_valid),
    .out_ready_i(waiting_pop),
    .out_data_o (waiting),
    .used_o     (unused_waiting_used)
  );

  // ---- Which granule a burst of a plane belongs to ----
  localparam int unsigned TokenBits = $clog2(PageTokens);
  logic [TokenBits-1:0] token_q;
  logic [3:0] burst_q;
  wire [TokenBits-1:0] token = beat_i.first ? beat_i.tag.token : token_q;
  wire [3:0] burst = beat_i.first ? '0 : burst_q;
  wire is_plane = beat_i.tag.array != 4'(PageArrayKDigest);
  wire burst_tag_t burst_tag = '{
      kind: is_plane ? nkv_scan_pkg::BurstPlane : nkv_scan_pkg::BurstDigest,
      plane: is_plane ? planes_t'(beat_i.tag.array - 4'(PageArrayKPlane0)) + 3'd1 : '0,
      quad: nkv_scan_pkg::quad_t'(token >> $clog2(PlaneTokens)),
      last: beat_i.last && beat_i.tag.page_last
  };
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      token_q <= '0;
      burst_q <= '0;
    end else if (beat_valid_i && beat_ready_o) begin
      if (burst + 4'd1 == granule_bursts(head_dim_i)) begin
        burst_q <= '0;
        token_q <= token + (TokenBits'(1) << granule_log2(head_dim_i));
      end else begin
        burst_q <= burst + 4'd1;
        token_q <= token;
      end
    end
  end

  // ---- The stage: its histograms are cleared after its last operation of a command ----
  logic scan_clk;
  nkv_idle_clock #(
    .HoldCycles(ClearCycles)
  ) u_clock (
    .clk_i,
    .rst_ni,
    .busy_i(needed_i || clear_i),
    .clk_o (scan_clk)
  );

  page_tokens_t chosen;
  nkv_scan_pkg::bin_t unused_threshold[Rows];
  midpoint_t unused_tau[Rows];
  assign chosen_o = '{page: chosen.page, tokens: chosen.tokens, sums: chosen.rest};

  // ---- Midpoints that come back: a page's, from its first token on ----
  quad_t fill_quad_q;
  wire quad_t fill_quad = beat_i.first ? '0 : fill_quad_q;
  always_ff @(posedge clk_i) if (fill_i) fill_quad_q <= fill_quad + 1'b1;

  nkv_scan #(
    .KeptPages(KeptPages)
  ) u_scan (
    .clk_i         (scan_clk),
    .rst_ni,
    .abort_i       (abort_i || clear_i),
    .op_valid_i,
    .op_ready_o,
    .op_i,
    .tau_known_i,
    .tau_score_i,
    .query_valid_i (query_valid && started_i),
    .query_ready_o (query_ready),
    .query_row_i   (query_out.row),
    .query_word_i  (query_out.word),
    .query_data_i  (query_out.data),
    .record_valid_i(waiting_valid),
    .record_ready_o(waiting_pop),
    .record_i      (waiting),
    .burst_valid_i (beat_valid_i),
    .burst_ready_o (beat_ready_o),
    .burst_data_i  (beat_i.data),
    .burst_tag_i   (burst_tag),
    .choose_valid_i,
    .choose_ready_o,
    .choose_i      ('{page: choose_i.page, tokens: choose_i.tokens, rest: 1'b0}),
    .chosen_valid_o,
    .chosen_ready_i,
    .chosen_o      (chosen),
    .threshold_o   (unused_threshold),
    .tau_o         (unused_tau),
    .reference_o,
    .shift_o,
    .ranged_o,
    .highest_o,
    .lowest_o,
    .read_i,
    .read_ready_o,
    .read_page_i,
    .read_word_i,
    .midpoint_o,
    .spill_valid_o,
    .spill_ready_i,
    .spill_o,
    .spilled_i,
    .fill_i,
    .fill_page_i   (beat_i.tag.page),
    .fill_quad_i   (fill_quad),
    .fill_data_i   (beat_i.data),
    .refined_o,
    .refined_page_o
  );

  wire unused = ^{beat_i.fault, beat_i.poison, choose_i.sums};

endmodule
