// mix of ARITHMETIC.md 8.3: 32 bits to 32 bits that look random. One per cycle, 5 cycles later at
// the output.

module nkv_sample_mix (
  input  logic        clk_i,
  input  logic [31:0] number_i,
  output logic [31:0] mixed_o
);

  localparam logic [31:0] First = 32'h21F0AAAD;
  localparam logic [31:0] Second = 32'h735A2D97;

  logic [31:0] folded_q, low_1_q, mid_q, low_2_q;
  logic [15:0] high_1_q, high_2_q;
  wire [31:0] product_1 = low_1_q + {high_1_q, 16'd0};
  wire [31:0] product_2 = low_2_q + {high_2_q, 16'd0};

  always_ff @(posedge clk_i) begin
    folded_q <= number_i ^ (number_i >> 16);
    low_1_q <= 32'(folded_q[15:0]) * First;
    high_1_q <= folded_q[31:16] * First[15:0];
    mid_q <= product_1 ^ (product_1 >> 15);
    low_2_q <= 32'(mid_q[15:0]) * Second;
    high_2_q <= mid_q[31:16] * Second[15:0];
    mixed_o <= product_2 ^ (product_2 >> 15);
  end

endmodule
