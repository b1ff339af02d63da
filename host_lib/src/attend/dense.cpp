#include "attend/dense.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attend/dense.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "attend/exp2-inl.h"
#include "attend/rows-inl.h"
#include "attend/scores_bf16.hpp"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {

using FloatTag = hn::CappedTag<float, 16>;
constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
constexpr std::size_t kTileTokens =
    16;  // Rows decoded at a time: they stay in the first-level cache.
static_assert(kTileTokens == kBf16ScoreTokens);
constexpr std::size_t kTokenBlock = 4;  // Tokens and rows whose sums stay in registers.
constexpr std::size_t kRowBlock = 4;

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

/// Dot products of kRows query rows with kTokenBlock keys: scores[row * kTokens + token].
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
    store_sums(sums[row][0], sums[row][1], sums[row][2], sums[row][3], scores + row * kTokens);
  }
}

void score_tile(const float* HWY_RESTRICT keys, const DenseQuery& query,
                float* HWY_RESTRICT scores) {
  for (std::size_t t = 0; t < kTileTokens; t += kTokenBlock) {
    std::size_t row = 0;
    for (; row + kRowBlock <= query.rows; row += kRowBlock) {
      score_block<kRowBlock>(keys + t * query.dim, query.values.get() + row * query.dim, query.dim,
                             scores + row * kTokens + t);
    }
    for (; row < query.rows; ++row) {
      score_block<1>(keys + t * query.dim, query.values.get() + row * query.dim, query.dim,
                     scores + row * kTokens + t);
    }
  }
}

/// Adds kRows rows' weighted values of a tile to their accumulators, kVectors vectors of channels
/// at a time.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void accumulate_block(const float* HWY_RESTRICT values, std::size_t stride,
                                 const float* HWY_RESTRICT weights, float* HWY_RESTRICT accumulator,
                                 std::size_t accumulator_stride) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const std::size_t lanes = hn::Lanes(d);
  V sums[kRows][kVectors];
  for (auto& row : sums) {
    for (V& sum : row) sum = hn::Zero(d);
  }
  for (std::size_t t = 0; t < kTileTokens; ++t) {
    V value[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      value[v] = hn::Load(d, values + t * stride + v * lanes);
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      const V weight = hn::Set(d, weights[row * kTokens + t]);
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
void accumulate_rows(const float* HWY_RESTRICT values, std::size_t dim,
                     const float* HWY_RESTRICT weights, float* HWY_RESTRICT accumulator) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t channel = 0;
  for (; channel + 4 * lanes <= dim; channel += 4 * lanes) {
    accumulate_block<kRows, 4>(values + channel, dim, weights, accumulator + channel, dim);
  }
  for (; channel < dim; channel += lanes) {
    accumulate_block<kRows, 1>(values + channel, dim, weights, accumulator + channel, dim);
  }
}

/// Turns a row's logits into weights against the row's running maximum.
void weigh_row(float soft_cap, std::uint64_t visible, std::size_t row, float* HWY_RESTRICT scores,
               SoftmaxState* state) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  if (soft_cap > 0) {
    const auto cap = hn::Set(d, soft_cap);
    const auto inverse = hn::Set(d, 1.0F / soft_cap);
    for (std::size_t t = 0; t < kTokens; t += lanes) {
      hn::Store(hn::Mul(cap, tanh(d, hn::Mul(hn::Load(d, scores + t), inverse))), d, scores + t);
    }
  }
  for (std::uint64_t hidden = ~visible; hidden != 0; hidden &= hidden - 1) {
    scores[std::countr_zero(hidden)] = -std::numeric_limits<float>::infinity();
  }
  auto largest = hn::Load(d, scores);
  for (std::size_t t = lanes; t < kTokens; t += lanes) {
    largest = hn::Max(largest, hn::Load(d, scores + t));
  }
  state->raise(row, hn::GetLane(hn::MaxOfLanes(d, largest)));
  const auto reference = hn::Set(d, state->maximum[row]);
  auto sum = hn::Zero(d);
  for (std::size_t t = 0; t < kTokens; t += lanes) {
    const auto weight = exp2(d, hn::Sub(hn::Load(d, scores + t), reference));
    hn::Store(weight, d, scores + t);
    sum = hn::Add(sum, weight);
  }
  state->sum[row] += hn::GetLane(hn::SumOfLanes(d, sum));
}

/// Asks for bytes of the next page that lie where `here` lies in this one.
HWY_INLINE void fetch(const std::byte* next, std::span<const std::byte> here,
                      const std::byte* page) {
  const std::byte* const from = next + (here.data() - page);
  for (std::size_t offset = 0; offset < here.size(); offset += NKV_BURST_BYTES) {
    __builtin_prefetch(from + offset, 0, 2);
  }
}

/// Asks for one tile's share of a tensor of the next page, so that it arrives while this one is
/// computed on; for what is looked at before the rows, with the first tile.
HWY_INLINE void fetch_ahead(const std::byte* next, const PageView& page, nkv_page_array exponents,
                            nkv_page_array rows, std::size_t tile) {
  if (next == nullptr) return;
  if (tile == 0) {
    fetch(next, {page.start(), sizeof(nkv_page_header)}, page.start());
    fetch(next, page.bytes(exponents), page.start());
  }
  const std::span<const std::byte> array = page.bytes(rows);
  const std::size_t share = array.size() / (kTokens / kTileTokens);
  fetch(next, array.subspan(tile * share, share), page.start());
}

