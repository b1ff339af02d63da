// Scores, weights and weighted sums over tiles of rows in binary32: what dense attention is made
// of.
//
// Included once per SIMD target (Google Highway's foreach_target).
#if defined(NEARKV_ATTEND_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARKV_ATTEND_TILES_INL_H_
#undef NEARKV_ATTEND_TILES_INL_H_
#else
#define NEARKV_ATTEND_TILES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "attend/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
inline constexpr std::size_t kScoreStride = 64;  // Tokens whose scores lie together, by row.
inline constexpr std::size_t kTileTokens =
    16;  // Rows decoded at a time: they stay in the first-level cache.
inline constexpr std::size_t kTokenBlock = 4;  // Tokens whose sums stay in registers.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
inline constexpr std::size_t kMostSums = 8;  // Of 16 registers, operands take the rest.
#else
inline constexpr std::size_t kMostSums = 16;
#endif
inline constexpr std::size_t kScoreRows = kMostSums / kTokenBlock;
inline constexpr std::size_t kWeighedRows = 4;

/// Sums of four vectors.
template <class V>
HWY_INLINE void store_sums(V a, V b, V c, V d, float* HWY_RESTRICT out) {
  const hn::DFromV<V> df;
  const hn::Repartition<double, hn::DFromV<V>> dd;
  const auto ab = hn::Add(hn::InterleaveLower(df, a, b), hn::InterleaveUpper(df, a, b));
  const auto cd = hn::Add(hn::InterleaveLower(df, c, d), hn::InterleaveUpper(df, c, d));
  const auto lower = hn::InterleaveLower(dd, hn::BitCast(dd, ab), hn::BitCast(dd, cd));
  const auto upper = hn::InterleaveUpper(dd, hn::BitCast(dd, ab), hn::BitCast(dd, cd));
  const auto blocks = hn::Add(hn::BitCast(df, lower), hn::BitCast(df, upper));
  if constexpr (hn::MaxLanes(df) == 16) {
    const hn::Half<decltype(df)> dh;
    const hn::Half<decltype(dh)> dq;
    const auto half = hn::Add(hn::LowerHalf(dh, blocks), hn::UpperHalf(dh, blocks));
    hn::StoreU(hn::Add(hn::LowerHalf(dq, half), hn::UpperHalf(dq, half)), dq, out);
  } else if constexpr (hn::MaxLanes(df) == 8) {
    const hn::Half<decltype(df)> dh;
    hn::StoreU(hn::Add(hn::LowerHalf(dh, blocks), hn::UpperHalf(dh, blocks)), dh, out);
  } else {
    hn::StoreU(blocks, df, out);
  }
}

/// Dot products of kRows query rows with kTokenBlock keys: scores[row * kScoreStride + token].
template <std::size_t kRows>
HWY_INLINE void score_block(const float* HWY_RESTRICT keys, const float* HWY_RESTRICT query,
                            std::size_t dim, float* HWY_RESTRICT scores) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  V sums[kRows][kTokenBlock];
  for (auto& row : sums) {
    for (V& sum : row) sum = hn::Zero(d);
  }
  for (std::size_t i = 0; i < dim; i += hn::Lanes(d)) {
    V key[kTokenBlock];
    for (std::size_t t = 0; t < kTokenBlock; ++t) key[t] = hn::Load(d, keys + t * dim + i);
    for (std::size_t row = 0; row < kRows; ++row) {
      const V q = hn::Load(d, query + row * dim + i);
      for (std::size_t t = 0; t < kTokenBlock; ++t) {
        sums[row][t] = hn::MulAdd(q, key[t], sums[row][t]);
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    store_sums(sums[row][0], sums[row][1], sums[row][2], sums[row][3], scores + row * kScoreStride);
  }
}

/// Dot products of `rows` query rows with a tile of keys, both in one order of channels.
inline void score_tile(const float* HWY_RESTRICT keys, const float* HWY_RESTRICT query,
                       std::size_t rows, std::size_t dim, float* HWY_RESTRICT scores) {
  for (std::size_t t = 0; t < kTileTokens; t += kTokenBlock) {
    std::size_t row = 0;
    for (; row + kScoreRows <= rows; row += kScoreRows) {
      score_block<kScoreRows>(keys + t * dim, query + row * dim, dim,
                              scores + row * kScoreStride + t);
    }
    for (; row < rows; ++row) {
      score_block<1>(keys + t * dim, query + row * dim, dim, scores + row * kScoreStride + t);
    }
  }
}

/// Weights of `rows` rows, `stride` apart.
struct RowWeights {
  const float* weights;
  std::size_t stride;
};

/// Adds kRows rows' weighted sums of `count` vectors to their accumulators, kVectors registers of
/// elements at a time.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void accumulate_block(const float* HWY_RESTRICT values, std::size_t stride,
                                 std::size_t count, RowWeights weights,
                                 float* HWY_RESTRICT accumulator, std::size_t accumulator_stride) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const std::size_t lanes = hn::Lanes(d);
  V sums[kRows][kVectors];
  for (auto& row : sums) {
    for (V& sum : row) sum = hn::Zero(d);
  }
  for (std::size_t i = 0; i < count; ++i) {
    V value[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      value[v] = hn::Load(d, values + i * stride + v * lanes);
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      const V weight = hn::Set(d, weights.weights[row * weights.stride + i]);
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[row][v] = hn::MulAdd(weight, value[v], sums[row][v]);
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      float* const to = accumulator + row * accumulator_stride + v * lanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), sums[row][v]), d, to);
    }
  }
}

