// LZ4 blocks: a work item per block. Where a block or its plain bytes lie are two numbers: the first
// byte, and how many there are.
#define LZ4_MATCH_LIMIT 12   // Of the format: the last match begins so far from the end,
#define LZ4_LAST_LITERALS 5  // and so many literals follow it.
#define LZ4_LEAST_MATCH 4
#define LZ4_MOST_OFFSET 65535
#define LZ4_HASH_BITS 13
#define LZ4_TABLE_PLACES (1 << LZ4_HASH_BITS)

// What does not fit is counted and not stored.
typedef struct {
  __global uchar* bytes;
  uint room;
  uint written;
} lz4_output;

void put_byte(lz4_output* out, uint byte) {
  if (out->written < out->room) out->bytes[out->written] = byte;
  ++out->written;
}

// What follows a nibble of 15.
void put_length(lz4_output* out, uint rest) {
  for (; rest >= 255; rest -= 255) put_byte(out, 255);
  put_byte(out, rest);
}

// Literals, then a match; the last sequence has none, and `match` 0.
void put_sequence(lz4_output* out, __global const uchar* literals, uint count, uint match,
                  uint offset) {
  const uint extra = match == 0 ? 0 : match - LZ4_LEAST_MATCH;
  put_byte(out, min(count, 15u) << 4 | min(extra, 15u));
  if (count >= 15) put_length(out, count - 15);
  for (uint i = 0; i < count; ++i) put_byte(out, literals[i]);
  if (match == 0) return;
  put_byte(out, offset & 255);
  put_byte(out, offset >> 8);
  if (extra >= 15) put_length(out, extra - 15);
}

uint four_bytes(__global const uchar* at) {
  return at[0] | (uint)at[1] << 8 | (uint)at[2] << 16 | (uint)at[3] << 24;
}

// Greedy: where the four bytes at a place stood before, as a table of the last place of each hash
// remembers, it takes as many as are alike. `tables` has LZ4_TABLE_PLACES words a block. Of each room
// `blocks` tells how much of it the block takes: nothing if there is nothing to encode, or too little
// room.
__kernel void lz4_encode(__global const uchar* plain, __global const uint2* plain_places, uint count,
                         __global uint* tables, __global uchar* packed,
                         __global const uint2* rooms, __global uint2* blocks) {
  const size_t block = get_global_id(0);
  if (block >= count) return;
  __global const uchar* bytes = plain + plain_places[block].x;
  const uint size = plain_places[block].y;
  blocks[block] = (uint2)(rooms[block].x, 0);
  if (size == 0) return;
  __global uint* place_before = tables + block * LZ4_TABLE_PLACES;  // Plus one; 0: none.
  for (uint i = 0; i < LZ4_TABLE_PLACES; ++i) place_before[i] = 0;
  lz4_output out;
  out.bytes = packed + rooms[block].x;
  out.room = rooms[block].y;
  out.written = 0;
  uint anchor = 0;
  for (uint place = 0; place + LZ4_MATCH_LIMIT <= size;) {
    const uint here = four_bytes(bytes + place);
    const uint hash = here * 2654435761u >> (32 - LZ4_HASH_BITS);
    const uint before = place_before[hash];
    place_before[hash] = place + 1;
    const uint offset = place + 1 - before;
    if (before == 0 || offset > LZ4_MOST_OFFSET || four_bytes(bytes + before - 1) != here) {
      ++place;
      continue;
    }
    uint match = LZ4_LEAST_MATCH;
    while (place + match + LZ4_LAST_LITERALS < size &&
           bytes[place + match] == bytes[place + match - offset]) {
      ++match;
    }
    put_sequence(&out, bytes + anchor, place - anchor, match, offset);
    place += match;
    anchor = place;
  }
  put_sequence(&out, bytes + anchor, size - anchor, 0, 0);
  if (out.written <= out.room) blocks[block].y = out.written;
}

// Where a decoder reads; every length it takes is checked against what is left before it is used.
typedef struct {
  __global const uchar* bytes;
  uint size;
  uint taken;
} lz4_input;

// A length of which the token has `nibble`; more than any block can have if the block stops short.
ulong take_length(lz4_input* in, uint nibble) {
  ulong length = nibble;
  if (nibble < 15) return length;
  for (;;) {
    if (in->taken == in->size) return ULONG_MAX;
    const uint byte = in->bytes[in->taken++];
    length += byte;
    if (byte != 255) return length;
  }
}

// Whether a block expands to exactly `size` bytes; nothing beyond them is written.
int expand(lz4_input in, __global uchar* plain, uint size) {
  uint given = 0;
  while (in.taken < in.size) {
    const uint token = in.bytes[in.taken++];
    const ulong literals = take_length(&in, token >> 4);
    if (literals > in.size - in.taken || literals > size - given) return 0;
    for (uint i = 0; i < literals; ++i) plain[given++] = in.bytes[in.taken++];
    if (in.taken == in.size) return given == size;
    if (size - given < LZ4_MATCH_LIMIT || in.size - in.taken < 2) return 0;
    const uint offset = load_u16(in.bytes, in.taken);
    in.taken += 2;
    const ulong match = take_length(&in, token & 15);
    if (offset == 0 || offset > given) return 0;
    if (match > size - given - LZ4_LEAST_MATCH - LZ4_LAST_LITERALS) return 0;
    for (uint i = 0; i < match + LZ4_LEAST_MATCH; ++i, ++given) plain[given] = plain[given - offset];
  }
  return 0;
}

// Any bytes may come: `is_good` tells of each block whether it was one of that plain size, without an
// offset of zero. What is not leaves anything in its plain bytes.
__kernel void lz4_decode(__global const uchar* packed, __global const uint2* blocks, uint count,
                         __global uchar* plain, __global const uint2* plain_places,
                         __global int* is_good) {
  const size_t block = get_global_id(0);
  if (block >= count) return;
  lz4_input in;
  in.bytes = packed + blocks[block].x;
  in.size = blocks[block].y;
  in.taken = 0;
  is_good[block] = expand(in, plain + plain_places[block].x, plain_places[block].y);
}
