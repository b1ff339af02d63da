// Builds the line tables of a tail (ARITHMETIC.md 7.2): has the logits of 257 midpoints of each row
// made, two rows at a time, and turns neighbours into lines. 1,028 cycles and the logits' latency.

module nkv_tail_table
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
#(
  parameter int unsigned Units = 2,           // Rows at a time.
  localparam int unsigned PhaseBits = $clog2(Rows / Units)
) (
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       clear_i,

  input  logic       start_i,
  input  nkv_scan_pkg::constant_t reference_i[Rows],  // ref and X (5.1); held until done_o,
  input  nkv_scan_pkg::shift_t    shift_i[Rows],
  output logic       done_o,                  // and stays high.

  // Scores of rows phase * Units + 0, 1, ..., and their logits, in order.
  output logic       score_valid_o,
  output logic [PhaseBits-1:0] score_phase_o,
  output score_t     score_o[Units],
  input  logic       logit_valid_i,
  input  logic [PhaseBits-1:0] logit_phase_i,
  input  logit_t     logit_i[Units],

  output logic       write_o[Rows],
  output segment_t   segment_o,
  output line_t      line_o[Units]
);

  localparam rise_t RiseLimit = {1'b0, {(RiseBits - 1) {1'b1}}};
  localparam int unsigned UnitsBits = 34;  // Of a midpoint in weight units.
  typedef logic signed [UnitsBits-1:0] units_of_score_t;

  // ---- Scores of the ends of segments ----
  logic busy_q;
  logic [PhaseBits-1:0] phase_q;
  logic [SegmentBits:0] end_q;
  wire last_end = end_q == (SegmentBits + 1)'(Segments);

  // ((256 end - 32,768) << X) + ref, times 2^32 within the range of S.
  function automatic score_t score_at(logic [SegmentBits:0] segment_end,
                                      nkv_scan_pkg::constant_t reference,
                                      nkv_scan_pkg::shift_t shift);
    automatic units_of_score_t midpoint =
        units_of_score_t'({segment_end, PlaceBits'(0)}) - units_of_score_t'(17'sh8000);
    automatic units_of_score_t units = (midpoint <<< shift) + units_of_score_t'(reference);
    automatic logic fits = units[UnitsBits-1:ScoreBits-PlaneWeightShift-1] inside {'0, '1};
    if (!fits) begin
      return units[UnitsBits-1] ? {1'b1, {(ScoreBits - 2) {1'b0}}, 1'b1}
                                : {1'b0, {(ScoreBits - 1) {1'b1}}};
    end
    return {units[ScoreBits-PlaneWeightShift-1:0], PlaneWeightShift'(0)};
  endfunction

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      phase_q <= '0;
      end_q <= '0;
      score_valid_o <= 1'b0;
    end else if (clear_i) begin
      busy_q <= 1'b0;
      phase_q <= '0;
      end_q <= '0;
      score_valid_o <= 1'b0;
    end else begin
      score_valid_o <= busy_q;
      if (start_i) busy_q <= 1'b1;
      if (busy_q) begin
        end_q <= last_end ? '0 : end_q + 1'b1;
        if (last_end) begin
          phase_q <= phase_q + 1'b1;
          if (phase_q == '1) busy_q <= 1'b0;
        end
      end
    end
  end
  always_ff @(posedge clk_i) begin
    if (busy_q) begin
      score_phase_o <= phase_q;
      for (int unsigned u = 0; u < Units; u++) begin
        score_o[u] <= score_at(end_q, reference_i[{phase_q, 1'(u)}], shift_i[{phase_q, 1'(u)}]);
      end
    end
  end

  // ---- Logits to lines: each closes the line of the one before it ----
  logic [SegmentBits:0] came_q;
  logit_t before_q[Units];
  wire last_came = came_q == (SegmentBits + 1)'(Segments);

  function automatic rise_t rise_of(logit_t from, logit_t to);
    automatic logic signed [LogitBits:0] rise = (LogitBits + 1)'(to) - (LogitBits + 1)'(from);
    automatic logic fits = rise[LogitBits:RiseBits-1] inside {'0, '1};
    if (!fits) return rise[LogitBits] ? -RiseLimit : RiseLimit;
    return rise[RiseBits-1:0] == {1'b1, {(RiseBits - 1) {1'b0}}} ? -RiseLimit : rise[RiseBits-1:0];
  endfunction

  logic closes_q;
  logic [PhaseBits-1:0] row_phase_q;
  always_ff @(posedge clk_i) begin
    if (logit_valid_i) begin
      before_q <= logit_i;
      segment_o <= segment_t'(came_q - 1'b1);
      row_phase_q <= logit_phase_i;
      for (int unsigned u = 0; u < Units; u++) begin
        line_o[u] <= '{start: before_q[u], rise: rise_of(before_q[u], logit_i[u])};
      end
    end
  end
  for (genvar r = 0; r < int'(Rows); r++) begin : g_write
    assign write_o[r] = closes_q && row_phase_q == PhaseBits'(r / Units);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      came_q <= '0;
      closes_q <= 1'b0;
      done_o <= 1'b0;
    end else if (clear_i) begin
      came_q <= '0;
      closes_q <= 1'b0;
      done_o <= 1'b0;
    end else begin
      closes_q <= logit_valid_i && came_q != '0;
      if (logit_valid_i) came_q <= last_came ? '0 : came_q + 1'b1;
      if (logit_valid_i && last_came && logit_phase_i == '1) done_o <= 1'b1;
    end
  end

endmodule
