// CRC32C as linear algebra over bits: a remainder that meets n zero bytes is multiplied by a
// constant 32 x 32 matrix, and the remainder of a message is a sum of such products.

package nkv_crc32c_pkg;

  typedef logic [31:0] word_t;
  // Column b is what bit b of a remainder becomes.
  typedef word_t [31:0] matrix_t;

  localparam word_t Polynomial = 32'h82f6_3b78;  // Reflected: bit 31 belongs to x^0.

  function automatic word_t apply(matrix_t matrix, word_t vector);
    word_t sum = '0;
    for (int unsigned b = 0; b < 32; b++) sum ^= vector[b] ? matrix[b] : '0;
    return sum;
  endfunction

  function automatic matrix_t product(matrix_t left, matrix_t right);
    matrix_t columns;
    for (int unsigned b = 0; b < 32; b++) columns[b] = apply(left, right[b]);
    return columns;
  endfunction

  function automatic matrix_t power_of_two(matrix_t base, int unsigned log2_exponent);
    matrix_t result = base;
    for (int unsigned i = 0; i < log2_exponent; i++) result = product(result, result);
    return result;
  endfunction

  // A remainder's way over one zero bit, and back.
  function automatic matrix_t forth_one_bit();
    matrix_t columns;
    for (int unsigned b = 0; b < 32; b++) begin
      columns[b] = (b == 0) ? Polynomial : word_t'(1) << (b - 1);
    end
    return columns;
  endfunction

  function automatic matrix_t back_one_bit();
    matrix_t columns;
    for (int unsigned b = 0; b < 32; b++) begin
      // Polynomial has bit 31 set, so a remainder with that bit came from one with bit 0 set.
      columns[b] = (b == 31) ? ((Polynomial ^ 32'h8000_0000) << 1) | 32'h1 : word_t'(1) << (b + 1);
    end
    return columns;
  endfunction

  // A remainder's way over 2^log2_bytes zero bytes, and back.
  function automatic matrix_t forth(int unsigned log2_bytes);
    return power_of_two(forth_one_bit(), log2_bytes + 3);
  endfunction

  function automatic matrix_t back(int unsigned log2_bytes);
    return power_of_two(back_one_bit(), log2_bytes + 3);
  endfunction

endpackage
