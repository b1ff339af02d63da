// From bursts of listed pages to rows of integers: the first processes of every kernel that reads
// keys or values.
#ifndef NEARKV_HLS_ROWS_HPP_
#define NEARKV_HLS_ROWS_HPP_

#include "kernels/number.hpp"
#include "kernels/types.hpp"

namespace nearkv::kernels {

/// How rows are stored: a part of `first_bytes`, and with DELTA4 its nibbles behind it.
struct RowShape {
  bool is_delta4;
  int channels;
};

constexpr int kRowParts = 4;    ///< RAW: 256 bytes at most.
constexpr int kNibblePart = 2;  ///< DELTA4: up to 128 bytes of low parts before the nibbles.

/// One row as it is stored, each part from the start of a burst.
struct StoredRow {
  Burst part[kRowParts];
};

inline void read_bursts(const Burst* memory, std::uint32_t first, std::uint32_t count,
                        stream<Burst>& out) {
read_bursts:
  for (std::uint32_t i = 0; i < count; ++i) {
#pragma HLS loop_tripcount max = 256
#pragma HLS pipeline II = 1  // A burst per cycle is what the port delivers; reads do not depend.
    out.write(memory[first + i]);
  }
}

/// Pages' places in bursts, read ahead of the pages by a process and port of their own, so that no
/// page waits for its place.
inline void read_list(const std::uint32_t* pages, int page_count, stream<std::uint32_t>& places) {
read_places:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
#pragma HLS pipeline II = 1  // Places do not depend on one another.
    places.write(pages[page]);
  }
}

/// Two arrays of every listed page, burst by burst, by one process: a port has one reader.
inline void read_pages(const Burst* memory, stream<std::uint32_t>& places, int page_count,
                       ArrayPlace small, stream<Burst>& of_small, ArrayPlace large,
                       stream<Burst>& of_large) {
  std::uint32_t first = 0;
read_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
  read_arrays:
    for (std::uint32_t i = 0; i < small.bursts + large.bursts; ++i) {
#pragma HLS loop_tripcount max = 260
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // A burst per cycle is what the port delivers, page after page.
      if (i == 0) first = places.read();
      if (i < small.bursts) {
        of_small.write(memory[first + small.first + i]);
      } else {
        of_large.write(memory[first + large.first + i - small.bursts]);
      }
    }
  }
}

/// Bursts to pieces of up to a burst: `first_bytes` of each run in whole bursts and what is left of
/// them, then `second_bytes` (a burst at most, or 0) likewise. A page begins at a burst.
inline void cut(stream<Burst>& bursts, int page_count, int runs, int first_bytes, int second_bytes,
                stream<Burst>& pieces) {
  const int first_pieces = (first_bytes + kBurstBytes - 1) / kBurstBytes;
  const int per_run = first_pieces + (second_bytes != 0 ? 1 : 0);
  ap_uint<2 * 8 * kBurstBytes> window = 0;
  int held = 0;
cut_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
  cut_runs:
    for (int run = 0; run < runs; ++run) {
#pragma HLS loop_tripcount max = 64
    cut_pieces:
      for (int piece = 0; piece < per_run; ++piece) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // At most one burst comes for each piece that goes.
        const int left = first_bytes - piece * kBurstBytes;
        const int wanted = piece < first_pieces ? least_of(left, kBurstBytes) : second_bytes;
        if (run == 0 && piece == 0) {
          window = 0;
          held = 0;
        }
        if (held < wanted) {
          window |= ap_uint<2 * 8 * kBurstBytes>(bursts.read()) << 8 * held;
          held += kBurstBytes;
        }
        const Burst mask = ~Burst(0) >> 8 * (kBurstBytes - wanted);
        pieces.write(Burst(window) & mask);
        window >>= 8 * wanted;
        held -= wanted;
      }
    }
  }
}

/// Bursts of K_ROWS or V_ROWS to the pieces of their rows.
inline void cut_rows(stream<Burst>& bursts, int page_count, RowShape shape, stream<Burst>& pieces) {
  const int first_bytes = shape.is_delta4 ? shape.channels : 2 * shape.channels;
  cut(bursts, page_count, kTokens, first_bytes, shape.is_delta4 ? shape.channels / 2 : 0, pieces);
}

