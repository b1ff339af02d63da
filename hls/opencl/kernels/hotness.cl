// Which units of memory are hot: the sketch of the RTL's monitor, conservative update. A sketch is
// SKETCH_ROWS rows of counters, and what it does with an access depends on those before: a work item
// per sketch, each with accesses of its own, `unit_at[i]` to `unit_at[i + 1]`.
#define UNIT_BITS 22
#define SKETCH_ROWS 4
#define PLACE_BITS 15
#define LARGEST_COUNT 16383
#define MARK (1 << 14)  // A unit with this place was told; below it the count.

// Of a row and a bit of the place: which bits of the unit it is the parity of.
uint hash_mask(uint row, uint bit) {
  ulong z = (row * 64 + bit + 1) * 0x9e3779b97f4a7c15ul;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
  z = (z ^ z >> 27) * 0x94d049bb133111ebul;
  return (uint)(z ^ z >> 31) & ((1u << UNIT_BITS) - 1);
}

// A unit is hot at the access that takes its estimate to `threshold`, once: `hot` takes it and its
// estimate from place `unit_at[i]` on, `hot_counts` how many there were. `cells` are zeros at first and
// stay from call to call.
__kernel void hotness(__global const uint* units, __global const uint* unit_at, uint sketches,
                      uint threshold, __global ushort* cells, __global uint2* hot,
                      __global uint* hot_counts) {
  const size_t sketch = get_global_id(0);
  if (sketch >= sketches) return;
  uint masks[SKETCH_ROWS][PLACE_BITS];
  for (uint row = 0; row < SKETCH_ROWS; ++row) {
    for (uint bit = 0; bit < PLACE_BITS; ++bit) masks[row][bit] = hash_mask(row, bit);
  }
  __global ushort* own = cells + (sketch * SKETCH_ROWS << PLACE_BITS);
  uint found = unit_at[sketch];
  for (uint i = unit_at[sketch]; i < unit_at[sketch + 1]; ++i) {
    const uint unit = units[i] & ((1u << UNIT_BITS) - 1);
    uint at[SKETCH_ROWS];
    uint least = LARGEST_COUNT;
    uint is_known = MARK;
    for (uint row = 0; row < SKETCH_ROWS; ++row) {
      uint place = 0;
      for (uint bit = 0; bit < PLACE_BITS; ++bit) {
        place |= (popcount(unit & masks[row][bit]) & 1) << bit;
      }
      at[row] = (row << PLACE_BITS) + place;
      least = min(least, (uint)(own[at[row]] & LARGEST_COUNT));
      is_known &= own[at[row]];
    }
    const int is_reached = least + 1 >= threshold;
    for (uint row = 0; row < SKETCH_ROWS; ++row) {
      uint cell = own[at[row]];
      // Conservative: only those that hold the least are raised.
      if ((cell & LARGEST_COUNT) == least && least != LARGEST_COUNT) ++cell;
      own[at[row]] = cell | (is_reached ? MARK : 0);
    }
    if (is_reached && !is_known) hot[found++] = (uint2)(unit, min(least + 1, (uint)LARGEST_COUNT));
  }
  hot_counts[sketch] = found - unit_at[sketch];
}
