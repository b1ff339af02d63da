#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "attend/span.hpp"
#include "nkv_abi.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attend/span_portable.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "attend/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {

static_assert(kScoreStride == kSpanTokens);

/// `count` elements that lie together.
template <typename T>
void convert(const T* HWY_RESTRICT from, std::size_t count, float* HWY_RESTRICT out) {
  const FloatTag d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) hn::Store(load(d, from + i), d, out + i);
}

float element(const Bf16* from) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(from->bits) << 16);
}

/// What of a span's K and V the loops cannot take as it lies: tiles of 16 tokens in binary32.
template <typename T>
class SpanTiles {
 public:
  SpanTiles(const SpanShape& shape, const Span& span)
      : shape_(shape),
        span_(span),
        keys_(reinterpret_cast<const T*>(span.keys)),
        values_(reinterpret_cast<const T*>(span.values)) {}

  /// Tokens [t, t + 16) of the span: [16][key_dim]; of kTiles only.
  void keys(std::size_t t, float* HWY_RESTRICT out) const {
    const std::size_t dim = shape_.key_dim;
    const std::size_t token = span_.token + t;
    if constexpr (std::is_same_v<T, Bf16>) {
      for (std::size_t i = 0; i < kTileTokens * dim; ++i) {
        const std::size_t place = i % dim / 2 * 2 * kTileTokens + i / dim * 2 + i % 2;
        out[i] = element(keys_ + token * dim + place);
      }
    }
  }

  /// [16][value_dim]; zero where a token is not seen, which may be anything.
  void values(std::size_t t, float* HWY_RESTRICT out) const {
    const std::size_t dim = shape_.value_dim;
    const std::size_t token = span_.token + t;
    if (shape_.layout != BlockLayout::kTiles) {
      for (std::size_t i = 0; i < kTileTokens; ++i) {
        convert(values_ + (token + i) * shape_.value_stride, dim, out + i * dim);
      }
    } else if constexpr (std::is_same_v<T, Bf16>) {
      for (std::size_t i = 0; i < kTileTokens * dim; ++i) {
        const std::size_t at = token + i / dim;
        const std::size_t c = i % dim;
        out[i] = element(values_ + c / 16 * 16 * shape_.block_tokens + at / 2 * 32 + c % 16 * 2 +
                         at % 2);
      }
    }
    if (span_.is_whole()) return;
    for (std::size_t i = 0; i < kTileTokens; ++i) {
      if (!span_.sees(t + i)) std::memset(out + i * dim, 0, dim * sizeof(float));
    }
  }

 private:
  const SpanShape& shape_;
  const Span& span_;
  const T* keys_;
  const T* values_;
};

/// Query rows scaled to base-2 logits, and buffers.
struct Scratch {
  HWY_ALIGN float query[kSpanRows * NKV_MAX_HEAD_DIM];
  HWY_ALIGN float tile[kTileTokens * NKV_MAX_HEAD_DIM];
  HWY_ALIGN float scores[kSpanRows * kSpanTokens];
};

/// A span's rows from its first token on, and those of the span after it.
template <typename T>
Stream<T> stream(const std::byte* Span::* rows, const Span& span, const Span* next,
                 std::size_t token_elements) {
  const auto first = [&](const Span& of) {
    return reinterpret_cast<const T*>(of.*rows) + of.token * token_elements;
  };
  return {first(span), next != nullptr ? first(*next) : nullptr};
}

/// scores[row * kSpanTokens + t] of all tokens, seen or not.
template <typename T>
void score_span(const SpanShape& shape, const Span& span, const Span* next, std::size_t rows,
                Scratch* scratch) {
  const std::size_t dim = shape.key_dim;
  if (shape.layout == BlockLayout::kChannelMajor) {
    std::fill_n(scratch->scores, rows * kSpanTokens, 0.0F);
    accumulate(stream<T>(&Span::keys, span, next, 1), shape.block_tokens, span.count, dim,
               {scratch->query, dim}, rows, scratch->scores, kSpanTokens);
    return;
  }
  const Stream<T> keys = stream<T>(&Span::keys, span, next, dim);
  const SpanTiles<T> tiles(shape, span);
  for (std::size_t t = 0; t < span.count; t += kTileTokens) {
    if (shape.layout == BlockLayout::kRows) {
      score_tile(keys + t * dim, scratch->query, rows, dim, scratch->scores + t);
    } else {
      tiles.keys(t, scratch->tile);
      score_tile(Stream<float>{scratch->tile}, scratch->query, rows, dim, scratch->scores + t);
    }
  }
}

/// Adds the values, weighed by the scratch's scores, to each row's sums.
template <typename T>
void add_values(const SpanShape& shape, const Span& span, const Span* next, std::size_t rows,
                Scratch* scratch, float* HWY_RESTRICT sums) {
  const std::size_t dim = shape.value_dim;
  if (shape.layout != BlockLayout::kTiles && span.is_whole()) {
    const std::size_t stride = shape.value_stride;
    accumulate(stream<T>(&Span::values, span, next, stride), stride, dim, span.count,
               {scratch->scores, kSpanTokens}, rows, sums, dim);
    return;
  }
  const SpanTiles<T> tiles(shape, span);
  for (std::size_t t = 0; t < span.count; t += kTileTokens) {
    tiles.values(t, scratch->tile);
    accumulate(Stream<float>{scratch->tile}, dim, dim, kTileTokens,
               {scratch->scores + t, kSpanTokens}, rows, sums, dim);
  }
}

template <typename T>
void attend_span(const SpanShape& shape, const SpanQuery& query, const Span& span, const Span* next,
                 const RowSums& sums) {
  const std::size_t rows = query.count;
  Scratch scratch;
  convert(reinterpret_cast<const T*>(query.rows), rows * shape.key_dim, scratch.query);
  for (std::size_t i = 0; i < rows * shape.key_dim; ++i) scratch.query[i] *= query.factor;
  score_span<T>(shape, span, next, rows, &scratch);
  for (std::size_t row = 0; row < rows; ++row) {
    float* const scores = scratch.scores + row * kSpanTokens;
    bool has_nan = false;
    for (std::size_t t = 0; t < span.count; ++t) has_nan |= span.sees(t) && std::isnan(scores[t]);
    const std::size_t dim = shape.value_dim;
    weigh_row(query.soft_cap, span.seen, scores,
              {sums.maximum + row, sums.weight + row, sums.values + row * dim, dim});
    // exp2() takes NaN for -inf.
    if (has_nan || std::isinf(sums.maximum[row])) {
      sums.weight[row] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  add_values<T>(shape, span, next, rows, &scratch, sums.values);
}

void attend_span_target(const SpanShape& shape, const SpanQuery& query, const Span& span,
                        const Span* next, const RowSums& sums) {
  switch (shape.dtype) {
    case NKV_DTYPE_BF16:
      return attend_span<Bf16>(shape, query, span, next, sums);
    case NKV_DTYPE_FP16:
      return attend_span<hwy::float16_t>(shape, query, span, next, sums);
    default:
      return attend_span<float>(shape, query, span, next, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(attend_span_target);

void attend_span_portable(const SpanShape& shape, const SpanQuery& query, const Span& span,
                          const Span* next, const RowSums& sums, SpanScope* /*scope*/) {
  HWY_DYNAMIC_DISPATCH(attend_span_target)(shape, query, span, next, sums);
}

}  // namespace nearkv
#endif  // HWY_ONCE