/// The pieces of a row side by side.
inline void join_rows(stream<Burst>& pieces, int page_count, RowShape shape,
                      stream<StoredRow>& rows) {
  const int low = (shape.channels + kBurstBytes - 1) / kBurstBytes;
  const int count = shape.is_delta4 ? low + 1 : words_of(shape.channels);
  StoredRow row;
#pragma HLS array_partition variable = row.part complete
join_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
  join_tokens:
    for (int token = 0; token < kTokens; ++token) {
    join_pieces:
      for (int piece = 0; piece < count; ++piece) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // A piece comes per cycle; the row is a register.
        row.part[shape.is_delta4 && piece == low ? kNibblePart : piece] = pieces.read();
        if (piece + 1 == count) rows.write(row);
      }
    }
  }
}

/// The bf16 pattern of a channel; of DELTA4 with what it hides as zero (1.4).
inline ap_uint<16> stored_pattern(const StoredRow& row, bool is_delta4, int channel,
                                  ap_uint<8> exponent) {
#pragma HLS inline
  if (!is_delta4) return part_of<16>(row.part[channel / kLanes], channel % kLanes);
  const ap_uint<8> low = part_of<8>(row.part[channel / kBurstBytes], channel % kBurstBytes);
  const ap_uint<4> nibble = part_of<4>(row.part[kNibblePart], channel);
  const int sum = exponent.to_int() + nibble.to_int();
  ap_uint<16> pattern = 0;
  pattern[15] = low[7];
  if (nibble != 0) {
    pattern.range(14, 7) = sum > 255 ? 255 : sum;
    pattern.range(6, 0) = low.range(6, 0);
  }
  return pattern;
}

/// k̄ (1.2).
struct AsKey {
  using Integer = KeyInteger;
  static Integer of(const Number& element, int top) { return key_integer(element, top); }
};

/// v̄ (1.3).
struct AsValue {
  using Integer = ValueInteger;
  static Integer of(const Number& element, int top) { return value_integer(element, top); }
};

/// Stored rows to integers against the list's largest exponent, a word of channels per cycle.
/// `exponents` brings K_EXPONENTS or V_EXPONENTS of each page, and nothing of RAW rows.
template <typename As>
void decode_rows(stream<StoredRow>& rows, stream<Burst>& exponents, int page_count, RowShape shape,
                 int top, stream<Word<typename As::Integer>>& out) {
  const int words = words_of(shape.channels);
  const int exponent_bursts =
      shape.is_delta4 ? (shape.channels + kBurstBytes - 1) / kBurstBytes : 0;
  Burst held[kMaxChannels / kBurstBytes];
#pragma HLS array_partition variable = held complete
  StoredRow row;
#pragma HLS array_partition variable = row.part complete
decode_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
  take_exponents:
    for (int i = 0; i < exponent_bursts; ++i) {
#pragma HLS loop_tripcount max = 2
#pragma HLS pipeline II = 1  // Two cycles a page, once.
      held[i] = exponents.read();
    }
  decode_tokens:
    for (int token = 0; token < kTokens; ++token) {
    decode_words:
      for (int word = 0; word < words; ++word) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // Lanes do not depend on one another; a row comes every fourth cycle.
        if (word == 0) row = rows.read();
        Word<typename As::Integer> integers;
      decode_lanes:
        for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
          const int channel = word * kLanes + lane;
          const ap_uint<8> exponent =
              part_of<8>(held[channel / kBurstBytes], channel % kBurstBytes);
          const Number number =
              decode_bf16(stored_pattern(row, shape.is_delta4, channel, exponent));
          integers.lane[lane] =
              channel < shape.channels ? As::of(number, top) : typename As::Integer(0);
        }
        out.write(integers);
      }
    }
  }
}

}  // namespace nearkv::kernels

#endif  // NEARKV_HLS_ROWS_HPP_
