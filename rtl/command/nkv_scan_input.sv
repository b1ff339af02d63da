// What TOPK and ATTEND read before anything else: the page list and, at the same time, the query rows,
// which it broadcasts as integers; then for INDEXER the rows' weights. Rows and weights that are not
// finite end the command: BAD_QUERY, detail = the first such row.

`include "nkv_assert.svh"

module nkv_scan_input
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,

  input  logic          start_i,          // The rest is held until done_o.
  input  logic [63:0]   query_i,          // Offsets into the window.
  input  logic [63:0]   page_list_i,
  input  logic [31:0]   tokens_i,
  input  logic [15:0]   head_dim_i,
  input  logic [7:0]    group_i,
  input  dtype_e        query_dtype_i,
  input  logic          weighted_i,       // INDEXER
  input  logic [63:0]   weights_i,
  output logic          listed_o,         // The page list is there and good; query rows may still come.
  output logic          done_o,           // For one cycle.
  output verdict_t      verdict_o,
  output exponent_t     query_exponent_o[Rows],
  output logic [31:0]   weight_o[Rows],   // Binary32; noise without weighted_i.

  output logic          request_valid_o,
  input  logic          request_ready_i,
  output read_request_t request_o,
  input  logic          beat_valid_i,     // Beats for SinkQuery.
  output logic          beat_ready_o,
  input  read_beat_t    beat_i,

  output logic          query_valid_o,    // Broadcast.
  output row_index_t    query_row_o,
  output word_index_t   query_word_o,
  output query_t        query_o[ExactLanes],

  output logic          load_o,
  output list_load_t    list_o,
  input  logic          loaded_i,
  input  logic          poisoned_i
);

  typedef enum logic [2:0] {
    StIdle,
    StAsk,
    StQuery,
    StLoading,
    StAskWeights,
    StWeights
  } state_e;

  state_e state_q;
  logic   poison_q;

  wire of_weights = state_q inside {StAskWeights, StWeights};
  wire [63:0] address = of_weights ? weights_i : query_i;
  wire [31:0] row_elements = of_weights ? 32'd1 : 32'(head_dim_i);
  wire [31:0] bytes_of_row = row_elements * element_bytes(of_weights ? DtypeFp32 : query_dtype_i);
  wire [31:0] wanted_bytes = 32'(group_i) * bytes_of_row;
  wire [31:0] in_bytes = wanted_bytes + 32'(address[5:0]);
  wire [15:0] in_bursts = 16'(bursts_of(in_bytes));
  wire [15:0] out_bursts = 16'(bursts_of(wanted_bytes));

  assign request_valid_o = state_q inside {StAsk, StAskWeights};
  assign request_o = '{
      tag: '{sink: SinkQuery, last_bytes: 7'(BurstBytes), default: '0},
      bursts: burst_count_t'(in_bursts),
      address: address
  };

  logic   aligned_valid, decode_ready, decoded, bad;
  burst_t aligned;
  row_index_t bad_row;

  nkv_burst_align u_align (
    .clk_i,
    .rst_ni,
    .start_i     (request_valid_o),
    .offset_i    (address[5:2]),
    .in_bursts_i (in_bursts),
    .out_bursts_i(out_bursts),
    .in_valid_i  (beat_valid_i),
    .in_ready_o  (beat_ready_o),
    .in_i        (beat_i.data),
    .out_valid_o (aligned_valid),
    .out_ready_i (of_weights || decode_ready),
    .out_o       (aligned)
  );

  nkv_query_decode u_decode (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .dtype_i      (query_dtype_i),
    .group_i      (group_t'(group_i)),
    .head_dim_i   (dim_t'(head_dim_i)),
    .burst_valid_i(aligned_valid && !of_weights),
    .burst_ready_o(decode_ready),
    .burst_i      (aligned),
    .done_o       (decoded),
    .bad_o        (bad),
    .bad_row_o    (bad_row),
    .exponent_o   (query_exponent_o),
    .query_valid_o,
    .query_row_o,
    .query_word_o,
    .query_o
  );

  // ---- Weights: one burst, whose first that is not finite decides ----
  wire weights_come = aligned_valid && of_weights;
  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < Rows; r++) if (weights_come) weight_o[r] <= aligned[32*r+:32];
  end
  logic       bad_weight;
  row_index_t bad_weight_row;
  always_comb begin
    bad_weight = 1'b0;
    bad_weight_row = '0;
    for (int r = int'(Rows) - 1; r >= 0; r--) begin
      if (group_t'(r) < group_t'(group_i) && aligned[32*r+23+:8] == '1) begin
        bad_weight = 1'b1;
        bad_weight_row = row_index_t'(r);
      end
    end
  end

  assign load_o = start_i;
  assign listed_o = state_q != StIdle && loaded_i && !poisoned_i;
  assign list_o = '{
      address: page_list_i,
      entries: (PageIndexBits + 1)'((tokens_i + 32'(PageTokens) - 32'd1) >> $clog2(PageTokens))
  };

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      poison_q <= 1'b0;
      done_o <= 1'b0;
      verdict_o <= VerdictOk;
    end else if (clear_i) begin
      state_q <= StIdle;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      if (beat_valid_i && beat_ready_o && beat_i.poison) poison_q <= 1'b1;
      unique case (state_q)
        StIdle: begin
          poison_q <= 1'b0;
          verdict_o <= VerdictOk;
          if (start_i) state_q <= StAsk;
        end
        StAsk: if (request_ready_i) state_q <= StQuery;
        StQuery: begin
          if (decoded) begin
            state_q <= StLoading;
            if (bad) verdict_o <= '{status: StatusBadQuery, detail: 64'(bad_row)};
            if (poison_q) verdict_o <= '{status: StatusPoison, detail: '0};
          end
        end
        // A command ends only when all that it asked for has come.
        StLoading: begin
          if (loaded_i && verdict_o.status != StatusOk) begin
            state_q <= StIdle;
            done_o <= 1'b1;
          end else if (loaded_i) begin
            state_q <= weighted_i && !poisoned_i ? StAskWeights : StIdle;
            done_o <= !weighted_i || poisoned_i;
            if (poisoned_i) verdict_o <= '{status: StatusPoison, detail: '0};
          end
        end
        StAskWeights: if (request_ready_i) state_q <= StWeights;
        StWeights: begin
          if (weights_come) begin
            state_q <= StIdle;
            done_o <= 1'b1;
            if (poison_q || beat_i.poison) verdict_o <= '{status: StatusPoison, detail: '0};
            else if (bad_weight) verdict_o <= '{status: StatusBadQuery, detail: 64'(bad_weight_row)};
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end

  wire unused_beat = ^{beat_i.fault, beat_i.first, beat_i.last, beat_i.tag};

  `NKV_ASSERT_STAYS(RequestStays_A, request_valid_o, request_ready_i, request_o, clear_i || start_i)

endmodule
