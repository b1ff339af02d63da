// What the tokens of a page that are not read weigh together (ARITHMETIC.md 7.3), page after page:
// the logits of their midpoints by line tables, their weights, sums, and those as one token's.
//
// First the tables are built, once midpoints give a row its reference and X. Then 16 cycles a page,
// and 30 to its answer. Answers come in the order of the pages. Pages may also pass for their logits
// alone, which come out on their way.

module nkv_tail_rest
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_scan_pkg::midpoint_t;
  import nkv_scan_pkg::MidpointLimit;
  import nkv_scan_pkg::ScanTokens;
#(
  parameter int unsigned Units = 2,             // Rows whose logits are made together.
  localparam int unsigned PhaseBits = $clog2(Rows / Units),
  localparam int unsigned AnswerBits = $clog2(TailAnswers)
) (
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       clear_i,                   // Before each command.

  input  logic       start_i,                   // Midpoints have come: tables can be built.
  input  group_t     rows_i,                    // In use.
  input  nkv_scan_pkg::constant_t reference_i[Rows],
  input  nkv_scan_pkg::shift_t    shift_i[Rows],
  output logic       score_valid_o,             // For the tables.
  output logic [PhaseBits-1:0] score_phase_o,
  output score_t     score_o[Units],
  input  logic       logit_valid_i,
  input  logic [PhaseBits-1:0] logit_phase_i,
  input  logit_t     logit_i[Units],
  output logic       built_o,                   // Pages may come once all midpoints are stored.

  input  midpoint_t  highest_i[Rows],           // Of all midpoints that are not saturated.
  input  midpoint_t  lowest_i[Rows],

  input  logic       page_valid_i,
  output logic       page_ready_o,
  input  visit_t     page_i,                    // Its tokens that are not read; sums: an answer is wanted.
  input  logic       hold_i,                    // No further word is to be read.

  output logic       read_o,                    // A word of midpoints, two cycles after it is granted.
  input  logic       read_ready_i,
  output page_index_t read_page_o,
  output logic [1:0] read_word_o,
  input  midpoint_t  midpoint_i[Rows][ScanTokens],

  output tail_quad_t quad_o,
  output reference_t reference_o[Rows],         // M_t, from the first page on.

  output logic       rest_valid_o,
  input  logic       rest_ready_i,
  output rest_weight_t [Rows-1:0] rest_o,
  output logic [AnswerBits:0] rests_o           // Answers that are there.
);

  localparam int unsigned Latency = 11;         // Of nkv_tail_row.

  // ---- Tables ----
  logic     write[Rows];
  segment_t segment;
  line_t    line[Units];

  nkv_tail_table #(
    .Units(Units)
  ) u_table (
    .clk_i,
    .rst_ni,
    .clear_i,
    .start_i,
    .reference_i,
    .shift_i,
    .done_o       (built_o),
    .score_valid_o,
    .score_phase_o,
    .score_o,
    .logit_valid_i,
    .logit_phase_i,
    .logit_i,
    .write_o      (write),
    .segment_o    (segment),
    .line_o       (line)
  );

  // ---- Pages to words of midpoints, and words to quads ----
  localparam int unsigned WordQuads = ScanTokens / TailTokens;
  localparam int unsigned WordQuadBits = $clog2(WordQuads);
  logic        referenced_q;         // The rows have their M_t.
  logic [1:0]  flight_q;             // A word whose read was granted 1 or 2 cycles ago.
  logic        page_q;               // A page whose words are read.
  visit_t      reading_q;
  page_index_t flight_page_q, quad_page_q;
  logic        flight_sums_q, sums_q;  // The page's answer is wanted.
  logic [1:0]  word_q;
  logic [AnswerBits:0] credits_q;
  logic        quads_q;              // A word of which quads are left.
  midpoint_t   midpoint_q[Rows][ScanTokens];
  logic [ScanTokens-1:0] counts_q, flight_counts_q;
  logic        first_q, last_q, flight_first_q, flight_last_q;
  logic [WordQuadBits-1:0] quad_q;
  logic [1:0]  flight_word_q, quad_word_q;

  wire sets_reference = page_valid_i && built_o && !referenced_q;
  wire word_last = word_q == '1;
  wire granted = read_o && read_ready_i;
  // A word comes three cycles after its grant: when the one before it has gone.
  assign read_o = page_q && flight_q == '0 && (!quads_q || quad_q != '0) && !hold_i;
  assign read_page_o = reading_q.page;
  assign read_word_o = word_q;
  assign page_ready_o = referenced_q && !page_q && credits_q != '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      referenced_q <= 1'b0;
      flight_q <= '0;
      page_q <= 1'b0;
      word_q <= '0;
      quads_q <= 1'b0;
      quad_q <= '0;
      credits_q <= (AnswerBits + 1)'(TailAnswers);
    end else if (clear_i) begin
      referenced_q <= 1'b0;
      flight_q <= '0;
      page_q <= 1'b0;
      word_q <= '0;
      quads_q <= 1'b0;
      quad_q <= '0;
      credits_q <= (AnswerBits + 1)'(TailAnswers);
    end else begin
      if (sets_reference) referenced_q <= 1'b1;
      flight_q <= {flight_q[0], granted};
      if (page_valid_i && page_ready_o) page_q <= 1'b1;
      else if (granted && word_last) page_q <= 1'b0;
      if (granted) word_q <= word_q + 1'b1;
      if (quads_q) quad_q <= quad_q + 1'b1;
      if (flight_q[1]) quads_q <= 1'b1;
      else if (quad_q == '1) quads_q <= 1'b0;
      credits_q <= credits_q - (AnswerBits + 1)'(page_valid_i && page_ready_o && page_i.sums) +
          (AnswerBits + 1)'(rest_valid_o && rest_ready_i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (page_valid_i && page_ready_o) reading_q <= page_i;
    if (granted) begin
      flight_page_q <= reading_q.page;
      flight_sums_q <= reading_q.sums;
      flight_counts_q <= reading_q.tokens[{word_q, 4'b0}+:ScanTokens];
      flight_word_q <= word_q;
      flight_first_q <= word_q == '0;
      flight_last_q <= word_last;
    end
    if (flight_q[1]) begin
      midpoint_q <= midpoint_i;
      quad_page_q <= flight_page_q;
      sums_q <= flight_sums_q;
      counts_q <= flight_counts_q;
      quad_word_q <= flight_word_q;
      first_q <= flight_first_q;
      last_q <= flight_last_q;
    end
  end

  // ---- Rows ----
  midpoint_t   quad[Rows][TailTokens];
  rest_units_t units[Rows];
  reference_t  reference[Rows];
  logit_t      logit[Rows][TailTokens];
  wire quad_valid = quads_q || sets_reference;
  assign reference_o = reference;

  // A midpoint that is saturated in some row says nothing of its token.
  logic [TailTokens-1:0] saturated;
  wire  [TailTokens-1:0] came = counts_q[{quad_q, 2'b00}+:TailTokens];
  always_comb begin
    saturated = '0;
    for (int unsigned r = 0; r < Rows; r++) begin
      for (int unsigned t = 0; t < TailTokens; t++) begin
        if (group_t'(r) < rows_i && quad[r][t] inside {MidpointLimit, -MidpointLimit}) saturated[t] = 1'b1;
      end
    end
  end

  for (genvar r = 0; r < int'(Rows); r++) begin : g_row
    always_comb begin
      for (int unsigned t = 0; t < TailTokens; t++) begin
        quad[r][t] = midpoint_q[r][{quad_q, 2'(t)}];
      end
      if (sets_reference) begin
        quad[r][0] = highest_i[r];
        quad[r][1] = lowest_i[r];
      end
    end
    nkv_tail_row u_row (
      .clk_i,
      .rst_ni,
      .write_i        (write[r]),
      .segment_i      (segment),
      .line_i         (line[r%Units]),
      .valid_i        (quad_valid),
      .midpoint_i     (quad[r]),
      .counts_i       (came & ~saturated),
      .set_reference_i(sets_reference),
      .reference_o    (reference[r]),
      .logit_o        (logit[r]),
      .units_o        (units[r])
    );
  end

  // ---- Logits on their way ----
  tail_quad_t quad_side;
  wire tail_quad_t quad_now = '{
      valid: quads_q,
      last: last_q && quad_q == '1,
      page: quad_page_q,
      quad: {quad_word_q, quad_q},
      counts: came & ~saturated,
      saturated: came & saturated,
      logit: '0
  };
  localparam int unsigned QuadSideBits = $bits(tail_quad_t) - Rows * TailTokens * LogitBits;
  logic [QuadSideBits-1:0] quad_side_bits;
  nkv_delay #(
    .Width (QuadSideBits),
    .Cycles(TailLineLatency)
  ) u_quad (
    .clk_i,
    .data_i(quad_now[$bits(tail_quad_t)-1-:QuadSideBits]),
    .data_o(quad_side_bits)
  );
  always_comb begin
    quad_side = '0;
    quad_side[$bits(tail_quad_t)-1-:QuadSideBits] = quad_side_bits;
    for (int unsigned r = 0; r < Rows; r++) begin
      for (int unsigned t = 0; t < TailTokens; t++) quad_side.logit[r][t] = logit[r][t];
    end
  end
  assign quad_o = quad_side;

  // ---- Sums of a page ----
  typedef struct packed {
    logic valid;
    logic first;
    logic last;
  } side_t;
  side_t side;
  wire side_t side_now = '{
      valid: quads_q && sums_q,
      first: first_q && quad_q == '0,
      last: last_q && quad_q == '1
  };
  nkv_delay #(
    .Width ($bits(side_t)),
    .Cycles(Latency)
  ) u_side (
    .clk_i,
    .data_i(side_now),
    .data_o(side)
  );

  rest_units_t sum_q[Rows];
  logic        whole_q;              // The sums are a page's.
  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < Rows; r++) begin
      if (side.valid) sum_q[r] <= (side.first ? '0 : sum_q[r]) + units[r];
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) whole_q <= 1'b0;
    else whole_q <= side.valid && side.last && !clear_i;
  end

  // ---- Sums as one token's weight, a row a cycle ----
  rest_units_t whole_sum_q[Rows];
  row_index_t  row_q;
  logic        rows_left_q, answered_q;
  logic [TopLatency-1:0] topped_q;
  row_index_t  topped_row_q[TopLatency];
  logic [31:0] top;
  logic [6:0]  bits;
  rest_weight_t [Rows-1:0] rest_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      rows_left_q <= 1'b0;
      row_q <= '0;
      topped_q <= '0;
      answered_q <= 1'b0;
    end else if (clear_i) begin
      rows_left_q <= 1'b0;
      row_q <= '0;
      topped_q <= '0;
      answered_q <= 1'b0;
    end else begin
      if (whole_q) rows_left_q <= 1'b1;
      else if (row_q == '1) rows_left_q <= 1'b0;
      if (rows_left_q) row_q <= row_q + 1'b1;
      topped_q <= {topped_q[TopLatency-2:0], rows_left_q};
      answered_q <= topped_q[TopLatency-1] && topped_row_q[TopLatency-1] == '1;
    end
  end

  // M_t + bits(P) - 42, within what L >> 16 may be.
  function automatic reference_t whole_of(reference_t reference_of_row, logic [6:0] bits_of_sum);
    automatic logic signed [ReferenceBits:0] whole = (ReferenceBits + 1)'(reference_of_row) +
        signed'({1'b0, (ReferenceBits)'(bits_of_sum)}) - (ReferenceBits + 1)'(UnitBits);
    if (whole > -(ReferenceBits + 1)'(NoReference)) return -NoReference;
    if (whole < (ReferenceBits + 1)'(NoReference)) return NoReference;
    return reference_t'(whole);
  endfunction

  nkv_top_bits u_top (
    .clk_i,
    .rst_ni,
    .valid_i (rows_left_q),
    .number_i(64'(whole_sum_q[row_q])),
    .top_o   (top),
    .bits_o  (bits)
  );

  always_ff @(posedge clk_i) begin
    if (whole_q) whole_sum_q <= sum_q;
    topped_row_q[0] <= row_q;
    for (int unsigned i = 1; i < TopLatency; i++) topped_row_q[i] <= topped_row_q[i-1];
    if (topped_q[TopLatency-1]) begin
      automatic row_index_t row = topped_row_q[TopLatency-1];
      rest_q[row] <= bits == '0 || group_t'(row) >= rows_i ? NoRest : '{
          whole: whole_of(reference[row], bits),
          weight: top[31-:WeightBits]
      };
    end
  end

  // As many pages are begun as there is room for their answers.
  logic unused_answer_ready;
  nkv_fifo #(
    .T(rest_weight_t [Rows-1:0]),
    .Depth(TailAnswers)
  ) u_answers (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (answered_q),
    .in_ready_o (unused_answer_ready),
    .in_data_i  (rest_q),
    .out_valid_o(rest_valid_o),
    .out_ready_i(rest_ready_i),
    .out_data_o (rest_o),
    .used_o     (rests_o)
  );

  wire unused = ^{top[31-WeightBits:0], quad_now};

endmodule
