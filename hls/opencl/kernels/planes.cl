// The plane stage (section 5): a page's weights and sums for a row, then the midpoints of its tokens.
// Digests, steps and planes are those of some pages of a list, whose places in it are `places`; sums,
// radii, masks and midpoints are the whole list's.
//
// Of each page and row FOLD_SUMS numbers: K, W, sum of w, sum of w^2, remainder.
#define FOLD_SUMS 5
#define FOLD_CONSTANT 0
#define FOLD_WEIGHT_SUM 1
#define FOLD_SIGNED_SUM 2
#define FOLD_SQUARES 3
#define FOLD_REMAINDER 4
#define MIDPOINT_LIMIT 32767

__kernel void fold(__global const ushort* digests, __global const int* steps,
                   __global const uint* places, uint pages, __global const int* query,
                   uint channels, int key_exponent, __global int* weights, __global long* sums) {
  const size_t page = get_global_id(0);
  const size_t row = get_global_id(1);
  const size_t rows = get_global_size(1);
  if (page >= pages) return;
  long at_centre = 0, weight_sum = 0, signed_sum = 0, squares = 0, remainder = 0;
  for (uint c = 0; c < channels; ++c) {
    const uint stored = digests[page * channels + c];
    const int base = (char)(stored & 255);
    const int m = 8 + (stored >> 8 & 7);
    const int g = steps[page] - (int)(stored >> 11) - key_exponent + 152;
    // From 40 fraction bits on weights are zero, and remainders 0 or 1.
    const int fraction = min(NKV_PLANE_WEIGHT_SHIFT - clamp(g, -68, 16), 62);
    const long exact = (long)query[row * channels + c] * m;
    const long weight = (exact + (1l << (fraction - 1))) >> fraction;
    const long raised = (long)abs(exact - (weight << fraction)) << 12;
    const long d = (raised >> fraction) + ((raised & ((1l << fraction) - 1)) != 0);
    const int centre = NKV_CODE_BASE_STEP * base + 128;
    weights[(page * rows + row) * channels + c] = (int)weight;
    at_centre += weight * centre;
    weight_sum += abs(weight);
    signed_sum += weight;
    squares += weight * weight;
    remainder += d * (128 + abs(centre));
  }
  __global long* of_row = sums + (places[page] * rows + row) * FOLD_SUMS;
  of_row[FOLD_CONSTANT] = at_centre;
  of_row[FOLD_WEIGHT_SUM] = weight_sum;
  of_row[FOLD_SIGNED_SUM] = signed_sum;
  of_row[FOLD_SQUARES] = squares;
  of_row[FOLD_REMAINDER] = (remainder + 4095) >> 12;
}

// The least B with 3072 * B^2 >= z^2 * squares * 4^(8 - planes), z in sixteenths: both sides stay
// below 2^64, as squares do below 2^32.
long likely_uncertainty(long squares, int planes, uint sixteenths) {
  const ulong wanted = (ulong)sixteenths * sixteenths * squares << 2 * (8 - planes);
  if (wanted == 0) return 0;
  ulong below = 0;
  for (int bit = 25; bit >= 0; --bit) {
    const ulong tried = below | 1ul << bit;
    if (3072 * tried * tried < wanted) below = tried;
  }
  return below + 1;
}

// Of each page and row of a list the radius after `planes` planes, in weight units.
__kernel void digest_bound(__global const long* sums, uint pages, int planes, uint sixteenths,
                           __global long* radii) {
  const size_t at = get_global_id(0) * get_global_size(1) + get_global_id(1);
  if (get_global_id(0) >= pages) return;
  __global const long* of_row = sums + at * FOLD_SUMS;
  const long likely = likely_uncertainty(of_row[FOLD_SQUARES], planes, sixteenths);
  radii[at] = min(of_row[FOLD_WEIGHT_SUM] << (7 - planes), likely) + of_row[FOLD_REMAINDER] + 4;
}

int has_token(__global const ulong* masks, size_t token) {
  return masks[token / NKV_PAGE_TOKENS] >> token % NKV_PAGE_TOKENS & 1;
}

