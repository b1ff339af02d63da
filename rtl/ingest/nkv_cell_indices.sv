// In which cells keys lie: idx of ARITHMETIC.md section 2.1. ExactLanes channels per cycle, 5 cycles
// later at the output. Channels with finer cells than the page allows, or none, have the finest ones
// allowed instead. No key's exponent may be above its step's.

module nkv_cell_indices
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,             // Forgets the words under way.

  input  step_t       finest_i,            // Held while words are under way.

  input  logic        valid_i,
  input  key_number_t key_i[ExactLanes],
  input  cells_t      cells_i[ExactLanes],

  output logic        valid_o,
  output cell_index_t index_o[ExactLanes]
);

  localparam int unsigned Latency = 5;

  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after valid_i.
  logic [ExactLanes-1:0] negative_q[Latency-1];
  key_number_t key_q[ExactLanes];
  step_t step_q[ExactLanes];
  multiplier_t multiplier_q[ExactLanes];
  multiplier_t late_multiplier_q[ExactLanes];
  magnitude_t magnitude_q[ExactLanes];
  logic [3:0] distance_q[ExactLanes];
  magnitude_t shifted_q[ExactLanes];
  reciprocal_t reciprocal_q[ExactLanes];
  quotient_t quotient_q[ExactLanes];

  // From 15 on nothing is left. Only a zero, of which nothing is, may lie above its step.
  function automatic logic [3:0] distance_of(step_t step, exponent_t own);
    step_t difference = step - step_t'({2'd0, own});
    return difference[StepBits-1:4] != '0 ? '1 : difference[3:0];
  endfunction

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        automatic logic is_fine = !cells_i[i].exists || cells_i[i].step < finest_i;
        step_q[i] <= is_fine ? finest_i : cells_i[i].step;
        multiplier_q[i] <= is_fine ? '0 : cells_i[i].multiplier;
        key_q[i] <= key_i[i];
        negative_q[0][i] <= key_i[i].negative;
      end
    end
    for (int unsigned k = 1; k < Latency - 1; k++) begin
      if (valid_q[k-1]) negative_q[k] <= negative_q[k-1];
    end
    if (valid_q[0]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        magnitude_q[i] <= magnitude_of(key_q[i]);
        distance_q[i] <= distance_of(step_q[i], key_q[i].exponent);
        late_multiplier_q[i] <= multiplier_q[i];
      end
    end
    if (valid_q[1]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        shifted_q[i] <= magnitude_q[i] >> distance_q[i];
        reciprocal_q[i] <= reciprocal_of(late_multiplier_q[i]);
      end
    end
    if (valid_q[2]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        quotient_q[i] <= quotient_t'(shifted_q[i]) * quotient_t'(reciprocal_q[i]);
      end
    end
    if (valid_q[3]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        index_o[i] <= index_of(negative_q[3][i], quotient_q[i]);
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], valid_i};
  end

  assign valid_o = valid_q[Latency-1];

endmodule
