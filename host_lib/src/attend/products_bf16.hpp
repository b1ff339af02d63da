// Products of queries with keys, and of weights with values, by AVX-512's bf16 instructions.
//
// Only for span_avx512.cpp and span_amx.cpp, which are compiled for them: what is defined here is
// in no other file.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "attend/span.hpp"
#include "attend/span_ahead.hpp"

namespace nearkv::bf16 {

inline constexpr std::size_t kLanes = 16;

inline __m512 add_products(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
inline __m512i load(const Bf16* from) { return _mm512_loadu_si512(from); }
inline __m512i broadcast_pair(const Bf16* from) {
  std::int32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return _mm512_set1_epi32(pair);
}

/// Sums of the lanes of sixteen vectors, four times four.
inline __m512 sums_of(const __m512 (&v)[4][4]) {
  __m512 quarter[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const __m512 ab =
        _mm512_add_ps(_mm512_unpacklo_ps(v[i][0], v[i][1]), _mm512_unpackhi_ps(v[i][0], v[i][1]));
    const __m512 cd =
        _mm512_add_ps(_mm512_unpacklo_ps(v[i][2], v[i][3]), _mm512_unpackhi_ps(v[i][2], v[i][3]));
    const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    quarter[i] = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
  }
  const __m512 x = _mm512_add_ps(_mm512_shuffle_f32x4(quarter[0], quarter[1], 0x88),
                                 _mm512_shuffle_f32x4(quarter[0], quarter[1], 0xDD));
  const __m512 y = _mm512_add_ps(_mm512_shuffle_f32x4(quarter[2], quarter[3], 0x88),
                                 _mm512_shuffle_f32x4(quarter[2], quarter[3], 0xDD));
  return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xDD));
}

/// What a kernel reads of a span.
struct Part {
  const Bf16* here;    ///< The first element.
  std::size_t stride;  ///< kRows: of a token. kChannelMajor: of a channel. kTiles: of a group.
};

// Scores of kRows query rows with `count` tokens: scores[row * kSpanTokens + token]. What `ahead`
// has taken is fetched meanwhile.

template <std::size_t kRows>
inline void score_rows(const Part& keys, const Bf16* query, std::size_t dim, std::size_t count,
                       Ahead* ahead, float* scores) {
  ahead->spread(count / 4);
  for (std::size_t t = 0; t < count; t += kLanes) {
    __m512 sums[kRows][4][4];
#pragma GCC unroll 4
    for (std::size_t u = 0; u < 4; ++u) {
      const Bf16* const row = keys.here + (t + 4 * u) * dim;
      ahead->step();
      __m512 some[kRows][4];
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 4; ++i) some[r][i] = _mm512_setzero_ps();
      }
      for (std::size_t c = 0; c < dim; c += 32) {
        __m512i key[4];
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 4; ++i) key[i] = load(row + i * dim + c);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kRows; ++r) {
          const __m512i q = load(query + r * dim + c);
#pragma GCC unroll 4
          for (std::size_t i = 0; i < 4; ++i) some[r][i] = add_products(some[r][i], key[i], q);
        }
      }
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 4; ++i) sums[r][u][i] = some[r][i];
      }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      _mm512_store_ps(scores + r * kSpanTokens + t, sums_of(sums[r]));
    }
  }
}

/// 32 sums in their order, of two vectors that hold those of pairs unpacked by 16-bit elements.
struct Ordered {
  __m512 first;
  __m512 second;
};

inline Ordered ordered(__m512 low, __m512 high) {
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i second =
      _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  return {_mm512_permutex2var_ps(low, first, high), _mm512_permutex2var_ps(low, second, high)};
}

