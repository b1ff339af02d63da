// Compiled for AVX-512 with BF16 whatever the rest of the library is compiled for, and entered only
// where the processor has it. Includes nothing whose inline functions other files might share.
#include "blocks/block_run.hpp"

#if defined(__AVX512BF16__)

#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "blocks/products_bf16.hpp"

namespace nearkv {
namespace {

using namespace bf16;  // NOLINT(google-build-using-namespace): this file's own other half.

/// 2^x, relative error below 2e-7: the polynomial of attend/exp2-inl.h.
inline __m512 exp2(__m512 x) {
  const __m512 clamped = _mm512_max_ps(_mm512_set1_ps(-200.0F), x);  // This way round NaN stays.
  const __m512 whole = _mm512_roundscale_ps(clamped, _MM_FROUND_TO_NEAREST_INT);
  const __m512 f = _mm512_sub_ps(clamped, whole);
  __m512 p = _mm512_set1_ps(1.535336188319500e-4F);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.339887440266574e-3F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.618437357674640e-3F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.550332471162809e-2F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.402264791363012e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.931472028550421e-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, whole);
}

/// cap * tanh(x / cap), absolute error below 3e-7 * cap.
inline __m512 capped(__m512 x, float cap) {
  const __m512 one = _mm512_set1_ps(1.0F);
  const __m512 power = exp2(_mm512_min_ps(
      _mm512_set1_ps(60.0F), _mm512_mul_ps(x, _mm512_set1_ps(2.885390081777927F / cap))));
  const __m512 rest = _mm512_div_ps(_mm512_set1_ps(2.0F), _mm512_add_ps(power, one));
  return _mm512_mul_ps(_mm512_set1_ps(cap), _mm512_sub_ps(one, rest));
}

/// Calls call(row, rows) with `rows`, from 1 to kMost, as a compile-time number.
template <std::size_t kMost, typename Call>
inline void with_rows(std::size_t row, std::size_t rows, Call& call) {
  if constexpr (kMost > 1) {
    if (rows != kMost) return with_rows<kMost - 1>(row, rows, call);
  }
  call(row, std::integral_constant<std::size_t, kMost>());
}

/// Calls `call` for each piece of at most kMost rows, which are as even as they come.
template <std::size_t kMost, typename Call>
inline void by_rows(std::size_t rows, Call&& call) {
  std::size_t pieces = (rows + kMost - 1) / kMost;
  for (std::size_t row = 0; row < rows; --pieces) {
    const std::size_t some = (rows - row + pieces - 1) / pieces;
    with_rows<kMost>(row, some, call);
    row += some;
  }
}

/// Turns the scores of a row into weights, and lifts the row's maximum.
inline void weigh(const BlockRun& run, const BlockSpan& span, std::size_t row, const float* scores,
                  const RunSums& sums, Bf16* high, Bf16* low) {
  const std::size_t dim = run.cache->head_dim;
  const std::size_t vectors = span.count / kLanes;
  __m512 logits[kSpanTokens / kLanes];
  __m512 top = _mm512_set1_ps(-__builtin_inff());
  for (std::size_t i = 0; i < vectors; ++i) {
    __m512 logit = _mm512_mul_ps(_mm512_load_ps(scores + i * kLanes), _mm512_set1_ps(run.factor));
    if (run.soft_cap > 0) logit = capped(logit, run.soft_cap);
    logits[i] = _mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()),
                                   static_cast<__mmask16>(span.seen >> (i * kLanes)), logit);
    top = _mm512_max_ps(top, logits[i]);
  }
  const float largest = _mm512_reduce_max_ps(top);
  if (largest > sums.maximum[row]) {
    const float factor = __builtin_exp2f(sums.maximum[row] - largest);
    sums.maximum[row] = largest;
    sums.weight[row] *= factor;
    float* const values = sums.values + row * dim;
    for (std::size_t c = 0; c < dim; c += kLanes) {
      _mm512_store_ps(values + c,
                      _mm512_mul_ps(_mm512_load_ps(values + c), _mm512_set1_ps(factor)));
    }
  }
  const __m512 maximum = _mm512_set1_ps(sums.maximum[row]);
  __m512 sum = _mm512_setzero_ps();
  for (std::size_t i = 0; i < vectors; ++i) {
    const __m512 weight = exp2(_mm512_sub_ps(logits[i], maximum));
    const __m256i rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weight));
    const __m512 back = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
    _mm256_store_si256(reinterpret_cast<__m256i*>(high + i * kLanes), rounded);
    _mm256_store_si256(reinterpret_cast<__m256i*>(low + i * kLanes),
                       reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_sub_ps(weight, back))));
    sum = _mm512_add_ps(sum, weight);
  }
  sums.weight[row] += _mm512_reduce_add_ps(sum);
}

/// Buffers of a run.
struct Scratch {
  alignas(64) float scores[kRunRows * kSpanTokens];
  Weights weights;
  alignas(64) Bf16 values[kSpanTokens * kMostDim];  ///< Of a span that is not seen whole.
};

