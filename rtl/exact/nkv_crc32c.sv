// CRC32C of byte streams, a burst per cycle; streams follow one another without a gap. Fixed
// latency of 10 cycles from the burst with last_i to valid_o.
//
// A stream's remainder after a burst of sixteen words w is F64 (r ^ w0) ^ F60 w1 ^ ... ^ F4 w15,
// with Fn the matrix of n zero bytes. Only F64 r lies in the loop. A last burst that is not full
// counts as if zeros followed; six stages take those zero bytes back afterwards.

module nkv_crc32c
  import nkv_pkg::*;
  import nkv_crc32c_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       valid_i,
  input  logic       first_i,
  input  logic       last_i,
  input  burst_t     data_i,
  input  logic [6:0] bytes_i,  // That count, 1 to 64; fewer than 64 only with last_i.

  output logic       valid_o,
  output word_t      crc_o
);

  localparam int unsigned Words = BurstBits / 32;
  localparam int unsigned BackSteps = 6;

  typedef matrix_t [Words-1:0] matrices_t;

  // [i] leads a word over the rest of its burst, the word itself included: F(64 - 4 i).
  function automatic matrices_t word_matrices();
    matrices_t matrices;
    matrices[Words-1] = forth(2);
    for (int i = int'(Words) - 2; i >= 0; i--) matrices[i] = product(forth(2), matrices[i+1]);
    return matrices;
  endfunction

  function automatic matrix_t [BackSteps-1:0] back_matrices();
    matrix_t [BackSteps-1:0] matrices;
    for (int unsigned k = 0; k < BackSteps; k++) matrices[k] = back(k);
    return matrices;
  endfunction

  localparam matrices_t WordMatrices = word_matrices();
  localparam matrix_t [BackSteps-1:0] BackMatrices = back_matrices();
  localparam word_t AfterOnes = apply(WordMatrices[0], '1);  // F64 of the initial remainder.

  // Masked words, their products, the sum of these; then the stream's remainder.
  logic masked_valid_q, product_valid_q, sum_valid_q;
  logic masked_first_q, product_first_q, sum_first_q;
  logic masked_last_q, product_last_q, sum_last_q;
  logic [5:0] masked_missing_q, product_missing_q, sum_missing_q;
  word_t masked_q[Words];
  word_t product_q[Words];
  word_t sum_q;
  word_t remainder_q;

  // Stage k has undone the missing bytes' bits 0 to k - 1.
  logic [BackSteps:0] back_valid_q;
  logic [5:0] back_missing_q[BackSteps+1];
  word_t back_q[BackSteps+1];

  always_ff @(posedge clk_i) begin
    masked_first_q <= first_i;
    masked_last_q <= last_i;
    masked_missing_q <= 6'(7'd64 - bytes_i);
    if (valid_i) begin
      for (int unsigned i = 0; i < Words; i++) begin
        for (int unsigned b = 0; b < 4; b++) begin
          masked_q[i][8*b+:8] <= (7'(4 * i + b) < bytes_i) ? data_i[32*i+8*b+:8] : '0;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    product_first_q <= masked_first_q;
    product_last_q <= masked_last_q;
    product_missing_q <= masked_missing_q;
    if (masked_valid_q) begin
      for (int unsigned i = 0; i < Words; i++) begin
        product_q[i] <= apply(WordMatrices[i], masked_q[i]);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    automatic word_t sum = '0;
    sum_first_q <= product_first_q;
    sum_last_q <= product_last_q;
    sum_missing_q <= product_missing_q;
    if (product_valid_q) begin
      for (int unsigned i = 0; i < Words; i++) sum ^= product_q[i];
      sum_q <= sum;
    end
  end

  assign remainder_q = back_q[0];

  always_ff @(posedge clk_i) begin
    if (sum_valid_q) begin
      back_q[0] <= (sum_first_q ? AfterOnes : apply(WordMatrices[0], remainder_q)) ^ sum_q;
      back_missing_q[0] <= sum_missing_q;
    end
    for (int unsigned k = 0; k < BackSteps; k++) begin
      if (back_valid_q[k]) begin
        back_q[k+1] <= back_missing_q[k][k] ? apply(BackMatrices[k], back_q[k]) : back_q[k];
        back_missing_q[k+1] <= back_missing_q[k];
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      masked_valid_q <= 1'b0;
      product_valid_q <= 1'b0;
      sum_valid_q <= 1'b0;
      back_valid_q <= '0;
    end else begin
      masked_valid_q <= valid_i;
      product_valid_q <= masked_valid_q;
      sum_valid_q <= product_valid_q;
      back_valid_q <= {back_valid_q[BackSteps-1:0], sum_valid_q && sum_last_q};
    end
  end

  assign valid_o = back_valid_q[BackSteps];
  assign crc_o = ~back_q[BackSteps];

endmodule
