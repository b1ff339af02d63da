// Elements as ARITHMETIC.md section 1 takes them apart; integers only, so every device gives the same
// bits. The contract's names (NKV_*) are given when the program is built.

typedef struct {
  int negative;
  int exponent;  // Biased as in binary32; 0: zero, or not finite.
  uint significand;
} number;

number zero_of(int negative) {
  number n;
  n.negative = negative;
  n.exponent = 0;
  n.significand = 0;
  return n;
}

number decode_binary32(uint bits) {
  number n = zero_of(bits >> 31);
  const int exponent = bits >> 23 & 255;
  if (exponent == 0 || exponent == 255) return n;
  n.exponent = exponent;
  n.significand = (bits & 0x7fffff) | 1 << 23;
  return n;
}

// +-magnitude * 2^power, magnitude below 2^24.
number normalised(int negative, uint magnitude, int power) {
  number n = zero_of(negative);
  if (magnitude == 0) return n;
  const int shift = (int)clz(magnitude) - 8;
  n.exponent = power - shift + 150;
  n.significand = magnitude << shift;
  return n;
}

number decode_small_float(uint bits, int exponent_bits, int fraction_bits, int has_specials) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
  const int negative = bits >> (exponent_bits + fraction_bits) & 1;
  if (has_specials && exponent == (1 << exponent_bits) - 1) return zero_of(0);
  const uint hidden = exponent == 0 ? 0 : 1u << fraction_bits;
  return normalised(negative, hidden | fraction, max(exponent, 1) - bias - fraction_bits);
}

// How rows of a tensor are stored.
typedef struct {
  uint row_bytes;
  uint channels;  // Of a stored row.
  int is_delta4;
  int dtype;
} row_form;

uint load_u16(__global const uchar* bytes, size_t at) {
  return bytes[at] | (uint)bytes[at + 1] << 8;
}

// An element of a stored row; of DELTA4 with what it hides as zero (1.4).
number element_of(__global const uchar* row, row_form form, uint channel,
                  __global const uchar* exponents) {
  if (form.is_delta4) {
    const uint low = row[channel];
    const uint nibble = row[form.channels + channel / 2] >> channel % 2 * 4 & 15;
    const uint exponent = nibble == 0 ? 0 : min(exponents[channel] + nibble, 255u);
    const uint mantissa = nibble == 0 ? 0 : low & 127;
    return decode_binary32((low >> 7) << 31 | exponent << 23 | mantissa << 16);
  }
  switch (form.dtype) {
    case NKV_DTYPE_BF16:
      return decode_binary32(load_u16(row, 2 * channel) << 16);
    case NKV_DTYPE_FP16:
      return decode_small_float(load_u16(row, 2 * channel), 5, 10, 1);
    case NKV_DTYPE_FP8_E5M2:
      return decode_small_float(row[channel], 5, 2, 1);
    case NKV_DTYPE_FP8_E4M3:
      if ((row[channel] & 127) == 127) return zero_of(0);
      return decode_small_float(row[channel], 4, 3, 0);
    default: {  // INT8
      const uint bits = row[channel];
      const int negative = bits >> 7;
      return normalised(negative, negative ? 256 - bits : bits, 0);
    }
  }
}

// +-(magnitude >> distance); a distance below 0 counts as 0.
long truncated(int negative, long magnitude, int distance) {
  const long kept = magnitude >> clamp(distance, 0, 63);
  return negative ? -kept : kept;
}

long key_integer(number n, int top) {
  return truncated(n.negative, (long)n.significand << 2, top - n.exponent);
}

long value_integer(number n, int top) {
  return truncated(n.negative, n.significand, top - n.exponent);
}
