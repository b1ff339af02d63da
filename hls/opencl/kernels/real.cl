// Binary floating point in integers, rounded where it is asked for: a device's own may be fused,
// rounded otherwise, or without subnormal numbers.
typedef struct {
  int negative;
  ulong magnitude;
  int power;  // The number is +-magnitude * 2^power.
} real;

// Subnormal numbers count as zero.
real real_of_bf16(uint bits) {
  const uint exponent = bits >> 7 & 255;
  real n;
  n.negative = bits >> 15 & 1;
  n.magnitude = exponent == 0 ? 0 : 128 | (bits & 127);
  n.power = (int)exponent - 134;
  return n;
}

int bits_of(ulong magnitude) { return 64 - (int)clz(magnitude); }

// To nearest even with `bits` bits. The magnitude is below 2^63.
real rounded(real n, int bits) {
  const int excess = bits_of(n.magnitude) - bits;
  if (excess <= 0) return n;
  const ulong below_half = (1ul << (excess - 1)) - 1;
  n.magnitude = (n.magnitude + below_half + (n.magnitude >> excess & 1)) >> excess;
  n.power += excess;
  return n;
}

// The same number with a magnitude of 62 bits; it has no more than those, and is not zero.
real with_62_bits(real n) {
  const int shift = (int)clz(n.magnitude) - 2;
  n.magnitude <<= shift;
  n.power -= shift;
  return n;
}

// a + b of numbers with up to 24 bits. What lies below 2^-61 of the greater one is one bit that is
// set, so that rounded() to 53 bits or fewer is right.
real sum_of(real a, real b) {
  if (a.magnitude == 0) return b;
  if (b.magnitude == 0) return a;
  a = with_62_bits(a);
  b = with_62_bits(b);
  const real greater = a.power < b.power ? b : a;
  const real other = a.power < b.power ? a : b;
  const int gap = min(greater.power - other.power, 62);
  const ulong lost = other.magnitude & ((1ul << gap) - 1);
  const ulong low = other.magnitude >> gap | (lost != 0);
  real sum = greater;
  if (greater.negative == other.negative) {
    sum.magnitude += low;
  } else if (greater.magnitude >= low) {
    sum.magnitude -= low;
  } else {
    sum.magnitude = low - greater.magnitude;
    sum.negative = other.negative;
  }
  return sum;
}

// As bf16, to nearest even; below the least normal number +0, beyond the greatest infinite.
ushort bf16_of(real n) {
  n = rounded(n, 8);
  if (n.magnitude == 0) return 0;
  const int exponent = n.power + bits_of(n.magnitude) + 126;
  if (exponent < 1) return 0;
  const uint significand = n.magnitude << 8 >> bits_of(n.magnitude);
  return n.negative << 15 | (exponent > 254 ? 255 << 7 : exponent << 7 | (significand & 127));
}
