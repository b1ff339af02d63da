// What kernels of a span have in common, whatever multiplies: where rows lie, and what scores
// weigh.
//
// Only for span_avx512.cpp and span_amx.cpp, which are compiled for AVX-512: what is defined here
// is in no other file.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "attend/products_bf16.hpp"
#include "attend/span.hpp"
#include "nkv_abi.h"

namespace nearkv::bf16 {

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

/// Turns the scores of a row into weights, and lifts the row's maximum. Steps `ahead` once for 16
/// tokens.
inline void weigh(const SpanShape& shape, const SpanQuery& query, const Span& span, std::size_t row,
                  const float* scores, const RowSums& sums, Ahead* ahead, Bf16* high, Bf16* low) {
  const std::size_t dim = shape.value_dim;
  const std::size_t vectors = span.count / kLanes;
  __m512 logits[kSpanTokens / kLanes];
  __m512 top = _mm512_set1_ps(-__builtin_inff());
  for (std::size_t i = 0; i < vectors; ++i) {
    __m512 logit = _mm512_mul_ps(_mm512_load_ps(scores + i * kLanes), _mm512_set1_ps(query.factor));
    if (query.soft_cap > 0) logit = capped(logit, query.soft_cap);
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
      _mm512_storeu_ps(values + c,
                       _mm512_mul_ps(_mm512_loadu_ps(values + c), _mm512_set1_ps(factor)));
    }
  }
  const __m512 maximum = _mm512_set1_ps(sums.maximum[row]);
  __m512 sum = _mm512_setzero_ps();
  for (std::size_t i = 0; i < vectors; ++i) {
    ahead->step();
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

template <BlockLayout kLayout>
inline Part keys_of(const SpanShape& shape, const Span& span) {
  const bool by_channel = kLayout == BlockLayout::kChannelMajor;
  Part part{reinterpret_cast<const Bf16*>(span.keys), shape.key_dim};
  part.here += span.token * (by_channel ? 1 : shape.key_dim);
  if (by_channel) part.stride = shape.block_tokens;
  if (kLayout == BlockLayout::kTiles) part.stride = kLanes * shape.key_dim;
  return part;
}

template <BlockLayout kLayout>
inline Part values_of(const SpanShape& shape, const Span& span) {
  // kTiles: of 16 channels, the pairs of tokens lie together, 16 by 16.
  const bool is_tiles = kLayout == BlockLayout::kTiles;
  const std::size_t token = is_tiles ? kLanes : shape.value_stride;
  return {reinterpret_cast<const Bf16*>(span.values) + span.token * token,
          is_tiles ? kLanes * shape.block_tokens : token};
}

/// The keys of a span, which may be null or have none, as they are fetched.
template <BlockLayout kLayout>
inline Region region_of_keys(const SpanShape& shape, const Span* span) {
  if (span == nullptr || span->keys == nullptr) return {};
  const Part part = keys_of<kLayout>(shape, *span);
  const std::size_t elements = span->count * shape.key_dim;
  if (kLayout != BlockLayout::kChannelMajor) return {part.here, 1, elements, 0};
  return {part.here, shape.key_dim, span->count, part.stride};
}

/// Likewise, of its values.
template <BlockLayout kLayout>
inline Region region_of_values(const SpanShape& shape, const Span* span) {
  if (span == nullptr || span->values == nullptr) return {};
  const Part part = values_of<kLayout>(shape, *span);
  if (kLayout != BlockLayout::kTiles) {
    return {part.here, span->count, shape.value_dim, part.stride};
  }
  return {part.here, shape.value_dim / kLanes, kLanes * span->count, part.stride};
}

/// Copies the values that are seen, and zeroes the others.
template <BlockLayout kLayout>
inline Part seen_values(const Span& span, std::size_t dim, const Part& values, Bf16* to) {
  std::memset(to, 0, span.count * dim * sizeof(Bf16));
  for (std::size_t t = 0; t < span.count; ++t) {
    if (!span.sees(t)) continue;
    if (kLayout != BlockLayout::kTiles) {
      std::memcpy(to + t * dim, values.here + t * values.stride, dim * sizeof(Bf16));
      continue;
    }
    for (std::size_t c = 0; c < dim; ++c) {
      const std::size_t inside = t / 2 * 2 * kLanes + c % kLanes * 2 + t % 2;
      to[c / kLanes * kLanes * span.count + inside] =
          values.here[c / kLanes * values.stride + inside];
    }
  }
  return {to, kLayout == BlockLayout::kTiles ? kLanes * span.count : dim};
}

[[gnu::always_inline]] inline bool fits(std::size_t dim) {
  return dim % 32 == 0 && dim <= NKV_MAX_HEAD_DIM;
}

/// Of three kernels the one for a layout.
inline AttendSpan of_layout(BlockLayout layout, AttendSpan rows, AttendSpan channels,
                            AttendSpan tiles) {
  switch (layout) {
    case BlockLayout::kRows:
      return rows;
    case BlockLayout::kChannelMajor:
      return channels;
    case BlockLayout::kTiles:
      return tiles;
  }
  return nullptr;
}

/// How a kernel fetches the next span.
struct AheadPlan {
  Level level;
  std::size_t score;  ///< About how long its steps take, beside one another.
  std::size_t weigh;
  std::size_t add;
};

/// AttendSpan by what multiplies: `score` sets the scores of all rows, and `add` adds weighted
/// values to them; each fetches what `ahead` has taken for it.
template <BlockLayout kLayout, typename Score, typename Add>
inline void attend_by(Score score, Add add, const AheadPlan& plan, const SpanShape& shape,
                      const SpanQuery& query, const Span& span, const Span* next,
                      const RowSums& sums) {
  alignas(64) float scores[kSpanRows * kSpanTokens];
  alignas(64) Bf16 seen[kSpanTokens * NKV_MAX_HEAD_DIM];
  Weights weights;
  Ahead ahead(region_of_keys<kLayout>(shape, next), region_of_values<kLayout>(shape, next),
              plan.level);
  const std::size_t lines = ahead.left();
  const std::size_t all = plan.score + plan.weigh + plan.add;
  ahead.take(lines * plan.score / all);
  score(shape, query, span, &ahead, scores);
  ahead.take(lines * plan.weigh / all);
  ahead.spread(query.count * (span.count / kLanes));
  for (std::size_t row = 0; row < query.count; ++row) {
    weigh(shape, query, span, row, scores + row * kSpanTokens, sums, &ahead,
          weights.numbers[row][0], weights.numbers[row][1]);
  }
  Part values = values_of<kLayout>(shape, span);
  if (!span.is_whole()) values = seen_values<kLayout>(span, shape.value_dim, values, seen);
  add(shape, values, weights, query, span, &ahead, sums.values);
  ahead.finish();
}

/// ScoreSpan by what multiplies, of keys in rows; all of the next ones are fetched to `level`.
template <typename Score>
inline void score_by(Score score, Level level, const SpanShape& shape, const SpanQuery& query,
                     const Span& span, const Span* next, float* scores) {
  Ahead ahead(region_of_keys<BlockLayout::kRows>(shape, next), {}, level);
  ahead.take(ahead.left());
  score(shape, query, span, &ahead, scores);
  ahead.finish();
}

}  // namespace nearkv::bf16