template <std::size_t kRows>
void accumulate_rows(const float* HWY_RESTRICT values, std::size_t dim, std::size_t count,
                     RowWeights weights, float* HWY_RESTRICT accumulator, std::size_t stride) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t channel = 0;
  constexpr std::size_t kVectors = std::min<std::size_t>(kMostSums / kRows, 4);
  for (; channel + kVectors * lanes <= dim; channel += kVectors * lanes) {
    accumulate_block<kRows, kVectors>(values + channel, dim, count, weights, accumulator + channel,
                                      stride);
  }
  for (; channel + 2 * lanes <= dim; channel += 2 * lanes) {
    accumulate_block<kRows, 2>(values + channel, dim, count, weights, accumulator + channel,
                               stride);
  }
  for (; channel < dim; channel += lanes) {
    accumulate_block<kRows, 1>(values + channel, dim, count, weights, accumulator + channel,
                               stride);
  }
}

/// accumulator[row] += the sum of `count` vectors values[i] of `dim` elements, weighed by
/// weights[row][i]; accumulators lie `stride` apart.
inline void accumulate(const float* HWY_RESTRICT values, std::size_t dim, std::size_t count,
                       RowWeights weights, std::size_t rows, float* HWY_RESTRICT accumulator,
                       std::size_t stride) {
  for (; rows >= kWeighedRows; rows -= kWeighedRows) {
    accumulate_rows<kWeighedRows>(values, dim, count, weights, accumulator, stride);
    weights.weights += kWeighedRows * weights.stride;
    accumulator += kWeighedRows * stride;
  }
  if (rows == 3) accumulate_rows<3>(values, dim, count, weights, accumulator, stride);
  if (rows == 2) accumulate_rows<2>(values, dim, count, weights, accumulator, stride);
  if (rows == 1) accumulate_rows<1>(values, dim, count, weights, accumulator, stride);
}

/// What a row has summed so far: see SoftmaxState.
struct RowSoftmax {
  float* maximum;
  float* sum;
  float* values;
  std::size_t dim;
};

/// Turns kScoreStride logits of a row into weights against the row's running maximum; those that
/// are not `visible` become zero.
inline void weigh_row(float soft_cap, std::uint64_t visible, float* HWY_RESTRICT scores,
                      const RowSoftmax& row) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  if (soft_cap > 0) {
    const auto cap = hn::Set(d, soft_cap);
    const auto inverse = hn::Set(d, 1.0F / soft_cap);
    for (std::size_t t = 0; t < kScoreStride; t += lanes) {
      hn::Store(hn::Mul(cap, tanh(d, hn::Mul(hn::Load(d, scores + t), inverse))), d, scores + t);
    }
  }
  for (std::uint64_t hidden = ~visible; hidden != 0; hidden &= hidden - 1) {
    scores[std::countr_zero(hidden)] = -std::numeric_limits<float>::infinity();
  }
  auto largest = hn::Load(d, scores);
  for (std::size_t t = lanes; t < kScoreStride; t += lanes) {
    largest = hn::Max(largest, hn::Load(d, scores + t));
  }
  if (const float top = hn::GetLane(hn::MaxOfLanes(d, largest)); top > *row.maximum) {
    const auto factor = hn::Set(d, std::exp2(*row.maximum - top));
    *row.sum *= hn::GetLane(factor);
    for (std::size_t c = 0; c < row.dim; c += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, row.values + c), factor), d, row.values + c);
    }
    *row.maximum = top;
  }
  const auto reference = hn::Set(d, *row.maximum);
  auto sum = hn::Zero(d);
  for (std::size_t t = 0; t < kScoreStride; t += lanes) {
    const auto weight = exp2(d, hn::Sub(hn::Load(d, scores + t), reference));
    hn::Store(weight, d, scores + t);
    sum = hn::Add(sum, weight);
  }
  *row.sum += hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#endif  // NEARKV_ATTEND_TILES_INL_H_