template <std::size_t kRows>
inline void score_channels(const Part& keys, const Bf16* query, std::size_t dim, std::size_t count,
                           Ahead* ahead, float* scores) {
  ahead->spread((count + 31) / 32 * (dim / 4));
  for (std::size_t t = 0; t < count; t += 32) {
    const bool is_half = count - t < 32;  // A block of 16, 48 .. tokens.
    const __mmask32 lanes = is_half ? 0xFFFFU : 0xFFFFFFFFU;
    __m512 low[kRows][2];
    __m512 high[kRows][2];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      low[r][0] = low[r][1] = high[r][0] = high[r][1] = _mm512_setzero_ps();
    }
    for (std::size_t c = 0; c < dim; c += 4) {
      const Bf16* const key = keys.here + c * keys.stride + t;
      ahead->step();
#pragma GCC unroll 2
      for (std::size_t h = 0; h < 2; ++h) {
        const __m512i a = _mm512_maskz_loadu_epi16(lanes, key + 2 * h * keys.stride);
        const __m512i b = _mm512_maskz_loadu_epi16(lanes, key + (2 * h + 1) * keys.stride);
        const __m512i pairs_low = _mm512_unpacklo_epi16(a, b);
        const __m512i pairs_high = _mm512_unpackhi_epi16(a, b);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kRows; ++r) {
          const __m512i q = broadcast_pair(query + r * dim + c + 2 * h);
          low[r][h] = add_products(low[r][h], pairs_low, q);
          high[r][h] = add_products(high[r][h], pairs_high, q);
        }
      }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      const Ordered sums =
          ordered(_mm512_add_ps(low[r][0], low[r][1]), _mm512_add_ps(high[r][0], high[r][1]));
      float* const to = scores + r * kSpanTokens + t;
      _mm512_store_ps(to, sums.first);
      if (!is_half) _mm512_store_ps(to + kLanes, sums.second);
    }
  }
}

template <std::size_t kRows>
inline void score_tiles(const Part& keys, const Bf16* query, std::size_t dim, std::size_t count,
                        Ahead* ahead, float* scores) {
  ahead->spread((count + 31) / 32 * (dim / 4));
  for (std::size_t t = 0; t < count; t += 2 * kLanes) {
    const Bf16* const first = keys.here + t / kLanes * keys.stride;
    __m512 sums[kRows][2][2];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      sums[r][0][0] = sums[r][0][1] = sums[r][1][0] = sums[r][1][1] = _mm512_setzero_ps();
    }
    for (std::size_t c = 0; c < dim; c += 4) {
      ahead->step();
#pragma GCC unroll 2
      for (std::size_t h = 0; h < 2; ++h) {
#pragma GCC unroll 2
        for (std::size_t g = 0; g < 2; ++g) {
          const Bf16* const key = first + g * keys.stride + (c + 2 * h) * kLanes;
          const __m512i pairs = load(key);
#pragma GCC unroll 4
          for (std::size_t r = 0; r < kRows; ++r) {
            const __m512i q = broadcast_pair(query + r * dim + c + 2 * h);
            sums[r][g][h] = add_products(sums[r][g][h], pairs, q);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (std::size_t g = 0; g < 2; ++g) {
        _mm512_store_ps(scores + r * kSpanTokens + t + g * kLanes,
                        _mm512_add_ps(sums[r][g][0], sums[r][g][1]));
      }
    }
  }
}

/// Weights of a span's tokens by row, as the sum of two bf16 numbers: the high one of all tokens,
/// then the low one.
struct Weights {
  alignas(64) Bf16 numbers[kSpanRows][2][kSpanTokens];

  [[nodiscard, gnu::always_inline]] const Bf16* high(std::size_t row) const {
    return numbers[row][0];
  }
  [[nodiscard, gnu::always_inline]] const Bf16* low(std::size_t row) const {
    return numbers[row][1];
  }
};

// Adds kRows rows' weighted values of `count` tokens to their accumulators. What `ahead` has taken
// is fetched meanwhile.

/// kWide times 32 channels at a time, which stay in unpacked order: the low quarter of each 8
/// channels, then the high one.
template <std::size_t kRows, std::size_t kWide>
inline void add_rows(const Part& values, const Weights& weights, std::size_t row, std::size_t dim,
                     std::size_t count, std::size_t channel, Ahead* ahead, float* accumulators) {
  const Bf16* const here = values.here + channel;
  __m512 sums[kRows][kWide][2];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t w = 0; w < kWide; ++w) {
      const float* const from = accumulators + r * dim + channel + 32 * w;
      sums[r][w][0] = _mm512_loadu_ps(from);
      sums[r][w][1] = _mm512_loadu_ps(from + kLanes);
    }
  }
  for (std::size_t t = 0; t < count; t += 2) {
    ahead->step();
#pragma GCC unroll 2
    for (std::size_t w = 0; w < kWide; ++w) {
      const Bf16* const at = here + t * values.stride + 32 * w;
      const __m512i a = load(at);
      const __m512i b = load(at + values.stride);
      const __m512i pairs_low = _mm512_unpacklo_epi16(a, b);
      const __m512i pairs_high = _mm512_unpackhi_epi16(a, b);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        const __m512i h = broadcast_pair(weights.high(row + r) + t);
        const __m512i l = broadcast_pair(weights.low(row + r) + t);
        sums[r][w][0] = add_products(add_products(sums[r][w][0], pairs_low, h), pairs_low, l);
        sums[r][w][1] = add_products(add_products(sums[r][w][1], pairs_high, h), pairs_high, l);
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t w = 0; w < kWide; ++w) {
      float* const to = accumulators + r * dim + channel + 32 * w;
      _mm512_storeu_ps(to, sums[r][w][0]);
      _mm512_storeu_ps(to + kLanes, sums[r][w][1]);
    }
  }
}

