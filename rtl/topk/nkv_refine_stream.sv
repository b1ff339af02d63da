// Asks for what sharpens midpoints (ARITHMETIC.md 5.2 and 5.4): of each page with tokens alive the
// granules of one plane that hold such a token, neighbours in one read. Pages were accepted when they
// were scanned; a burst that comes with poison is told of.

module nkv_refine_stream
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,          // Before each command.
  input  logic          start_i,          // Before each plane.

  input  logic [15:0]   head_dim_i,       // Held, as the plane: 1 to KeyPlanes.
  input  planes_t       plane_i,

  input  logic          page_valid_i,     // With tokens alive.
  output logic          page_ready_o,
  input  visit_t        page_i,
  input  page_entry_t   entry_i,          // Of the page, a cycle after it came.

  output logic          record_valid_o,   // To nkv_scan.
  input  logic          record_ready_i,
  output scan_page_t    record_o,

  output logic          request_valid_o,
  input  logic          request_ready_i,
  output read_request_t request_o,
  input  logic          beat_taken_i,
  input  read_beat_t    beat_i,
  output logic [31:0]   bursts_o,         // Since start_i; with digests, which nkv_scan does without.
  output logic          poisoned_o,       // Since clear_i; the first page in list order.
  output page_index_t   poisoned_page_o,
  output logic          idle_o            // All that was asked for has come.
);

  localparam int unsigned TokenBits = $clog2(PageTokens);

  typedef enum logic [1:0] {
    StPage,
    StLookUp,
    StRecord,
    StGranules
  } state_e;

  state_e      state_q;
  visit_t      visit_q;
  logic [63:0] address_q;
  token_mask_t asked_q;   // Tokens of granules that are done with.
  wire [2:0]   log2 = granule_log2(head_dim_i);
  wire burst_count_t digest_bursts = bursts_of(32'(head_dim_i) * 32'd2);
  wire [31:0]  plane_bytes = 32'(head_dim_i) * 32'(PageTokens / 8);

  // ---- The next run of granules that are wanted, in quads of tokens, the smallest granule ----
  localparam int unsigned QuadTokens = 4;
  localparam int unsigned Quads = PageTokens / QuadTokens;
  typedef logic [Quads-1:0] quad_mask_t;
  wire token_mask_t left = visit_q.tokens & ~asked_q;
  quad_mask_t wanted;
  always_comb begin
    for (int unsigned i = 0; i < Quads; i++) wanted[i] = left[QuadTokens*i+:QuadTokens] != '0;
    // A granule is wanted as a whole.
    for (int unsigned size = 1; size <= 4; size *= 2) begin
      if (32'(log2) > 2 + $clog2(size)) begin
        for (int unsigned i = 0; i < Quads; i += 2 * size) begin
          for (int unsigned j = 0; j < size; j++) begin
            wanted[i+j] |= wanted[i+size+j];
            wanted[i+size+j] = wanted[i+j];
          end
        end
      end
    end
  end
  wire quad_mask_t run = wanted & ~(wanted + (wanted & (~wanted + 1'b1)));
  wire [4:0] run_granules = 5'($countones(run)) >> (log2 - 3'd2);
  logic [TokenBits-1:0] first;
  token_mask_t run_tokens;
  always_comb begin
    first = '0;
    for (int i = int'(Quads) - 1; i >= 0; i--) if (run[i]) first = TokenBits'(QuadTokens * i);
    for (int unsigned i = 0; i < PageTokens; i++) run_tokens[i] = run[i/QuadTokens];
  end
  wire last_run = run == wanted;

  wire step = request_valid_o && request_ready_i;
  wire [63:0] plane_at = address_q + 64'(PageHeaderBytes) + 64'({digest_bursts, 6'b0}) +
      64'(plane_bytes) * (64'(plane_i) - 64'd1);

  assign page_ready_o = state_q == StLookUp;
  assign record_valid_o = state_q == StRecord;
  assign record_o = '{
      page: page_t'(visit_q.page),
      tokens: visit_q.tokens,
      step_exponent: '0,
      first: 1'b0
  };
  assign request_valid_o = state_q == StGranules;
  assign request_o = '{
      tag: '{
          sink: SinkArray,
          array: 4'(PageArrayKPlane0) + 4'(plane_i) - 4'd1,
          whole: 1'b0,
          page: visit_q.page,
          page_last: last_run,
          keys_too: 1'b0,
          token: first,
          last_bytes: 7'(BurstBytes)
      },
      bursts: burst_count_t'(run_granules) * burst_count_t'(granule_bursts(head_dim_i)),
      address: plane_at + 64'((32'(first) * 32'(head_dim_i)) >> 3)
  };

  // ---- Bursts that have been asked for and have not come, and poison ----
  logic [11:0] reads_due_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      reads_due_q <= '0;
      poisoned_o <= 1'b0;
      poisoned_page_o <= '0;
    end else if (clear_i) begin
      reads_due_q <= '0;
      poisoned_o <= 1'b0;
    end else begin
      reads_due_q <= reads_due_q + 12'(step) - 12'(beat_taken_i && beat_i.last);
      if (beat_taken_i && beat_i.poison && (!poisoned_o || beat_i.tag.page < poisoned_page_o)) begin
        poisoned_o <= 1'b1;
        poisoned_page_o <= beat_i.tag.page;
      end
    end
  end
  assign idle_o = state_q == StPage && reads_due_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StPage;
      visit_q <= '0;
      address_q <= '0;
      asked_q <= '0;
      bursts_o <= '0;
    end else if (clear_i || start_i) begin
      state_q <= StPage;
      asked_q <= '0;
      bursts_o <= '0;
    end else begin
      if (step) bursts_o <= bursts_o + 32'(request_o.bursts);
      unique case (state_q)
        StPage: begin
          visit_q <= page_i;
          if (page_valid_i) state_q <= StLookUp;
        end
        StLookUp: begin
          address_q <= 64'(entry_i.page) * 64'(PageGrainBytes);
          bursts_o <= bursts_o + 32'(digest_bursts);
          state_q <= StRecord;
        end
        StRecord: if (record_ready_i) state_q <= StGranules;
        StGranules: begin
          if (step) asked_q <= last_run ? '0 : asked_q | run_tokens;
          if (step && last_run) state_q <= StPage;
        end
        default: state_q <= StPage;
      endcase
    end
  end

  wire unused = ^{entry_i, beat_i, visit_q.sums};

endmodule
