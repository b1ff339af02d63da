// What midpoints choose (5.3, and step 3 of section 6): a work item per token of a list and row. Sets
// of tokens are written as two 32-bit words a page, which begin as zeros.
int bin_of(short midpoint) { return (midpoint + 32768) >> 4; }

void add_token(__global uint* set, size_t token) { atomic_or(set + token / 32, 1u << token % 32); }

// `bins` begins as zeros.
__kernel void count_bins(__global const short* midpoints, __global const ulong* visible,
                         __global uint* bins) {
  const size_t token = get_global_id(0);
  const size_t row = get_global_id(1);
  if (!has_token(visible, token)) return;
  const short midpoint = midpoints[token * get_global_size(1) + row];
  atomic_inc(bins + row * NKV_HISTOGRAM_BINS + bin_of(midpoint));
}

// T(count) of each row (5.3): a work item per row.
__kernel void threshold(__global const uint* bins, uint rows, ulong count,
                        __global int* thresholds) {
  const size_t row = get_global_id(0);
  if (row >= rows) return;
  ulong reached = 0;
  int bin = NKV_HISTOGRAM_BINS - 1;
  for (; bin > 0; --bin) {
    reached += bins[row * NKV_HISTOGRAM_BINS + bin];
    if (reached >= count) break;
  }
  thresholds[row] = bin;
}

__kernel void best_tokens(__global const short* midpoints, __global const ulong* visible,
                          __global const int* thresholds, __global uint* best) {
  const size_t token = get_global_id(0);
  const size_t row = get_global_id(1);
  const short midpoint = midpoints[token * get_global_size(1) + row];
  if (has_token(visible, token) && bin_of(midpoint) >= thresholds[row]) add_token(best, token);
}

// Those of `tokens` whose upper bound reaches the row's tau. `more_planes` is L - L0, and `radii`
// those of L planes.
__kernel void alive_tokens(__global const short* midpoints, __global const long* sums,
                           __global const long* radii, int more_planes,
                           __global const long* taus, __global const ulong* tokens,
                           __global uint* alive) {
  const size_t token = get_global_id(0);
  const size_t row = get_global_id(1);
  const size_t rows = get_global_size(1);
  if (!has_token(tokens, token)) return;
  const int shift = midpoint_shift(sums, row);
  const long exact_radius = radii[token / NKV_PAGE_TOKENS * rows + row];
  const long radius = min((exact_radius >> shift) + 2 + more_planes, 65535l);
  const long above = ((taus[row] >> NKV_PLANE_WEIGHT_SHIFT) - sums[row * FOLD_SUMS]) >> shift;
  const long tau = clamp(above, (long)-MIDPOINT_LIMIT, (long)MIDPOINT_LIMIT);
  const short midpoint = midpoints[token * rows + row];
  if (midpoint == MIDPOINT_LIMIT || midpoint + radius >= tau) add_token(alive, token);
}
