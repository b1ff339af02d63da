// The frozen thresholds (ARITHMETIC.md, section 6, step 2): tau16 of every row from the score of
// its top_k-th best seed, in the units of stored midpoints. A row per cycle, 11 cycles in all.

module nkv_tau
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,
  input  logic      start_i,
  output logic      busy_o,
  input  logic      known_i[Rows],  // Else there are fewer seeds than top_k
  input  score_t    score_i[Rows],
  input  constant_t reference_i[Rows],
  input  shift_t    shift_i[Rows],
  output midpoint_t tau_o[Rows]
);

  localparam offset_t Limit = 30'sd32767;

  logic running_q, valid_1, valid_2;
  row_t row_q, row_1, row_2;
  logic known_1, known_2;
  logic signed [27:0] units;
  offset_t above_1, shifted_2;
  score_t score;
  assign score = score_i[row_q];
  assign units = score[59:32];
  assign busy_o = running_q || valid_1 || valid_2;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      running_q <= 1'b0;
      valid_1 <= 1'b0;
      valid_2 <= 1'b0;
      row_q <= '0;
    end else begin
      valid_1 <= running_q;
      valid_2 <= valid_1;
      if (start_i) begin
        running_q <= 1'b1;
        row_q <= '0;
      end else if (running_q) begin
        row_q <= row_q + 1'b1;
        if (row_q == '1) running_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (running_q) begin
      row_1 <= row_q;
      known_1 <= known_i[row_q];
      above_1 <= offset_t'(units) - offset_t'(reference_i[row_q]);
    end
    if (valid_1) begin
      row_2 <= row_1;
      known_2 <= known_1;
      shifted_2 <= above_1 >>> shift_i[row_1];
    end
    if (valid_2) begin
      tau_o[row_2] <= !known_2 || shifted_2 < -Limit ? 16'sh8001 :
                      shifted_2 > Limit ? 16'sh7fff : shifted_2[15:0];
    end
  end

  // verilator lint_off UNUSEDSIGNAL
  wire unused = &{1'b0, score[31:0]};
  // verilator lint_on UNUSEDSIGNAL

endmodule
