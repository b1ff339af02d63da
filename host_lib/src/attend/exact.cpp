#include "attend/exact.hpp"

#include <bit>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attend/exact.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "attend/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {

using IntTag = hn::CappedTag<std::int32_t, 16>;
using WideTag = hn::RepartitionToWide<IntTag>;
constexpr std::size_t kTokenBlock = 2;  // Tokens and rows whose sums stay in registers.
constexpr std::size_t kRowBlock = 4;

/// Key elements as aligned integers: k * 2^(152 - Ek), truncated.
void align_key(const float* HWY_RESTRICT key, std::size_t dim, int key_exponent,
               std::int32_t* HWY_RESTRICT aligned) {
  const IntTag d;
  const hn::RebindToFloat<IntTag> df;
  // 2^(152 - Ek) may not be a float; its two factors are, and neither product underflows unless the
  // result is below one.
  const int half = (152 - key_exponent) / 2;
  const auto first = hn::Set(df, std::ldexp(1.0F, half));
  const auto second = hn::Set(df, std::ldexp(1.0F, 152 - key_exponent - half));
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto scaled = hn::Mul(hn::Mul(hn::Load(df, key + c), first), second);
    hn::Store(hn::ConvertTo(d, scaled), d, aligned + c);
  }
}

HWY_INLINE hn::Vec<WideTag> odd_lanes(hn::Vec<WideTag> pairs) { return hn::ShiftRight<32>(pairs); }

/// Scores of kTokens aligned keys for kRows rows.
template <std::size_t kTokens, std::size_t kRows>
HWY_INLINE void score_block(const std::int32_t* HWY_RESTRICT keys,
                            const std::int32_t* HWY_RESTRICT query, std::size_t dim,
                            std::size_t rows, std::int64_t* HWY_RESTRICT scores) {
  const IntTag d;
  const WideTag wide;
  using Wide = hn::Vec<WideTag>;
  Wide sums[kTokens][kRows];
  for (auto& token : sums) {
    for (Wide& sum : token) sum = hn::Zero(wide);
  }
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    hn::Vec<IntTag> even[kTokens];
    hn::Vec<IntTag> odd[kTokens];
    for (std::size_t t = 0; t < kTokens; ++t) {
      even[t] = hn::Load(d, keys + t * dim + c);
      odd[t] = hn::BitCast(d, odd_lanes(hn::BitCast(wide, even[t])));
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto q = hn::Load(d, query + row * dim + c);
      const auto q_odd = hn::BitCast(d, odd_lanes(hn::BitCast(wide, q)));
      for (std::size_t t = 0; t < kTokens; ++t) {
        sums[t][row] = hn::Add(sums[t][row], hn::MulEven(even[t], q));
        sums[t][row] = hn::Add(sums[t][row], hn::MulEven(odd[t], q_odd));
      }
    }
  }
  for (std::size_t t = 0; t < kTokens; ++t) {
    for (std::size_t row = 0; row < kRows; ++row) {
      scores[t * rows + row] = hn::GetLane(hn::SumOfLanes(wide, sums[t][row]));
    }
  }
}

template <std::size_t kTokens>
void score_tokens(const std::int32_t* HWY_RESTRICT keys, const std::int32_t* HWY_RESTRICT query,
                  std::size_t dim, std::size_t rows, std::int64_t* HWY_RESTRICT scores) {
  std::size_t row = 0;
  for (; row + kRowBlock <= rows; row += kRowBlock) {
    score_block<kTokens, kRowBlock>(keys, query + row * dim, dim, rows, scores + row);
  }
  for (; row < rows; ++row) {
    score_block<kTokens, 1>(keys, query + row * dim, dim, rows, scores + row);
  }
}

void exact_scores_target(const RowSource& keys, std::uint64_t tokens, int key_exponent,
                         const std::int32_t* HWY_RESTRICT query, std::size_t rows,
                         std::int64_t* HWY_RESTRICT scores) {
  HWY_ALIGN float key[NKV_MAX_HEAD_DIM];
  HWY_ALIGN std::int32_t aligned[kTokenBlock * NKV_MAX_HEAD_DIM];
  while (tokens != 0) {
    std::size_t count = 0;
    for (; count < kTokenBlock && tokens != 0; ++count, tokens &= tokens - 1) {
      decode_rows(keys, static_cast<std::size_t>(std::countr_zero(tokens)), 1, key);
      align_key(key, keys.dim, key_exponent, aligned + count * keys.dim);
    }
    if (count == kTokenBlock) {
      score_tokens<kTokenBlock>(aligned, query, keys.dim, rows, scores);
    } else {
      score_tokens<1>(aligned, query, keys.dim, rows, scores);
    }
    scores += count * rows;
  }
}

void align_query_target(const Query& query, std::int32_t* HWY_RESTRICT aligned) {
  const std::size_t dim = query.dim();
  for (std::size_t row = 0; row < query.rows(); ++row) {
    for (std::size_t channel = 0; channel < dim; ++channel) {
      aligned[row * dim + kernel_position(channel, dim)] = query.aligned(row)[channel];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(exact_scores_target);
HWY_EXPORT(align_query_target);

ExactScorer::ExactScorer(const Query& query, int key_exponent)
    : rows_(query.rows()),
      key_exponent_(key_exponent),
      aligned_(hwy::AllocateAligned<std::int32_t>(rows_ * query.dim())),
      units_(rows_) {
  HWY_DYNAMIC_DISPATCH(align_query_target)(query, aligned_.get());
  for (std::size_t row = 0; row < rows_; ++row) {
    units_[row] = score_unit(query.exponent(row), key_exponent);
  }
}

void ExactScorer::score(const RowSource& keys, std::uint64_t tokens, std::int64_t* scores) const {
  HWY_DYNAMIC_DISPATCH(exact_scores_target)
  (keys, tokens, key_exponent_, aligned_.get(), rows_, scores);
}

}  // namespace nearkv
#endif  // HWY_ONCE