void attend_page_target(const DenseQuery& query, const PageView& page, std::uint64_t visible,
                        const std::byte* next, DenseScratch* scratch, SoftmaxState* state) {
  float* const tile = scratch->tile.get();
  float* const scores = scratch->scores.get();
  const RowSource keys = page.keys();
  const bool bf16 = !query.bf16.empty() && has_bf16_scores(keys);
  for (std::size_t t = 0; t < kTokens; t += kTileTokens) {
    fetch_ahead(next, page, NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS, t / kTileTokens);
    if (bf16) {
      bf16_scores(keys, t, query.bf16.data(), query.rows, query.bf16_factor, scores + t);
    } else {
      decode_rows(keys, t, kTileTokens, tile);
      score_tile(tile, query, scores + t);
    }
  }
  for (std::size_t row = 0; row < query.rows; ++row) {
    weigh_row(query.soft_cap, visible, row, scores + row * kTokens, state);
  }
  const RowSource values = page.values();
  for (std::size_t t = 0; t < kTokens; t += kTileTokens) {
    fetch_ahead(next, page, NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS, t / kTileTokens);
    decode_rows(values, t, kTileTokens, tile);
    std::size_t row = 0;
    for (; row + kRowBlock <= query.rows; row += kRowBlock) {
      accumulate_rows<kRowBlock>(tile, values.dim, scores + row * kTokens + t,
                                 state->values(row).data());
    }
    for (; row < query.rows; ++row) {
      accumulate_rows<1>(tile, values.dim, scores + row * kTokens + t, state->values(row).data());
    }
  }
}

void kernel_order_target(std::size_t dim, std::uint16_t* position) {
  for (std::size_t channel = 0; channel < dim; ++channel) {
    position[channel] = static_cast<std::uint16_t>(kernel_position(channel, dim));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(attend_page_target);
HWY_EXPORT(kernel_order_target);

void DenseScratch::reserve(std::size_t wanted_rows) {
  if (wanted_rows <= rows) return;
  rows = wanted_rows;
  tile = hwy::AllocateAligned<float>(std::size_t{16} * NKV_MAX_HEAD_DIM);
  scores = hwy::AllocateAligned<float>(rows * NKV_PAGE_TOKENS);
}

std::vector<std::uint16_t> kernel_order(std::size_t dim) {
  std::vector<std::uint16_t> position(dim);
  HWY_DYNAMIC_DISPATCH(kernel_order_target)(dim, position.data());
  return position;
}

namespace {

/// Whether sums of products with keys up to 2^(key_exponent - 126) neither overflow binary32 nor
/// lose anything that `factor` would make visible.
bool sums_are_safe(const Query& query, int key_exponent, float factor) {
  constexpr int kLargestSum = 127 + 2 * 126;
  constexpr int kMostTerms = 10;  // 2^10 > MAX_HEAD_DIM.
  for (std::size_t row = 0; row < query.rows(); ++row) {
    if (query.exponent(row) + key_exponent + kMostTerms > kLargestSum) return false;
  }
  return std::abs(factor) < 0x1p64F;
}

/// All rows as bf16; empty if that would change one, or if bf16_scores() takes no such rows.
std::vector<std::uint16_t> arranged_bf16(const Query& query) {
  if (query.dim() % kBf16ScoreChannels != 0) return {};
  std::vector<std::uint16_t> arranged(query.rows() * query.dim());
  std::vector<std::uint16_t> row_bits(query.dim());
  for (std::size_t row = 0; row < query.rows(); ++row) {
    for (std::size_t channel = 0; channel < query.dim(); ++channel) {
      const auto bits = std::bit_cast<std::uint32_t>(query.values(row)[channel]);
      if ((bits & 0xFFFFU) != 0) return {};
      row_bits[channel] = static_cast<std::uint16_t>(bits >> 16);
    }
    arrange_bf16_query(row_bits.data(), query.dim(), arranged.data() + row * query.dim());
  }
  return arranged;
}

}  // namespace

DenseQuery prepare_dense(const Query& query, float scale, float soft_cap, int key_exponent) {
  constexpr auto kLog2E = static_cast<float>(std::numbers::log2e);
  DenseQuery dense;
  dense.rows = query.rows();
  dense.dim = query.dim();
  dense.soft_cap = soft_cap * kLog2E;
  dense.bf16_factor = scale * kLog2E;
  if (sums_are_safe(query, key_exponent, dense.bf16_factor)) dense.bf16 = arranged_bf16(query);
  dense.values = hwy::AllocateAligned<float>(dense.rows * dense.dim);
  const std::vector<std::uint16_t> position = kernel_order(dense.dim);
  for (std::size_t row = 0; row < dense.rows; ++row) {
    for (std::size_t channel = 0; channel < dense.dim; ++channel) {
      dense.values[row * dense.dim + position[channel]] =
          query.values(row)[channel] * scale * kLog2E;
    }
  }
  return dense;
}

void attend_page(const DenseQuery& query, const PageView& page, std::uint64_t visible,
                 const std::byte* next, DenseScratch* scratch, SoftmaxState* state) {
  HWY_DYNAMIC_DISPATCH(attend_page_target)(query, page, visible, next, scratch, state);
}

}  // namespace nearkv
#endif  // HWY_ONCE