template <std::size_t kRows>
inline void add_values_rows(const Part& values, const Weights& weights, std::size_t row,
                            std::size_t dim, std::size_t count, Ahead* ahead, float* accumulators) {
  constexpr std::size_t kWide = kRows <= 4 ? 2 : 1;
  std::size_t channel = 0;
  ahead->spread((dim / (32 * kWide) + dim % (32 * kWide) / 32) * (count / 2));
  for (; channel + 32 * kWide <= dim; channel += 32 * kWide) {
    add_rows<kRows, kWide>(values, weights, row, dim, count, channel, ahead, accumulators);
  }
  for (; channel < dim; channel += 32) {
    add_rows<kRows, 1>(values, weights, row, dim, count, channel, ahead, accumulators);
  }
}

/// Two times 16 channels at a time.
template <std::size_t kRows>
inline void add_values_tiles(const Part& values, const Weights& weights, std::size_t row,
                             std::size_t dim, std::size_t count, Ahead* ahead,
                             float* accumulators) {
  ahead->spread(dim / 32 * (count / 2));
  for (std::size_t channel = 0; channel < dim; channel += 2 * kLanes) {
    const Bf16* const here = values.here + channel / kLanes * values.stride;
    __m512 sums[kRows][2];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      sums[r][0] = _mm512_loadu_ps(accumulators + r * dim + channel);
      sums[r][1] = _mm512_loadu_ps(accumulators + r * dim + channel + kLanes);
    }
    for (std::size_t t = 0; t < count; t += 2) {
      ahead->step();
#pragma GCC unroll 2
      for (std::size_t g = 0; g < 2; ++g) {
        const Bf16* const at = here + g * values.stride + t * kLanes;
        const __m512i pairs = load(at);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kRows; ++r) {
          const __m512i h = broadcast_pair(weights.high(row + r) + t);
          const __m512i l = broadcast_pair(weights.low(row + r) + t);
          sums[r][g] = add_products(add_products(sums[r][g], pairs, h), pairs, l);
        }
      }
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      _mm512_storeu_ps(accumulators + r * dim + channel, sums[r][0]);
      _mm512_storeu_ps(accumulators + r * dim + channel + kLanes, sums[r][1]);
    }
  }
}

}  // namespace nearkv::bf16
