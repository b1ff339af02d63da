// The plane stage (section 5): a page's weights and sums for a row, then the midpoints of its tokens.
// Of each page and row FOLD_SUMS numbers: K, W, sum of w, sum of w^2, remainder.
#define FOLD_SUMS 5

__kernel void fold(__global const ushort* digests, __global const int* steps,
                   __global const int* query, uint channels, int key_exponent,
                   __global int* weights, __global long* sums) {
  const size_t at = get_global_id(0) * get_global_size(1) + get_global_id(1);  // [page][row]
  const size_t page = get_global_id(0);
  const size_t row = get_global_id(1);
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
    weights[at * channels + c] = (int)weight;
    at_centre += weight * centre;
    weight_sum += abs(weight);
    signed_sum += weight;
    squares += weight * weight;
    remainder += d * (128 + abs(centre));
  }
  sums[at * FOLD_SUMS] = at_centre;
  sums[at * FOLD_SUMS + 1] = weight_sum;
  sums[at * FOLD_SUMS + 2] = signed_sum;
  sums[at * FOLD_SUMS + 3] = squares;
  sums[at * FOLD_SUMS + 4] = (remainder + 4095) >> 12;
}

// Stored midpoints, [page][token][row] (5.1). `planes` has `planes` planes of a page, one after the
// other; the reference and X of a row are those of page 0.
__kernel void midpoints(__global const uchar* plane_bits, uint planes, uint channels,
                        __global const int* weights, __global const long* sums,
                        __global const ulong* visible, __global short* midpoints) {
  const size_t token = get_global_id(0);
  const size_t row = get_global_id(1);
  const size_t rows = get_global_size(1);
  const size_t page = token / NKV_PAGE_TOKENS;
  const size_t at = page * rows + row;
  const uint row_bytes = channels / 8;
  const uint plane_bytes = NKV_PAGE_TOKENS * row_bytes;
  long midpoint = sums[at * FOLD_SUMS];
  if (planes == 0) midpoint += 128 * sums[at * FOLD_SUMS + 1];
  if (planes != 0) midpoint += ((1l << (7 - planes)) - 128) * sums[at * FOLD_SUMS + 2];
  for (uint plane = 0; plane < planes; ++plane) {
    __global const uchar* bits = plane_bits + (page * planes + plane) * plane_bytes +
                                 token % NKV_PAGE_TOKENS * row_bytes;
    long sum = 0;
    for (uint c = 0; c < channels; ++c) {
      if (bits[c / 8] >> c % 8 & 1) sum += weights[at * channels + c];
    }
    midpoint += sum << (7 - plane);
  }
  const long reference = sums[row * FOLD_SUMS];
  const long first = 1024 * max(sums[row * FOLD_SUMS + 1], 1l);
  const int shift = max(64 - (int)clz(first) - 15, 0);
  const long stored = clamp((midpoint - reference) >> shift, -32767l, 32767l);
  const int is_visible = visible[page] >> token % NKV_PAGE_TOKENS & 1;
  midpoints[token * rows + row] = is_visible ? (short)stored : (short)-32768;
}