/// A span's keys or values, with those of the span after it.
template <BlockLayout kLayout>
inline Part part_of(const BlockCache& cache, const BlockSpan& span, const BlockSpan* next,
                    bool is_key) {
  const std::size_t dim = cache.head_dim;
  const std::size_t block = cache.block_tokens;
  const auto at = [&](const BlockSpan& which) {
    const auto* const first =
        reinterpret_cast<const Bf16*>(is_key ? which.block_keys : which.block_values);
    const bool is_channel_major = kLayout == BlockLayout::kChannelMajor && is_key;
    // Of 16 channels, the pairs of tokens lie together, 16 by 16.
    if (kLayout == BlockLayout::kTiles && !is_key) return first + which.token * kLanes;
    return first + which.token * (is_channel_major ? 1 : dim);
  };
  Part part{at(span), next != nullptr ? at(*next) : nullptr, dim};
  if (kLayout == BlockLayout::kChannelMajor) part.stride = block;
  if (kLayout == BlockLayout::kTiles) part.stride = kLanes * (is_key ? dim : block);
  return part;
}

/// Copies the values that are seen, and zeroes the others: those may be anything, NaN too.
template <BlockLayout kLayout>
inline Part seen_values(const BlockSpan& span, std::size_t dim, const Part& values, Bf16* to) {
  std::memset(to, 0, span.count * dim * sizeof(Bf16));
  if (kLayout != BlockLayout::kTiles) {
    for (std::size_t t = span.begin - span.token; t < span.end - span.token; ++t) {
      std::memcpy(to + t * dim, values.here + t * dim, dim * sizeof(Bf16));
    }
    return {to, nullptr, dim};
  }
  for (std::size_t c = 0; c < dim; ++c) {
    for (std::size_t t = span.begin - span.token; t < span.end - span.token; ++t) {
      const std::size_t inside = t / 2 * 2 * kLanes + c % kLanes * 2 + t % 2;
      to[c / kLanes * kLanes * span.count + inside] =
          values.here[c / kLanes * values.stride + inside];
    }
  }
  return {to, nullptr, kLanes * span.count};
}

/// From the order in which add_rows() leaves 32 channels to theirs.
inline void order_channels(float* values) {
  const Ordered channels = ordered(_mm512_load_ps(values), _mm512_load_ps(values + kLanes));
  _mm512_store_ps(values, channels.first);
  _mm512_store_ps(values + kLanes, channels.second);
}

template <BlockLayout kLayout>
void attend_span(const BlockRun& run, const BlockSpan& span, const BlockSpan* next,
                 Scratch* scratch, const RunSums& sums) {
  const std::size_t dim = run.cache->head_dim;
  const auto* const query = reinterpret_cast<const Bf16*>(run.query);
  const Part keys = part_of<kLayout>(*run.cache, span, next, true);
  by_rows<4>(run.group, [&](std::size_t row, auto rows) {
    Part part = keys;
    if (row != 0) part.next = nullptr;
    float* const scores = scratch->scores + row * kSpanTokens;
    const Bf16* const some = query + row * dim;
    if constexpr (kLayout == BlockLayout::kRows) {
      score_rows<rows>(part, some, dim, span.count, scores);
    } else if constexpr (kLayout == BlockLayout::kChannelMajor) {
      score_channels<rows>(part, some, dim, span.count, scores);
    } else {
      score_tiles<rows>(part, some, dim, span.count, scores);
    }
  });
  for (std::size_t row = 0; row < run.group; ++row) {
    const std::size_t place = row * kSpanTokens;
    weigh(run, span, row, scratch->scores + place, sums, scratch->weights.high + place,
          scratch->weights.low + place);
  }
  Part values = part_of<kLayout>(*run.cache, span, next, false);
  if (!span.is_whole()) values = seen_values<kLayout>(span, dim, values, scratch->values);
  by_rows<8>(run.group, [&](std::size_t row, auto rows) {
    Part part = values;
    if (row != 0) part.next = nullptr;
    if constexpr (kLayout == BlockLayout::kTiles) {
      add_values_tiles<rows>(part, scratch->weights, row, dim, span.count, sums.values + row * dim);
    } else {
      add_values_rows<rows>(part, scratch->weights, row, dim, span.count, sums.values + row * dim);
    }
  });
}

template <BlockLayout kLayout>
void attend_rows(const BlockRun& run, const RunSums& sums) {
  Scratch scratch;
  BlockSpan span;
  BlockSpan next;
  std::size_t token = run.first_token;
  bool is_there = span_at(run, token, &span);
  while (is_there) {
    token += span.end - span.begin;
    is_there = span_at(run, token, &next);
    attend_span<kLayout>(run, span, is_there ? &next : nullptr, &scratch, sums);
    span = next;
  }
  if (kLayout == BlockLayout::kTiles) return;
  for (std::size_t c = 0; c < run.group * run.cache->head_dim; c += 32)
    order_channels(sums.values + c);
}

}  // namespace

AttendRows attend_rows_bf16(const BlockCache& cache) {
  const bool fits =
      cache.dtype == NKV_DTYPE_BF16 && cache.head_dim % 32 == 0 && cache.head_dim <= kMostDim;
  if (!fits || !__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return nullptr;
  }
  switch (cache.layout) {
    case BlockLayout::kRows:
      return attend_rows<BlockLayout::kRows>;
    case BlockLayout::kChannelMajor:
      return attend_rows<BlockLayout::kChannelMajor>;
    case BlockLayout::kTiles:
      return attend_rows<BlockLayout::kTiles>;
  }
  return nullptr;
}

}  // namespace nearkv

#else

namespace nearkv {

AttendRows attend_rows_bf16(const BlockCache& /*cache*/) { return nullptr; }

}  // namespace nearkv

#endif
