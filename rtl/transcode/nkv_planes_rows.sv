// The parts of a tensor to its rows: elements out of planes and pairs, their exponents subtracted from
// their channels' references. A word of 32 elements of a row per cycle; the other tensor's parts may come
// meanwhile.

module nkv_planes_rows
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::dim_t;
  import nkv_planes_pkg::*;
  import nkv_transcode_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,

  input  logic         part_values_i,  // Whose parts come.
  input  part_write_t  part_i,

  input  logic         start_i,        // A tensor whose parts have all come, while ready_o.
  output logic         ready_o,        // All rows have been written.
  input  logic         values_i,       // With start_i, as the others.
  input  logic         pairs_i,        // They stand for the low exponent bits.
  input  dtype_e       dtype_i,
  input  dim_t         dim_i,

  output plain_write_t write_o
);

  localparam int unsigned TokenBits = $clog2(PageTokens);
  localparam int unsigned WordBits = $clog2(Channels / ExactLanes);
  typedef logic [ElementBits-1:0] element_t;

  // ---- Words of a tensor, row after row ----
  logic   busy_q, reads_q;        // Rows are still written; words are still asked for.
  logic   values_q, pairs_q, is_wide_q;
  dtype_e dtype_q;
  dim_t   dim_q;
  element_format_t format_q;
  logic [TokenBits-1:0] token_q;
  logic [WordBits-1:0]  word_q;
  logic [7:0]           pair_row_q;  // Granule with which the token's pairs begin.
  wire [WordBits-1:0] last_word = WordBits'((dim_q - 1'b1) >> $clog2(ExactLanes));
  wire ends_row = word_q == last_word;
  wire dim_t granules = dim_q >> 4;
  assign ready_o = !busy_q;

  element_t   bits[ExactLanes];
  logic [7:0] pairs[ExactLanes];

  nkv_planes_turn u_turn (
    .clk_i,
    .write_i       (part_i.valid && part_i.part == PartPlanes),
    .write_values_i(part_values_i),
    .plane_i       (part_i.plane),
    .write_index_i (part_i.index[3:0]),
    .data_i        (part_i.data),
    .read_i        (reads_q),
    .read_values_i (values_q),
    .token_i       (token_q),
    .word_i        (word_q),
    .word_o        (bits)
  );

  nkv_planes_pairs u_pairs (
    .clk_i,
    .write_i       (part_i.valid && part_i.part == PartPairs),
    .write_values_i(part_values_i),
    .write_index_i (part_i.index),
    .data_i        (part_i.data),
    .read_i        (reads_q && pairs_q),
    .read_values_i (values_q),
    .granule_i     (pair_row_q + {5'd0, word_q, 1'b0}),
    .bytes_o       (pairs)
  );

  (* ram_style = "distributed" *) burst_t references[4];
  always_ff @(posedge clk_i) begin
    if (part_i.valid && part_i.part == PartReferences) begin
      references[{part_values_i, part_i.index[0]}] <= part_i.data;
    end
  end

  // ---- Two cycles later: elements as they were ----
  logic [1:0] there_q;                  // A word is, after so many cycles.
  logic [1:0] odd_q, ends_row_q;
  logic [WordBits-1:0] word_before_q;
  logic [7:0] reference_q[ExactLanes];
  wire element_t low_mask = element_t'(16'hf << format_q.mantissa_bits);
  wire element_t exponent_mask =
      element_t'((16'd1 << format_q.exponent_bits) - 16'd1) << format_q.mantissa_bits;

  always_ff @(posedge clk_i) begin
    if (reads_q) word_before_q <= word_q;
    if (there_q[0]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        reference_q[i] <= references[{values_q, word_before_q[1]}][256*word_before_q[0]+8*i+:8];
      end
    end
  end

  logic     word_valid_q, word_is_half_q;
  element_t element_q[ExactLanes];
  always_ff @(posedge clk_i) begin
    if (there_q[1]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        automatic logic [3:0] nibble = odd_q[1] ? pairs[i][7:4] : pairs[i][3:0];
        automatic element_t stored = pairs_q
            ? (bits[i] & ~low_mask) | (element_t'(nibble) << format_q.mantissa_bits) : bits[i];
        automatic element_t exponent = (element_t'(reference_q[i]) << format_q.mantissa_bits) -
            (stored & exponent_mask);
        element_q[i] <= (stored & ~exponent_mask) | (exponent & exponent_mask);
      end
      word_is_half_q <= ends_row_q[1] && dim_q[4];
    end
  end

  // ---- Words side by side ----
  logic   pack_valid;
  burst_t packed_burst;

  nkv_element_pack u_pack (
    .clk_i,
    .rst_ni,
    .clear_i  (clear_i || start_i),
    .valid_i  (word_valid_q),
    .is_wide_i(is_wide_q),
    .count_i  (3'd4 >> (2'(!is_wide_q) + 2'(word_is_half_q))),
    .element_i(element_q),
    .valid_o  (pack_valid),
    .burst_o  (packed_burst)
  );

  tensor_index_t index_q;
  wire ends = pack_valid && index_q == last_burst(dtype_q, 16'(dim_q));
  assign write_o = '{
      valid: pack_valid,
      scales: 1'b0,
      index: {values_q, index_q},
      halves: '1,
      data: packed_burst
  };

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {busy_q, reads_q, values_q, pairs_q, is_wide_q, dim_q, format_q} <= '0;
      {token_q, word_q, pair_row_q, there_q, odd_q, ends_row_q, word_valid_q, index_q} <= '0;
      dtype_q <= DtypeBf16;
    end else if (clear_i) begin
      {busy_q, reads_q, there_q, word_valid_q} <= '0;
    end else begin
      there_q <= {there_q[0], reads_q};
      odd_q <= {odd_q[0], token_q[0]};
      ends_row_q <= {ends_row_q[0], ends_row};
      word_valid_q <= there_q[1];
      if (reads_q) begin
        word_q <= ends_row ? '0 : word_q + 1'b1;
        if (ends_row) begin
          token_q <= token_q + 1'b1;
          if (token_q[0]) pair_row_q <= pair_row_q + granules;
          if (token_q == '1) reads_q <= 1'b0;
        end
      end
      if (pack_valid) index_q <= index_q + 1'b1;
      if (ends) busy_q <= 1'b0;
      if (start_i) begin
        {busy_q, reads_q} <= '1;
        {token_q, word_q, pair_row_q, index_q} <= '0;
        values_q <= values_i;
        pairs_q <= pairs_i;
        dtype_q <= dtype_i;
        is_wide_q <= element_bytes(dtype_i) == 32'd2;
        dim_q <= dim_i;
        format_q <= element_format(dtype_i);
      end
    end
  end

  wire unused = format_q.has_sign;

endmodule
