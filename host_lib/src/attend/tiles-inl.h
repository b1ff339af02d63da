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
inline constexpr std::size_t kRegisters = 16;
#else
inline constexpr std::size_t kRegisters = 32;
#endif
// Beside the sums, registers hold an operand of each row and one that all rows share.
inline constexpr std::size_t kScoreRows =
    std::min<std::size_t>((kRegisters - 1) / (kTokenBlock + 1), 4);
inline constexpr std::size_t kWeighedRows = 4;

/// Elements as they lie in memory become numbers on the way into a register.
struct Bf16 {
  std::uint16_t bits;
};

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const hwy::float16_t* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), from));
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Bf16* from) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto* const bits = reinterpret_cast<const std::uint16_t*>(from);
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, bits))));
}

/// Elements to be read, and those to be fetched meanwhile: as far apart, or none.
template <typename T>
struct Stream {
  const T* here;
  const T* next = nullptr;

  HWY_INLINE Stream operator+(std::size_t elements) const {
    return {here + elements, next != nullptr ? next + elements : nullptr};
  }
  /// Fetches what stands in for `count` elements that are read now. Into the second-level cache:
  /// the first one waits for few lines at a time.
  HWY_INLINE void fetch(std::size_t count) const {
    constexpr std::size_t kLineBytes = 64;
    if (next == nullptr) return;
    for (std::size_t i = 0; i < count; i += kLineBytes / sizeof(T)) {
      __builtin_prefetch(next + i, 0, 2);
    }
  }
};

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
template <std::size_t kRows, typename T>
HWY_INLINE void score_block(const T* HWY_RESTRICT keys, const float* HWY_RESTRICT query,
                            std::size_t dim, float* HWY_RESTRICT scores) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  V sums[kRows][kTokenBlock];
  for (auto& row : sums) {
    for (V& sum : row) sum = hn::Zero(d);
  }
  for (std::size_t i = 0; i < dim; i += hn::Lanes(d)) {
    V q[kRows];
    for (std::size_t row = 0; row < kRows; ++row) q[row] = hn::Load(d, query + row * dim + i);
    for (std::size_t t = 0; t < kTokenBlock; ++t) {
      const V key = load(d, keys + t * dim + i);
      for (std::size_t row = 0; row < kRows; ++row) {
        sums[row][t] = hn::MulAdd(q[row], key, sums[row][t]);
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    store_sums(sums[row][0], sums[row][1], sums[row][2], sums[row][3], scores + row * kScoreStride);
  }
}

/// Dot products of `rows` query rows with a tile of keys, both in one order of channels.
template <typename T>
void score_tile(Stream<T> keys, const float* HWY_RESTRICT query, std::size_t rows, std::size_t dim,
                float* HWY_RESTRICT scores) {
  for (std::size_t t = 0; t < kTileTokens; t += kTokenBlock) {
    const Stream<T> block = keys + t * dim;
    block.fetch(kTokenBlock * dim);
    std::size_t row = 0;
    for (; row + kScoreRows <= rows; row += kScoreRows) {
      score_block<kScoreRows>(block.here, query + row * dim, dim, scores + row * kScoreStride + t);
    }
    const float* const rest = query + row * dim;
    float* const its = scores + row * kScoreStride + t;
    if (rows - row == 3) score_block<3>(block.here, rest, dim, its);
    if (rows - row == 2) score_block<2>(block.here, rest, dim, its);
    if (rows - row == 1) score_block<1>(block.here, rest, dim, its);
  }
}

/// Weights of `rows` rows, `stride` apart.
struct RowWeights {
  const float* weights;
  std::size_t stride;
};

/// Adds kRows rows' weighted sums of `count` vectors to their accumulators, kVectors registers of
/// elements at a time.
template <std::size_t kRows, std::size_t kVectors, typename T>
HWY_INLINE void accumulate_block(Stream<T> values, std::size_t stride, std::size_t count,
                                 RowWeights weights, float* HWY_RESTRICT accumulator,
                                 std::size_t accumulator_stride) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const std::size_t lanes = hn::Lanes(d);
  V sums[kRows][kVectors];
  for (auto& row : sums) {
    for (V& sum : row) sum = hn::Zero(d);
  }
  for (std::size_t i = 0; i < count; ++i) {
    V weight[kRows];
    for (std::size_t row = 0; row < kRows; ++row) {
      weight[row] = hn::Set(d, weights.weights[row * weights.stride + i]);
    }
    const Stream<T> some = values + i * stride;
    some.fetch(kVectors * lanes);
    for (std::size_t v = 0; v < kVectors; ++v) {
      const V value = load(d, some.here + v * lanes);
      for (std::size_t row = 0; row < kRows; ++row) {
        sums[row][v] = hn::MulAdd(weight[row], value, sums[row][v]);
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

template <std::size_t kRows, typename T>
void accumulate_rows(Stream<T> values, std::size_t value_stride, std::size_t dim, std::size_t count,
                     RowWeights weights, float* HWY_RESTRICT accumulator, std::size_t stride) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t channel = 0;
  constexpr std::size_t kVectors = std::min<std::size_t>((kRegisters - 1 - kRows) / kRows, 4);
  for (; channel + kVectors * lanes <= dim; channel += kVectors * lanes) {
    accumulate_block<kRows, kVectors>(values + channel, value_stride, count, weights,
                                      accumulator + channel, stride);
  }
  for (; channel + 2 * lanes <= dim; channel += 2 * lanes) {
    accumulate_block<kRows, 2>(values + channel, value_stride, count, weights,
                               accumulator + channel, stride);
  }
  for (; channel < dim; channel += lanes) {
    accumulate_block<kRows, 1>(values + channel, value_stride, count, weights,
                               accumulator + channel, stride);
  }
}

/// accumulator[row] += the sum of `count` vectors values[i] of `dim` elements, weighed by
/// weights[row][i]; values lie `value_stride` apart, accumulators `stride`.
template <typename T>
void accumulate(Stream<T> values, std::size_t value_stride, std::size_t dim, std::size_t count,
                RowWeights weights, std::size_t rows, float* HWY_RESTRICT accumulator,
                std::size_t stride) {
  for (; rows >= kWeighedRows; rows -= kWeighedRows) {
    accumulate_rows<kWeighedRows>(values, value_stride, dim, count, weights, accumulator, stride);
    weights.weights += kWeighedRows * weights.stride;
    accumulator += kWeighedRows * stride;
    values.next = nullptr;
  }
  const auto add = [&](auto of_rows) {
    of_rows(values, value_stride, dim, count, weights, accumulator, stride);
  };
  if (rows == 3) add(accumulate_rows<3, T>);
  if (rows == 2) add(accumulate_rows<2, T>);
  if (rows == 1) add(accumulate_rows<1, T>);
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
