// A byte is taken or given in every step; so a block ends after as many steps as it has bytes,
// packed and plain.
#include "kernels/lz4.hpp"
#include "kernels/number.hpp"
#include "kernels/rows.hpp"

using namespace nearkv::kernels;

namespace {

// Of the format: the last match begins so far from the end, and so many literals follow it.
constexpr int kMatchLimit = 12;
constexpr int kLastLiterals = 5;
constexpr int kLeastMatch = 4;
constexpr int kNear = 4;  // Bytes that are held in registers, as the memory has them too late.

enum State {
  kToken,
  kLiteralLength,
  kLiteral,
  kOffsetLow,
  kOffsetHigh,
  kMatchLength,
  kMatch,
  kEnded,
  kRefused
};

void to_bytes(const Burst* block, int block_bytes, stream<ap_uint<8>>& bytes) {
  Burst burst = 0;
give_bytes:
  for (int i = 0; i < block_bytes; ++i) {
#pragma HLS loop_tripcount max = 65809
#pragma HLS pipeline II = 1  // A burst is read every 64 cycles.
    if (i % kBurstBytes == 0) burst = block[i / kBurstBytes];
    bytes.write(part_of<8>(burst, i % kBurstBytes));
  }
}

/// Where a decoder stands.
struct Decoder {
  State state;
  int taken;     // Bytes of the block,
  int given;     // and plain ones.
  int literals;  // Of this sequence, still to come.
  int match;     // Of this sequence, still to give; before, its length as far as it is known.
  int offset;
};

/// After a length is known: whether that many literals can be.
State literals_or_end(const Decoder& at, int block_bytes, int plain_bytes) {
#pragma HLS inline
  if (at.literals > block_bytes - at.taken || at.literals > plain_bytes - at.given) return kRefused;
  if (at.literals != 0) return kLiteral;
  if (at.taken == block_bytes) return at.given == plain_bytes ? kEnded : kRefused;
  return at.given + kMatchLimit > plain_bytes ? kRefused : kOffsetLow;
}

/// After a match's length is known: whether it can be.
State match_or_refuse(const Decoder& at, int plain_bytes) {
#pragma HLS inline
  const bool is_good =
      at.offset != 0 && at.offset <= at.given && at.match <= plain_bytes - kLastLiterals - at.given;
  return is_good ? kMatch : kRefused;
}

void decode(stream<ap_uint<8>>& bytes, int block_bytes, int plain_bytes, Burst* plain,
            bool* is_good) {
  ap_uint<8> history[kMostPlainBytes];
#pragma HLS bind_storage variable = history type = ram_2p impl = bram
  ap_uint<8> near[kNear];
#pragma HLS array_partition variable = near complete
  Decoder at{kToken, 0, 0, 0, 0, 0};
  Burst line = 0;
steps:
  for (int step = 0; step < block_bytes + plain_bytes; ++step) {
#pragma HLS loop_tripcount max = 131345
// What the last kNear steps wrote is read from `near`.
#pragma HLS dependence variable = history inter distance = 4 true
#pragma HLS pipeline II = 1  // By `near`; a byte a step, a quarter to a tenth of the RTL's.
    const bool takes = at.state != kMatch && at.taken < block_bytes;
    ap_uint<8> byte = 0;
    if (takes) {
      byte = bytes.read();
      ++at.taken;
    } else if (at.state != kMatch && at.state != kEnded) {
      at.state = kRefused;  // The block stops short.
    }
    bool gives = false;
    ap_uint<8> out = byte;
    switch (at.state) {
      case kToken:
        at.literals = byte.range(7, 4).to_int();
        at.match = byte.range(3, 0).to_int() + kLeastMatch;
        at.state =
            at.literals == 15 ? kLiteralLength : literals_or_end(at, block_bytes, plain_bytes);
        break;
      case kLiteralLength:
        at.literals += byte.to_int();
        if (byte != 255) at.state = literals_or_end(at, block_bytes, plain_bytes);
        break;
      case kLiteral:
        gives = true;
        break;
      case kOffsetLow:
        at.offset = byte.to_int();
        at.state = kOffsetHigh;
        break;
      case kOffsetHigh:
        at.offset += byte.to_int() << 8;
        at.state = at.match == 15 + kLeastMatch ? kMatchLength : match_or_refuse(at, plain_bytes);
        break;
      case kMatchLength:
        at.match += byte.to_int();
        if (byte != 255) at.state = match_or_refuse(at, plain_bytes);
        break;
      case kMatch:
        gives = true;
        out = at.offset <= kNear ? near[at.offset - 1] : history[at.given - at.offset];
        break;
      default:
        break;
    }
    if (gives) {
      history[at.given] = out;
      for (int i = kNear - 1; i > 0; --i) {
#pragma HLS unroll
        near[i] = near[i - 1];
      }
      near[0] = out;
      set_part<8>(line, at.given % kBurstBytes, out);
      if (at.given % kBurstBytes == kBurstBytes - 1 || at.given == plain_bytes - 1) {
        plain[at.given / kBurstBytes] = line;
      }
      ++at.given;
      if (at.state == kLiteral && --at.literals == 0) {
        at.state = literals_or_end(at, block_bytes, plain_bytes);
      } else if (at.state == kMatch && --at.match == 0) {
        at.state = kToken;
      }
    }
  }
  *is_good = at.state == kEnded;
}

void decode_block(const Burst* block, int block_bytes, int plain_bytes, Burst* plain,
                  bool* is_good) {
#pragma HLS dataflow
  stream<ap_uint<8>> bytes("bytes");
#pragma HLS stream variable = bytes depth = 128
  to_bytes(block, block_bytes, bytes);
  decode(bytes, block_bytes, plain_bytes, plain, is_good);
}

}  // namespace

extern "C" bool nearkv_lz4_decode(const Burst* block, int block_bytes, int plain_bytes,
                                  Burst* plain) {
#pragma HLS interface mode = m_axi port = block bundle = block
#pragma HLS interface mode = m_axi port = plain bundle = plain
  bool is_good = false;
  decode_block(block, block_bytes, plain_bytes, plain, &is_good);
  return is_good;
}
