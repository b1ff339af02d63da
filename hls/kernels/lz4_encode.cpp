// Greedy: where the four bytes at a place stood before, as a table of the last place of each hash
// remembers, it takes as many as are alike. The table begins empty with every block.
#include "kernels/lz4.hpp"
#include "kernels/number.hpp"
#include "kernels/rows.hpp"

using namespace nearkv::kernels;

namespace {

constexpr int kMatchLimit = 12;
constexpr int kLastLiterals = 5;
constexpr int kLeastMatch = 4;
constexpr int kHashBits = 13;
constexpr int kNoPlace = -1;

/// Literals, then a match; the last sequence has none, and match 0.
struct Sequence {
  ap_uint<17> first_literal;
  ap_uint<17> literals;
  ap_uint<17> match;
  ap_uint<16> offset;
};

ap_uint<32> four_bytes(const ap_uint<8> plain[kMostPlainBytes], int place) {
#pragma HLS inline
  return (plain[place + 3], plain[place + 2], plain[place + 1], plain[place]);
}

int hash_of(ap_uint<32> bytes) {
#pragma HLS inline
  const ap_uint<32> product = bytes * ap_uint<32>(2654435761U);
  return product.range(31, 32 - kHashBits).to_int();
}

/// Two copies: one to search, one to take literals from.
void load(const Burst* memory, int plain_bytes, ap_uint<8> searched[kMostPlainBytes],
          ap_uint<8> literals[kMostPlainBytes]) {
  Burst burst = 0;
load_bytes:
  for (int i = 0; i < plain_bytes; ++i) {
#pragma HLS loop_tripcount max = 65536
#pragma HLS pipeline II = 1  // A byte of each copy per cycle.
    if (i % kBurstBytes == 0) burst = memory[i / kBurstBytes];
    searched[i] = part_of<8>(burst, i % kBurstBytes);
    literals[i] = part_of<8>(burst, i % kBurstBytes);
  }
}

void find_matches(const ap_uint<8> plain[kMostPlainBytes], int plain_bytes,
                  stream<Sequence>& sequences) {
  std::int32_t last_place[1 << kHashBits];
clear_table:
  for (int hash = 0; hash < 1 << kHashBits; ++hash) {
#pragma HLS pipeline II = 1  // One memory.
    last_place[hash] = kNoPlace;
  }
  int place = 0;
  int anchor = 0;
  int source = kNoPlace;  // Of the match that is being measured.
  int match = 0;
  bool is_over = plain_bytes <= kMatchLimit;
search_steps:
  for (int step = 0; step < 2 * plain_bytes; ++step) {
#pragma HLS loop_tripcount max = 131072
#pragma HLS pipeline II = 2  // A place of the table is read and written, maybe twice in a row.
    if (is_over) continue;
    if (source == kNoPlace) {
      const ap_uint<32> bytes = four_bytes(plain, place);
      const int hash = hash_of(bytes);
      const int found = last_place[hash];
      last_place[hash] = place;
      const bool is_match =
          found != kNoPlace && place - found < 65536 && four_bytes(plain, found) == bytes;
      if (is_match) {
        source = found;
        match = kLeastMatch;
      } else {
        ++place;
        is_over = place + kMatchLimit > plain_bytes;
      }
    } else {
      const bool has_room = place + match < plain_bytes - kLastLiterals;
      if (has_room && plain[place + match] == plain[source + match]) {
        ++match;
      } else {
        sequences.write(Sequence{anchor, place - anchor, match, place - source});
        place += match;
        anchor = place;
        source = kNoPlace;
        is_over = place + kMatchLimit > plain_bytes;
      }
    }
  }
  sequences.write(Sequence{anchor, plain_bytes - anchor, 0, 0});
}

/// What a sequence still has to write.
enum Part {
  kBegin,
  kToken,
  kLiteralLength,
  kLiterals,
  kOffsetLow,
  kOffsetHigh,
  kMatchLength,
  kDone
};

void write_block(stream<Sequence>& sequences, const ap_uint<8> plain[kMostPlainBytes],
                 int plain_bytes, Burst* block, int* block_bytes) {
  Part part = kBegin;
  Sequence sequence{0, 0, 0, 0};
  int length = 0;   // What is left of a length to write.
  int literal = 0;  // Literals written.
  int written = 0;
  Burst line = 0;
write_bytes:
  for (int step = 0; step < 2 * most_lz4_bytes(plain_bytes); ++step) {
#pragma HLS loop_tripcount max = 131618
#pragma HLS pipeline II = 1  // A byte per step, but for the step in which a sequence is taken.
    ap_uint<8> byte = 0;
    bool gives = part != kBegin && part != kDone;
    switch (part) {
      case kBegin:
        sequence = sequences.read();
        part = kToken;
        break;
      case kToken: {
        const int literals = sequence.literals.to_int();
        const int extra = sequence.match == 0 ? 0 : sequence.match.to_int() - kLeastMatch;
        byte.range(7, 4) = least_of(literals, 15);
        byte.range(3, 0) = least_of(extra, 15);
        length = literals - 15;
        literal = 0;
        part = literals >= 15 ? kLiteralLength : kLiterals;
        break;
      }
      case kLiteralLength:
        byte = least_of(length, 255);
        if (length < 255) part = kLiterals;
        length -= 255;
        break;
      case kLiterals:
        gives = literal < sequence.literals;
        byte = plain[sequence.first_literal + literal];
        if (gives) ++literal;
        break;
      case kOffsetLow:
        byte = sequence.offset.range(7, 0);
        part = kOffsetHigh;
        break;
      case kOffsetHigh:
        byte = sequence.offset.range(15, 8);
        length = sequence.match.to_int() - kLeastMatch - 15;
        part = length >= 0 ? kMatchLength : kBegin;
        break;
      case kMatchLength:
        byte = least_of(length, 255);
        if (length < 255) part = kBegin;
        length -= 255;
        break;
      default:
        break;
    }
    if (part == kLiterals && literal == sequence.literals) {
      part = sequence.match == 0 ? kDone : kOffsetLow;
    }
    if (gives) {
      set_part<8>(line, written % kBurstBytes, byte);
      if (written % kBurstBytes == kBurstBytes - 1) block[written / kBurstBytes] = line;
      ++written;
    }
  }
  if (written % kBurstBytes != 0) block[written / kBurstBytes] = line;
  *block_bytes = written;
}

void encode_block(const Burst* memory, int plain_bytes, Burst* block, int* block_bytes) {
#pragma HLS dataflow
  ap_uint<8> searched[kMostPlainBytes];
  ap_uint<8> literals[kMostPlainBytes];
#pragma HLS array_partition variable = searched cyclic factor = 4
  stream<Sequence> sequences("sequences");
#pragma HLS stream variable = sequences depth = 16
  load(memory, plain_bytes, searched, literals);
  find_matches(searched, plain_bytes, sequences);
  write_block(sequences, literals, plain_bytes, block, block_bytes);
}

}  // namespace

extern "C" int nearkv_lz4_encode(const Burst* plain, int plain_bytes, Burst* block) {
#pragma HLS interface mode = m_axi port = plain bundle = plain
#pragma HLS interface mode = m_axi port = block bundle = block
  int block_bytes = 0;
  encode_block(plain, plain_bytes, block, &block_bytes);
  return block_bytes;
}
