// Compiled for AVX-512 with BF16 whatever the rest of the library is compiled for, and entered only
// where the processor has it. Includes nothing whose inline functions other files might share.
#include "attend/span.hpp"

#if defined(__AVX512BF16__)

#include <immintrin.h>

#include "attend/products_bf16.hpp"
#include "attend/span_parts_bf16.hpp"
#include "nkv_abi.h"

namespace nearkv {
namespace {

using namespace bf16;  // NOLINT(google-build-using-namespace): this file's own other half.

template <BlockLayout kLayout>
void score_loaded(const SpanShape& shape, const SpanQuery& query, const Span& span, Ahead* ahead,
                  float* scores) {
  const auto* const rows = reinterpret_cast<const Bf16*>(query.rows);
  const std::size_t key_dim = shape.key_dim;
  const Part keys = keys_of<kLayout>(shape, span);
  const std::size_t lines = ahead->taken();
  by_rows<4>(query.count, [&](std::size_t row, auto count) {
    ahead->take(lines * count / query.count);
    float* const to = scores + row * kSpanTokens;
    const Bf16* const some = rows + row * key_dim;
    if constexpr (kLayout == BlockLayout::kRows) {
      score_rows<count>(keys, some, key_dim, span.count, ahead, to);
    } else if constexpr (kLayout == BlockLayout::kChannelMajor) {
      score_channels<count>(keys, some, key_dim, span.count, ahead, to);
    } else {
      score_tiles<count>(keys, some, key_dim, span.count, ahead, to);
    }
  });
}

template <BlockLayout kLayout>
void add_loaded(const SpanShape& shape, const Part& values, const Weights& weights,
                const SpanQuery& query, const Span& span, Ahead* ahead, float* sums) {
  const std::size_t value_dim = shape.value_dim;
  by_rows<8>(query.count, [&](std::size_t row, auto count) {
    ahead->take(ahead->left() * count / (query.count - row));
    float* const to = sums + row * value_dim;
    if constexpr (kLayout == BlockLayout::kTiles) {
      add_values_tiles<count>(values, weights, row, value_dim, span.count, ahead, to);
    } else {
      add_values_rows<count>(values, weights, row, value_dim, span.count, ahead, to);
    }
  });
}

template <BlockLayout kLayout>
void attend_span(const SpanShape& shape, const SpanQuery& query, const Span& span, const Span* next,
                 const RowSums& sums, SpanScope* /*scope*/) {
  constexpr AheadPlan kPlan = {Level::kSecond, 3, 2, 3};
  attend_by<kLayout>(score_loaded<kLayout>, add_loaded<kLayout>, kPlan, shape, query, span, next,
                     sums);
}

void score_span(const SpanShape& shape, const SpanQuery& query, const Span& span, const Span* next,
                float* scores, SpanScope* /*scope*/) {
  score_by(score_loaded<BlockLayout::kRows>, Level::kSecond, shape, query, span, next, scores);
}

/// Whether the processor has what this file is compiled for, and the keys suit it.
bool takes_keys(const SpanShape& shape) {
  return shape.dtype == NKV_DTYPE_BF16 && fits(shape.key_dim) &&
         __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

ScoreSpan score_span_avx512(const SpanShape& shape) {
  const bool is_taken = takes_keys(shape) && shape.layout == BlockLayout::kRows;
  return is_taken ? score_span : nullptr;
}

AttendSpan attend_span_avx512(const SpanShape& shape) {
  if (!takes_keys(shape) || !fits(shape.value_dim)) return nullptr;
  return of_layout(shape.layout, attend_span<BlockLayout::kRows>,
                   attend_span<BlockLayout::kChannelMajor>, attend_span<BlockLayout::kTiles>);
}

void order_values_bf16(const SpanShape& shape, std::size_t rows, float* values) {
  if (shape.layout == BlockLayout::kTiles) return;
  for (float* some = values; some < values + rows * shape.value_dim; some += 2 * kLanes) {
    const Ordered channels = ordered(_mm512_loadu_ps(some), _mm512_loadu_ps(some + kLanes));
    _mm512_storeu_ps(some, channels.first);
    _mm512_storeu_ps(some + kLanes, channels.second);
  }
}

}  // namespace nearkv

#else

namespace nearkv {

AttendSpan attend_span_avx512(const SpanShape& /*shape*/) { return nullptr; }
ScoreSpan score_span_avx512(const SpanShape& /*shape*/) { return nullptr; }
void order_values_bf16(const SpanShape& /*shape*/, std::size_t /*rows*/, float* /*values*/) {}

}  // namespace nearkv

#endif
