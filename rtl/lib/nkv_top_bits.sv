// The 32 leading bits of a number, from its highest set bit on, and how many bits it has. One per
// cycle, 5 cycles later at the output. Shorter numbers are filled up with zeros; 0 has 0 bits.

module nkv_top_bits (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        valid_i,
  input  logic [63:0] number_i,

  output logic [31:0] top_o,
  output logic [6:0]  bits_o
);

  logic [3:0] valid_q;  // [i]: i + 1 cycles after valid_i.

  logic [63:0] number_q, counted_q;
  logic [7:0] set_q;             // Bytes that are not zero.
  logic [39:0] bytes_q, late_bytes_q;  // From the highest such byte on.
  logic [3:0] count_q, byte_count_q, late_byte_count_q;
  logic [2:0] zeros_q;           // Leading ones of it.

  function automatic logic [3:0] bytes_of(logic [7:0] set);
    for (int unsigned i = 0; i < 8; i++) if (set[7-i]) return 4'(8 - i);
    return '0;
  endfunction

  function automatic logic [2:0] leading_zeros(logic [7:0] bits);
    for (int unsigned i = 0; i < 7; i++) if (bits[7-i]) return 3'(i);
    return 3'd7;
  endfunction

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      number_q <= number_i;
      for (int unsigned i = 0; i < 8; i++) set_q[i] <= number_i[8*i+:8] != '0;
    end
    if (valid_q[0]) begin
      counted_q <= number_q;
      count_q <= bytes_of(set_q);
    end
    if (valid_q[1]) begin
      bytes_q <= 40'({counted_q, 40'd0} >> {count_q, 3'd0});
      byte_count_q <= count_q;
    end
    if (valid_q[2]) begin
      zeros_q <= leading_zeros(bytes_q[39:32]);
      late_bytes_q <= bytes_q;
      late_byte_count_q <= byte_count_q;
    end
    if (valid_q[3]) begin
      top_o <= 32'(late_bytes_q << zeros_q >> 8);
      bits_o <= late_byte_count_q == '0 ? '0 : {late_byte_count_q, 3'd0} - 7'(zeros_q);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[2:0], valid_i};
  end

endmodule
