#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "blocks/block_run.hpp"
#include "nkv_abi.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "blocks/run_portable.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "attend/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {

static_assert(kScoreStride == kSpanTokens);

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

/// `count` elements that lie together.
template <typename T>
void convert(const T* HWY_RESTRICT from, std::size_t count, float* HWY_RESTRICT out) {
  const FloatTag d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) hn::Store(load(d, from + i), d, out + i);
}

float element(const Bf16* from) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(from->bits) << 16);
}

/// A span's K and V as tiles of 16 tokens in binary32.
template <typename T>
class SpanTiles {
 public:
  SpanTiles(const BlockCache& cache, const Span& span)
      : cache_(cache),
        span_(span),
        keys_(reinterpret_cast<const T*>(span.keys)),
        values_(reinterpret_cast<const T*>(span.values)) {}

  /// Tokens [t, t + 16) of the span: [16][head_dim], or for kChannelMajor [head_dim][16].
  void keys(std::size_t t, float* HWY_RESTRICT out) const {
    const std::size_t dim = cache_.head_dim;
    const std::size_t token = span_.token + t;
    if (cache_.layout == BlockLayout::kChannelMajor) {
      for (std::size_t c = 0; c < dim; ++c) {
        convert(keys_ + c * cache_.block_tokens + token, kTileTokens, out + c * kTileTokens);
      }
    } else if (cache_.layout == BlockLayout::kRows) {
      convert(keys_ + token * dim, kTileTokens * dim, out);
    } else if constexpr (std::is_same_v<T, Bf16>) {
      for (std::size_t i = 0; i < kTileTokens * dim; ++i) {
        const std::size_t place = i % dim / 2 * 2 * kTileTokens + i / dim * 2 + i % 2;
        out[i] = element(keys_ + token * dim + place);
      }
    }
  }

  /// [16][head_dim]; zero where a token is not seen, which may be anything.
  void values(std::size_t t, float* HWY_RESTRICT out) const {
    const std::size_t dim = cache_.head_dim;
    const std::size_t token = span_.token + t;
    if (cache_.layout != BlockLayout::kTiles) {
      convert(values_ + token * dim, kTileTokens * dim, out);
    } else if constexpr (std::is_same_v<T, Bf16>) {
      for (std::size_t i = 0; i < kTileTokens * dim; ++i) {
        const std::size_t at = token + i / dim;
        const std::size_t c = i % dim;
        out[i] = element(values_ + c / 16 * 16 * cache_.block_tokens + at / 2 * 32 + c % 16 * 2 +
                         at % 2);
      }
    }
    for (std::size_t i = 0; i < kTileTokens; ++i) {
      if (!span_.sees(t + i)) std::memset(out + i * dim, 0, dim * sizeof(float));
    }
  }

 private:
  const BlockCache& cache_;
  const Span& span_;
  const T* keys_;
  const T* values_;
};

/// Query rows that go through a span together, scaled to base-2 logits, and buffers of a run.
struct Scratch {
  HWY_ALIGN float query[kSpanRows * NKV_MAX_HEAD_DIM];
  HWY_ALIGN float tile[kTileTokens * NKV_MAX_HEAD_DIM];
  HWY_ALIGN float scores[kSpanRows * kSpanTokens];
};

template <typename T>
void attend_span(const BlockRun& run, const Span& span, Scratch* scratch, const RowSums& sums) {
  const std::size_t dim = run.cache->head_dim;
  const SpanTiles<T> tiles(*run.cache, span);
  std::fill_n(scratch->scores, run.group * kSpanTokens, 0.0F);
  for (std::size_t t = 0; t < span.count; t += kTileTokens) {
    tiles.keys(t, scratch->tile);
    if (run.cache->layout == BlockLayout::kChannelMajor) {
      accumulate(scratch->tile, kTileTokens, dim, {scratch->query, dim}, run.group,
                 scratch->scores + t, kSpanTokens);
    } else {
      score_tile(scratch->tile, scratch->query, run.group, dim, scratch->scores + t);
    }
  }
  for (std::size_t row = 0; row < run.group; ++row) {
    float* const scores = scratch->scores + row * kSpanTokens;
    bool has_nan = false;
    for (std::size_t t = 0; t < span.count; ++t) has_nan |= span.sees(t) && std::isnan(scores[t]);
    weigh_row(run.soft_cap, span.seen, scores,
              {sums.maximum + row, sums.weight + row, sums.values + row * dim, dim});
    // exp2() takes NaN for -inf.
    if (has_nan || std::isinf(sums.maximum[row])) {
      sums.weight[row] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  for (std::size_t t = 0; t < span.count; t += kTileTokens) {
    tiles.values(t, scratch->tile);
    accumulate(scratch->tile, dim, kTileTokens, {scratch->scores + t, kSpanTokens}, run.group,
               sums.values, dim);
  }
}

template <typename T>
void attend_rows(const BlockRun& run, const RowSums& sums) {
  const std::size_t dim = run.cache->head_dim;
  Scratch scratch;
  convert(reinterpret_cast<const T*>(run.query), run.group * dim, scratch.query);
  for (std::size_t i = 0; i < run.group * dim; ++i) scratch.query[i] *= run.factor;
  Span span;
  for (std::size_t token = run.first_token; span_at(run, token, &span);
       token += static_cast<std::size_t>(std::popcount(span.seen))) {
    attend_span<T>(run, span, &scratch, sums);
  }
}

void attend_rows_target(const BlockRun& run, const RowSums& sums) {
  switch (run.cache->dtype) {
    case NKV_DTYPE_BF16:
      return attend_rows<Bf16>(run, sums);
    case NKV_DTYPE_FP16:
      return attend_rows<hwy::float16_t>(run, sums);
    default:
      return attend_rows<float>(run, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(attend_rows_target);

void attend_rows_portable(const BlockRun& run, const RowSums& sums) {
  HWY_DYNAMIC_DISPATCH(attend_rows_target)(run, sums);
}

}  // namespace nearkv
#endif  // HWY_ONCE
