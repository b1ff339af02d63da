// One row's part of a tail (ARITHMETIC.md 7.2 and 7.3): its line table, and the weights of four
// midpoints a cycle against its reference, added up.
//
// The sum of a quad's weights stands 11 cycles after it, for one cycle.

module nkv_tail_row
  import nkv_pkg::*;
  import nkv_attend_pkg::*;
  import nkv_tail_pkg::*;
  import nkv_scan_pkg::midpoint_t;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        write_i,                 // Of a line.
  input  segment_t    segment_i,
  input  line_t       line_i,

  input  logic        valid_i,
  input  midpoint_t   midpoint_i[TailTokens],
  input  logic [TailTokens-1:0] counts_i,      // Tokens whose weights count.
  input  logic        set_reference_i,         // Instead: the larger L >> 16 of the first two is it.

  output reference_t  reference_o,             // M_t
  output logit_t      logit_o[TailTokens],     // L, 5 cycles after its quad.
  output rest_units_t units_o                  // Of the four tokens.
);

  localparam int unsigned LineLatency = TailLineLatency;
  localparam int unsigned WeightLatency = 5;

  // ---- Lines ----
  logic [LineLatency-1:0] valid_q;  // [i]: i + 1 cycles after a quad came.
  logit_t     logit_q[TailTokens];
  reference_t reference_q;

  for (genvar t = 0; t < int'(TailTokens); t++) begin : g_token
    (* ram_style = "block" *) line_t lines[Segments];
    segment_t             segment_q;
    logic [PlaceBits-1:0] place_q[3];
    line_t                read_q, line_q;
    logit_t               start_q;
    logic signed [RiseBits+PlaceBits:0] product_q;

    always_ff @(posedge clk_i) begin
      if (write_i) lines[segment_i] <= line_i;
      if (valid_i) begin
        // mid + 32,768
        segment_q <= {!midpoint_i[t][15], midpoint_i[t][14:PlaceBits]};
        place_q[0] <= midpoint_i[t][PlaceBits-1:0];
      end
      if (valid_q[0]) begin
        read_q <= lines[segment_q];
        place_q[1] <= place_q[0];
      end
      if (valid_q[1]) begin
        line_q <= read_q;
        place_q[2] <= place_q[1];
      end
      if (valid_q[2]) begin
        product_q <= line_q.rise * signed'({1'b0, place_q[2]});
        start_q <= line_q.start;
      end
      if (valid_q[3]) logit_q[t] <= start_q + (logit_t'(product_q) >>> PlaceBits);
    end
  end

  // ---- Weights ----
  logic [TailTokens-1:0] counts;
  logic                  sets_reference;
  nkv_delay #(
    .Width (TailTokens + 1),
    .Cycles(LineLatency)
  ) u_counts (
    .clk_i,
    .data_i({set_reference_i, counts_i}),
    .data_o({sets_reference, counts})
  );

  logic [TailTokens-1:0] weight_valid;
  units_t                units[TailTokens];

  for (genvar t = 0; t < int'(TailTokens); t++) begin : g_weight
    logic    unused_tag;
    weight_t unused_weight;
    shift_t  unused_shift;
    nkv_weight #(
      .TagBits(1),
      .Plain  (1'b1)
    ) u_weight (
      .clk_i,
      .rst_ni,
      .bounded_i  (1'b0),
      .valid_i    (valid_q[LineLatency-1] && counts[t]),
      .tag_i      (1'b0),
      .logit_i    (logit_q[t]),
      .reference_i(reference_q),
      .given_i    (1'b0),
      .given_weight_i('0),
      .others_i   (1'b0),
      .halvings_i ('0),
      .valid_o    (weight_valid[t]),
      .tag_o      (unused_tag),
      .weight_o   (unused_weight),
      .shift_o    (unused_shift),
      .units_o    (units[t])
    );
  end

  // ---- Sums ----
  logic [WeightLatency-1:0] weighted_q;
  logic [UnitBits:0] pair_q[2];

  function automatic logic [UnitBits-1:0] counted(logic valid, units_t value);
    return valid ? value : '0;
  endfunction

  always_ff @(posedge clk_i) begin
    automatic reference_t first = reference_t'(logit_q[0] >>> nkv_abi_pkg::LogitFractionBits);
    automatic reference_t second = reference_t'(logit_q[1] >>> nkv_abi_pkg::LogitFractionBits);
    if (valid_q[LineLatency-1] && sets_reference) begin
      reference_q <= first > second ? first : second;
    end
    if (weighted_q[WeightLatency-1]) begin
      for (int unsigned i = 0; i < 2; i++) begin
        pair_q[i] <= (UnitBits + 1)'(counted(weight_valid[2*i], units[2*i])) +
                     (UnitBits + 1)'(counted(weight_valid[2*i+1], units[2*i+1]));
      end
    end
  end
  assign units_o = rest_units_t'(pair_q[0]) + rest_units_t'(pair_q[1]);
  assign reference_o = reference_q;
  assign logit_o = logit_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      weighted_q <= '0;
    end else begin
      valid_q <= {valid_q[LineLatency-2:0], valid_i};
      weighted_q <= {weighted_q[WeightLatency-2:0], valid_q[LineLatency-1]};
    end
  end

endmodule
