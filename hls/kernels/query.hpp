// Query rows and exact scores (ARITHMETIC.md 1.1, 1.5).
#ifndef NEARKV_HLS_QUERY_HPP_
#define NEARKV_HLS_QUERY_HPP_

#include "kernels/number.hpp"
#include "kernels/types.hpp"

namespace nearkv::kernels {

constexpr int kQueryLanes = kBurstBytes / 4;  // Of binary32.

/// Integers and exponents of up to kRows rows of binary32, which follow one another. Rows from
/// `group` on are zero.
inline void load_query(const Burst* query, int group, int channels,
                       QueryInteger integers[kRows][kMaxChannels], PerRow<int>* exponents) {
  Burst patterns[kMaxChannels / kQueryLanes];
#pragma HLS array_partition variable = patterns complete
load_rows:
  for (int row = 0; row < kRows; ++row) {
    int top = 0;
  find_top:
    for (int i = 0; i < kMaxChannels / kQueryLanes; ++i) {
#pragma HLS pipeline II = 1  // A burst per cycle.
      const bool is_there = row < group && i * kQueryLanes < channels;
      patterns[i] = is_there ? query[row * (channels / kQueryLanes) + i] : Burst(0);
      for (int lane = 0; lane < kQueryLanes; ++lane) {
#pragma HLS unroll
        top = largest_of(top, decode_binary32(part_of<32>(patterns[i], lane)).exponent.to_int());
      }
    }
    exponents->row[row] = top;
  align:
    for (int i = 0; i < kMaxChannels / kQueryLanes; ++i) {
#pragma HLS pipeline II = 1  // Lanes write to memories of their own.
      for (int lane = 0; lane < kQueryLanes; ++lane) {
#pragma HLS unroll
        integers[row][i * kQueryLanes + lane] =
            query_integer(decode_binary32(part_of<32>(patterns[i], lane)), top);
      }
    }
  }
}

/// S of each token for all rows: kLanes channels of kRows rows per cycle.
inline void dot_products(stream<Word<KeyInteger>>& keys,
                         const QueryInteger query[kRows][kMaxChannels], int page_count,
                         int channels, stream<PerRow<Score>>& scores) {
  const int words = words_of(channels);
  PerRow<Score> sums;
#pragma HLS array_partition variable = sums.row complete
dot_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 16384
  dot_tokens:
    for (int token = 0; token < kTokens; ++token) {
    dot_words:
      for (int word = 0; word < words; ++word) {
#pragma HLS loop_tripcount max = 4
#pragma HLS loop_flatten
#pragma HLS pipeline II = 1  // Only the last addition of the tree depends on the word before.
        const Word<KeyInteger> key = keys.read();
      dot_rows:
        for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
          Score sum = word == 0 ? Score(0) : sums.row[row];
          for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS unroll
            sum += query[row][word * kLanes + lane] * key.lane[lane];
          }
          sums.row[row] = sum;
        }
        if (word + 1 == words) scores.write(sums);
      }
    }
  }
}

}  // namespace nearkv::kernels

#endif  // NEARKV_HLS_QUERY_HPP_