// A sum of weights over the channels whose bit is set. Weights are below 2^11.
long sum_of_bits(__global const uchar* bits, __global const int* weights, uint channels) {
  const int8 bit = (int8)(1, 2, 4, 8, 16, 32, 64, 128);
  int8 sums = 0;
  for (uint byte = 0; byte < channels / 8; ++byte) {
    const int8 is_set = ((int8)bits[byte] & bit) != 0;
    sums += vload8(byte, weights) & is_set;
  }
  const int4 of_four = sums.lo + sums.hi;
  const int2 of_two = of_four.lo + of_four.hi;
  return of_two.x + of_two.y;
}

// X of a row (5.1); the list's first page is the reference.
int midpoint_shift(__global const long* sums, size_t row) {
  const long first = 1024 * max(sums[row * FOLD_SUMS + FOLD_WEIGHT_SUM], 1l);
  return max(64 - (int)clz(first) - 15, 0);
}

// Midpoints as they are stored, [token][row] (5.1). `plane_bits` has `planes` planes of a page, one
// after the other.
__kernel void midpoints(__global const uchar* plane_bits, uint planes, uint channels,
                        __global const uint* places, __global const int* weights,
                        __global const long* sums, __global const ulong* visible,
                        __global short* midpoints) {
  const size_t page = get_global_id(0) / NKV_PAGE_TOKENS;
  const size_t of_page = get_global_id(0) % NKV_PAGE_TOKENS;
  const size_t token = places[page] * NKV_PAGE_TOKENS + of_page;
  const size_t row = get_global_id(1);
  const size_t rows = get_global_size(1);
  const uint row_bytes = channels / 8;
  __global const uchar* bits =
      plane_bits + (page * planes * NKV_PAGE_TOKENS + of_page) * row_bytes;
  __global const long* of_row = sums + (places[page] * rows + row) * FOLD_SUMS;
  const long half_cell = 1l << (7 - planes);
  long midpoint = of_row[FOLD_CONSTANT] + (half_cell - 128) * of_row[FOLD_SIGNED_SUM];
  for (uint plane = 0; plane < planes; ++plane) {
    const long sum = sum_of_bits(bits + plane * NKV_PAGE_TOKENS * row_bytes,
                                 weights + (page * rows + row) * channels, channels);
    midpoint += sum << (7 - plane);
  }
  const long above = (midpoint - sums[row * FOLD_SUMS]) >> midpoint_shift(sums, row);
  const short stored = clamp(above, (long)-MIDPOINT_LIMIT, (long)MIDPOINT_LIMIT);
  midpoints[token * rows + row] = has_token(visible, token) ? stored : (short)-32768;
}

// Moves the midpoints of `tokens` by one more plane, the `plane`-th from 1 on (5.2).
__kernel void sharpen(__global const uchar* plane_bits, int plane, uint channels,
                      __global const uint* places, __global const int* weights,
                      __global const long* sums, __global const ulong* tokens,
                      __global short* midpoints) {
  const size_t page = get_global_id(0) / NKV_PAGE_TOKENS;
  const size_t token = places[page] * NKV_PAGE_TOKENS + get_global_id(0) % NKV_PAGE_TOKENS;
  const size_t row = get_global_id(1);
  const size_t rows = get_global_size(1);
  const long before = midpoints[token * rows + row];
  if (!has_token(tokens, token) || before == MIDPOINT_LIMIT) return;
  const long sum = sum_of_bits(plane_bits + get_global_id(0) * (channels / 8),
                               weights + (page * rows + row) * channels, channels);
  const long signed_sum = sums[(places[page] * rows + row) * FOLD_SUMS + FOLD_SIGNED_SUM];
  const long step = (2 * sum - signed_sum) << (7 - plane) >> midpoint_shift(sums, row);
  midpoints[token * rows + row] =
      clamp(before + step, (long)-MIDPOINT_LIMIT, (long)MIDPOINT_LIMIT);
}
