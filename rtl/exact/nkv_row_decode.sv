// Stored rows to integers: ARITHMETIC.md sections 1.2 to 1.4, 32 channels per cycle. Takes rows as
// nkv_row_elements does; a word is at the output 11 cycles after its start.

module nkv_row_decode
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  parameter int unsigned TagBits = 8
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,             // Forgets all rows.

  input  row_format_t        format_i,            // Held while not idle_o, and in the cycle before.

  input  logic               exponents_valid_i,   // A burst of K_EXPONENTS or V_EXPONENTS.
  input  logic               exponents_bank_i,
  input  logic               exponents_burst_i,   // Which one.
  input  burst_t             exponents_i,

  input  logic               row_valid_i,
  output logic               row_ready_o,
  input  logic [TagBits-1:0] row_tag_i,
  input  logic               row_last_i,          // Of the pass; comes out with its last word.
  input  logic               row_bank_i,
  input  logic [2:0]         row_start_i,         // Where in its first burst, in 8 bytes.
  input  logic               row_shared_i,        // That burst came with the row before.

  input  logic               burst_valid_i,
  output logic               burst_ready_o,
  input  burst_t             burst_i,

  input  logic               issue_i,
  output logic               wants_o,             // A row is complete.
  output logic               issued_last_o,       // In this cycle a row's last word starts.
  output logic               word_valid_o,
  output logic [TagBits-1:0] word_tag_o,
  output word_index_t        word_index_o,
  output logic               word_last_o,         // Of its row.
  output logic               word_pass_last_o,    // Of the pass.
  output key_t               word_o[ExactLanes],
  output logic               idle_o
);

  localparam int unsigned Latency = 8;  // From elements to integers.

  typedef struct packed {
    logic [TagBits-1:0] tag;
    logic               pass_last;
    logic               last;
    word_index_t        index;
  } side_t;

  logic elements_valid, elements_idle;
  side_t elements_side;
  logic [15:0] element[ExactLanes];

  nkv_row_elements #(
    .TagBits(TagBits)
  ) u_elements (
    .clk_i,
    .rst_ni,
    .clear_i,
    .format_i,
    .exponents_valid_i,
    .exponents_bank_i,
    .exponents_burst_i,
    .exponents_i,
    .row_valid_i,
    .row_ready_o,
    .row_tag_i,
    .row_last_i,
    .row_bank_i,
    .row_start_i,
    .row_shared_i,
    .burst_valid_i,
    .burst_ready_o,
    .burst_i,
    .issue_i,
    .wants_o,
    .issued_last_o,
    .word_valid_o    (elements_valid),
    .word_tag_o      (elements_side.tag),
    .word_index_o    (elements_side.index),
    .word_last_o     (elements_side.last),
    .word_pass_last_o(elements_side.pass_last),
    .word_o          (element),
    .idle_o          (elements_idle)
  );

  // ---- What goes along --------------------------------------------------------------------------
  logic [Latency-1:0] valid_q;  // [i]: i + 1 cycles after the elements.
  side_t side_q[Latency];

  always_ff @(posedge clk_i) begin
    if (elements_valid) side_q[0] <= elements_side;
    for (int unsigned i = 1; i < Latency; i++) if (valid_q[i-1]) side_q[i] <= side_q[i-1];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[Latency-2:0], elements_valid};
  end

  assign idle_o = elements_idle && valid_q == '0;
  assign word_valid_o = valid_q[Latency-1];
  assign word_tag_o = side_q[Latency-1].tag;
  assign word_pass_last_o = side_q[Latency-1].pass_last;
  assign word_last_o = side_q[Latency-1].last;
  assign word_index_o = side_q[Latency-1].index;

  // ---- Numbers, then integers -------------------------------------------------------------------
  logic is_delta4_q;  // Of the format, and a cycle behind it.
  always_ff @(posedge clk_i) is_delta4_q <= format_i.form == RowFormDelta4;

  logic [31:0] wide_element[ExactLanes];
  always_comb begin
    for (int unsigned i = 0; i < ExactLanes; i++) wide_element[i] = 32'(element[i]);
  end

  logic number_valid;
  logic [ExactLanes-1:0] negative, finite;
  exponent_t exponent[ExactLanes];
  significand_t significand[ExactLanes];

  nkv_number_decode #(
    .Lanes   (ExactLanes),
    .Binary32(1'b0)
  ) u_decode (
    .clk_i,
    .rst_ni,
    .valid_i      (elements_valid),
    .dtype_i      (is_delta4_q ? DtypeBf16 : format_i.dtype),
    .element_i    (wide_element),
    .valid_o      (number_valid),
    .negative_o   (negative),
    .finite_o     (finite),
    .exponent_o   (exponent),
    .significand_o(significand)
  );

  // m << 2. Of m no stored type has more than its upper bits.
  localparam int unsigned MagnitudeBits = SignificandBits + 2;
  localparam int unsigned HighBits = 11;
  localparam int unsigned FineBits = HighBits + 7;
  logic [4:0] distance_q[ExactLanes];
  logic [1:0] coarse_q[ExactLanes];
  logic [ExactLanes-1:0] distance_negative_q, fine_negative_q, shifted_negative_q;
  logic [HighBits-1:0] distance_high_q[ExactLanes];
  logic [FineBits-1:0] fine_q[ExactLanes];
  logic [MagnitudeBits-1:0] shifted_q[ExactLanes];

  // An honest page has no exponent above the list's; a forged one must not shift the other way.
  function automatic logic [4:0] distance_of(exponent_t top, exponent_t own);
    logic [8:0] difference = 9'(top) - 9'(own);
    if (difference[8]) return '0;
    return difference[7:5] != '0 ? '1 : difference[4:0];
  endfunction

  always_ff @(posedge clk_i) begin
    if (number_valid) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        distance_q[i] <= distance_of(format_i.list_exponent, exponent[i]);
        distance_high_q[i] <= significand[i][SignificandBits-1-:HighBits];
      end
      distance_negative_q <= negative;
    end
    if (valid_q[4]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        fine_q[i] <= {distance_high_q[i], (FineBits - HighBits)'(0)} >> distance_q[i][2:0];
        coarse_q[i] <= distance_q[i][4:3];
      end
      fine_negative_q <= distance_negative_q;
    end
    if (valid_q[5]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        shifted_q[i] <= {fine_q[i], (MagnitudeBits - FineBits)'(0)} >> {coarse_q[i], 3'd0};
      end
      shifted_negative_q <= fine_negative_q;
    end
    if (valid_q[6]) begin
      for (int unsigned i = 0; i < ExactLanes; i++) begin
        // v is k two bits further down.
        automatic key_t integer_part = format_i.values ? key_t'(shifted_q[i][MagnitudeBits-1:2])
                                                        : key_t'(shifted_q[i]);
        word_o[i] <= shifted_negative_q[i] ? -integer_part : integer_part;
      end
    end
  end

  // Elements that are not finite have significand 0, which is all that matters here.
  logic unused;
  always_comb begin
    unused = ^finite;
    for (int unsigned i = 0; i < ExactLanes; i++) unused ^= ^significand[i];
  end

endmodule
