// ATTEND DENSE behind its scores (sections 3 and 4): logits, each page's largest, and the sums, which
// are taken in page order. `tables` is exp2[65] and tanh[1025].
#define NO_REFERENCE (-(1l << 31) + 1)
#define LARGEST_SHIFT 42

long interpolated(long low, long high, long fraction, int bits) {
  return low + ((high - low) * fraction >> bits);
}

// value * 2^n by shift (floor), saturated.
long scaled(long value, int n, long limit) {
  if (n <= 0) return clamp(value >> min(-n, 63), -limit, limit);
  const long room = n > 62 ? 0 : limit >> n;
  if (value > room || value < -room) return value < 0 ? -limit : limit;
  return value << n;
}

long soft_capped(long logit, long cap, __global const long* tanh_table) {
  const ulong magnitude = abs(logit);
  const long ratio = min((magnitude << 16) / (ulong)cap, (1ul << 19) - 1);
  const long t = interpolated(tanh_table[ratio >> 9], tanh_table[(ratio >> 9) + 1], ratio & 511, 9);
  // cap * t >> 24 with all 66 bits of the product.
  const long result = mul_hi(cap, t) << 40 | (long)((ulong)(cap * t) >> 24);
  return logit < 0 ? -result : result;
}

// L of each score, [token][row]; `eq` holds Eq of each row.
__kernel void logits(__global const long* scores, __global const int* eq, long factor, int power,
                     long cap, __global const long* tables, __global long* logits) {
  const size_t at = get_global_id(0) * get_global_size(1) + get_global_id(1);
  const long limit = (1l << 47) - 1;
  const long linear =
      scaled((scores[at] >> 24) * factor, power + eq[get_global_id(1)], limit);
  logits[at] = cap == 0 ? linear : soft_capped(linear, cap, tables + 65);
}

// The largest L >> 16 of a page's visible tokens, [page][row]; none: NO_REFERENCE.
__kernel void page_largest(__global const long* logits, __global const ulong* visible,
                           __global long* largest) {
  const size_t page = get_global_id(0);
  const size_t row = get_global_id(1);
  const size_t rows = get_global_size(1);
  long found = NO_REFERENCE;
  for (uint token = 0; token < NKV_PAGE_TOKENS; ++token) {
    const long logit = logits[(page * NKV_PAGE_TOKENS + token) * rows + row];
    if (visible[page] >> token & 1) found = max(found, logit >> 16);
  }
  largest[page * rows + row] = found;
}

// One channel of a row, or behind the last one its z: sums over `pages` pages that go on from those
// before. `references` are M after each page, [page][row], one more before the first.
__kernel void accumulate(__global const uchar* rows, uint row_bytes, uint stored_channels,
                         int is_delta4, int dtype, __global const uchar* exponents,
                         int value_exponent, __global const long* logits,
                         __global const ulong* visible, __global const long* references, uint pages,
                         __global const long* tables, __global long* sums) {
  const size_t row = get_global_id(0);
  const size_t count = get_global_size(0);
  const size_t channel = get_global_id(1);
  const size_t channels = get_global_size(1) - 1;
  row_form form;
  form.row_bytes = row_bytes;
  form.channels = stored_channels;
  form.is_delta4 = is_delta4;
  form.dtype = dtype;
  long sum = sums[row * (channels + 1) + channel];
  for (uint page = 0; page < pages; ++page) {
    const long before = references[page * count + row];
    const long reference = references[(page + 1) * count + row];
    sum >>= min(reference - before, 63l);
    for (uint i = 0; i < NKV_PAGE_TOKENS; ++i) {
      if (!(visible[page] >> i & 1)) continue;
      const size_t token = (size_t)page * NKV_PAGE_TOKENS + i;
      const long logit = logits[token * count + row];
      const long shift = reference - (logit >> 16);
      if (shift > LARGEST_SHIFT) continue;
      const long fraction = logit & 65535;
      const long weight = interpolated(tables[fraction >> 10], tables[(fraction >> 10) + 1],
                                       fraction & 1023, 10);
      if (channel == channels) {
        sum += (weight << 24) >> shift;
      } else {
        __global const uchar* of_page = exponents + (size_t)page * stored_channels;
        const number n = element_of(rows + token * row_bytes, form, channel, of_page);
        sum += weight * value_integer(n, value_exponent) >> shift;
      }
    }
  }
  sums[row * (channels + 1) + channel] = sum;
}
