// Asks for what sharpens midpoints (ARITHMETIC.md 5.2 and 5.4): of each page with tokens alive the
// granules of one plane that hold such a token, neighbours in one read. Pages were accepted when they
// were scanned; a burst that comes with poison is told of.
//
// Of pages whose weights were not kept digests are read, each ahead of the granules of two pages before it.

module nkv_refine_stream
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          clear_i,          // Before each command.
  input  logic          start_i,          // Before each plane.

  input  logic [15:0]   head_dim_i,       // Held, as the plane: 1 to KeyPlanes.
  input  planes_t       plane_i,

  input  logic          page_valid_i,     // With tokens alive.
  output logic          page_ready_o,
  input  visit_t        page_i,
  input  logic signed [15:0] step_exponent_i,  // Of its digest.
  input  page_entry_t   entry_i,          // Of the page, a cycle after it came.
  input  logic          pages_end_i,      // No more will come.

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

  localparam int unsigned QuadTokens = 4;  // The smallest granule's.
  localparam int unsigned Quads = PageQuads;
  typedef logic [Quads-1:0] quad_mask_t;
  typedef logic [QuadBits:0] quad_count_t;

  typedef enum logic [2:0] {
    StPage,
    StLookUp,
    StRecord,
    StDigest,
    StDue,       // A page whose digest was asked for
    StWanted,    // is taken up again.
    StGranules
  } state_e;

  state_e state_q;
  visit_t visit_q;
  logic signed [15:0] step_exponent_q;
  logic granules_valid_q;
  wire step = request_valid_o && request_ready_i;
  wire kept = stays(page_t'(visit_q.page), KeptPages);

  // ---- What holds for a plane; its pages come some cycles after head_dim_i and plane_i ----
  wire [3:0] blocks = 4'(head_dim_i >> 4);
  wire [10:0] plane_bytes = 11'(head_dim_i) << $clog2(PageTokens / 8);
  wire [1:0] planes_before = 2'(plane_i - 3'd1);
  logic [2:0]  log2_q;
  logic [3:0]  digest_bursts_q;
  logic [12:0] before_q, first_plane_q, plane_q;
  always_ff @(posedge clk_i) begin
    log2_q <= granule_log2(head_dim_i);
    digest_bursts_q <= 4'(bursts_of(32'(head_dim_i) * 32'd2));
    first_plane_q <= 13'(PageHeaderBytes) + 13'({digest_bursts_q, 6'b0});
    before_q <= (planes_before[0] ? 13'(plane_bytes) : '0) +
                (planes_before[1] ? 13'(plane_bytes) << 1 : '0);
    plane_q <= first_plane_q + before_q;
  end

  // ---- Granules that are wanted, in quads ----
  quad_mask_t wanted;
  always_comb begin
    for (int unsigned i = 0; i < Quads; i++) wanted[i] = visit_q.tokens[QuadTokens*i+:QuadTokens] != '0;
    // A granule is wanted as a whole.
    for (int unsigned size = 1; size <= 4; size *= 2) begin
      if (32'(log2_q) > 2 + $clog2(size)) begin
        for (int unsigned i = 0; i < Quads; i += 2 * size) begin
          for (int unsigned j = 0; j < size; j++) begin
            wanted[i+j] |= wanted[i+size+j];
            wanted[i+size+j] = wanted[i+j];
          end
        end
      end
    end
  end

  // ---- 1: the first run of those left. 2, 3: where it begins, and its quads. 4: in bursts. 5: the request ----
  wire moves = !granules_valid_q || request_ready_i;
  quad_mask_t left_q, after_run, falls;
  assign falls = {left_q[Quads-2:0], 1'b0} & ~left_q;
  always_comb begin
    for (int unsigned i = 0; i < Quads; i++) after_run[i] = left_q[i] && (falls << (Quads - 1 - i)) != '0;
  end

  logic [4:1]          valid_q, last_q;
  quad_mask_t          run_1, begins_1;
  logic [QuadBits-1:0] first_2, first_3, first_4, first_of_run;
  logic [2:0]          quads_2[Quads/4];  // In pieces.
  quad_count_t         quads_3;
  logic [QuadBits-1:0] burst_4;
  quad_count_t         bursts_4;
  logic [63:0]         digest_at_q, plane_at_q, address_q;
  logic                last_request_q;
  logic [QuadBits-1:0] first_q;
  quad_count_t         bursts_q;
  assign begins_1 = run_1 & ~{run_1[Quads-2:0], 1'b0};
  always_comb begin
    first_of_run = '0;
    for (int unsigned i = 0; i < Quads; i++) if (begins_1[i]) first_of_run |= QuadBits'(i);
  end
  // Quads in bursts: 64 head_dim / 16 bits each.
  function automatic quad_count_t bursts_of_quads(quad_count_t quads, logic [3:0] blocks_of);
    return quad_count_t'((8'(quads) * 8'(blocks_of)) >> 3);
  endfunction

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      granules_valid_q <= 1'b0;
    end else if (clear_i || start_i) begin
      valid_q <= '0;
      granules_valid_q <= 1'b0;
    end else if (moves) begin
      valid_q <= {valid_q[3:1], left_q != '0};
      granules_valid_q <= valid_q[4];
    end
  end

  logic [63:0] due_at;  // Of the page whose granules are due.
  always_ff @(posedge clk_i) begin
    if (state_q == StLookUp) plane_at_q <= 64'(entry_i.page) * 64'(PageGrainBytes);
    if (state_q == StRecord && record_ready_i) begin
      digest_at_q <= plane_at_q + 64'(PageHeaderBytes);
      plane_at_q <= plane_at_q + 64'(plane_q);
    end
    if (state_q == StDue) plane_at_q <= due_at;
    if (moves) begin
      if (left_q != '0) begin
        run_1 <= left_q & ~after_run;
        last_q[1] <= after_run == '0;
      end
      if (valid_q[1]) begin
        first_2 <= first_of_run;
        for (int unsigned i = 0; i < Quads / 4; i++) quads_2[i] <= 3'($countones(run_1[4*i+:4]));
        last_q[2] <= last_q[1];
      end
      if (valid_q[2]) begin
        first_3 <= first_2;
        quads_3 <= (5'(quads_2[0]) + 5'(quads_2[1])) + (5'(quads_2[2]) + 5'(quads_2[3]));
        last_q[3] <= last_q[2];
      end
      if (valid_q[3]) begin
        first_4 <= first_3;
        burst_4 <= QuadBits'(bursts_of_quads(quad_count_t'(first_3), blocks));
        bursts_4 <= bursts_of_quads(quads_3, blocks);
        last_q[4] <= last_q[3];
      end
      if (valid_q[4]) begin
        address_q <= plane_at_q + 64'({burst_4, 6'b0});
        bursts_q <= bursts_4;
        first_q <= first_4;
        last_request_q <= last_q[4];
      end
    end
  end

  // ---- Pages whose granules are due once digests of two more were asked for ----
  localparam int unsigned DigestsAhead = 2;
  logic        due_valid, unused_due_ready;
  logic [2:0]  due_used;
  visit_t      due;
  wire asks_digest = state_q == StDigest;
  wire digest_asked = asks_digest && request_ready_i;

  nkv_fifo #(
    .T(logic [$bits(visit_t)+63:0]),
    .Depth(4)
  ) u_due (
    .clk_i,
    .rst_ni,
    .clear_i    (clear_i || start_i),
    .in_valid_i (digest_asked),
    .in_ready_o (unused_due_ready),
    .in_data_i  ({visit_q, plane_at_q}),
    .out_valid_o(due_valid),
    .out_ready_i(state_q == StDue),
    .out_data_o ({due, due_at}),
    .used_o     (due_used)
  );

  assign page_ready_o = state_q == StLookUp;
  assign record_valid_o = state_q == StRecord;
  assign record_o = '{
      page: page_t'(visit_q.page),
      tokens: visit_q.tokens,
      step_exponent: step_exponent_q,
      first: 1'b0
  };
  assign request_valid_o = granules_valid_q || asks_digest;
  assign request_o = '{
      tag: '{
          sink: SinkArray,
          array: asks_digest ? 4'(PageArrayKDigest) : 4'(PageArrayKPlane0) + 4'(plane_i) - 4'd1,
          whole: 1'b0,
          page: visit_q.page,
          page_last: last_request_q && !asks_digest,
          keys_too: 1'b0,
          token: {first_q, 2'b0},
          last_bytes: 7'(BurstBytes)
      },
      bursts: asks_digest ? burst_count_t'(digest_bursts_q) : burst_count_t'(bursts_q),
      address: asks_digest ? digest_at_q : address_q
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
  assign idle_o = state_q == StPage && !due_valid && reads_due_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StPage;
      visit_q <= '0;
      step_exponent_q <= '0;
      left_q <= '0;
      bursts_o <= '0;
    end else if (clear_i || start_i) begin
      state_q <= StPage;
      left_q <= '0;
      bursts_o <= '0;
    end else begin
      if (step && !asks_digest) bursts_o <= bursts_o + 32'(bursts_q);
      if (moves && left_q != '0) left_q <= after_run;
      unique case (state_q)
        StPage: begin
          visit_q <= page_i;
          step_exponent_q <= step_exponent_i;
          if (page_valid_i) state_q <= StLookUp;
          else if (pages_end_i && due_valid) state_q <= StDue;
        end
        StLookUp: begin
          bursts_o <= bursts_o + 32'(digest_bursts_q);
          state_q <= StRecord;
        end
        StRecord: begin
          if (record_ready_i) begin
            if (kept) left_q <= wanted;
            state_q <= kept ? StGranules : StDigest;
          end
        end
        StDigest: begin
          if (request_ready_i) state_q <= due_used == 3'(DigestsAhead) ? StDue : StPage;
        end
        StDue: begin
          visit_q <= due;
          state_q <= StWanted;
        end
        StWanted: begin
          left_q <= wanted;
          state_q <= StGranules;
        end
        StGranules: if (step && last_request_q) state_q <= StPage;
        default: state_q <= StPage;
      endcase
    end
  end

  wire unused = ^{entry_i, beat_i, visit_q.sums};

endmodule
