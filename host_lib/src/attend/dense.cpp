#include "attend/dense.hpp"

#include <numbers>
#include <span>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attend/dense.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "attend/fetch.hpp"
#include "attend/rows-inl.h"
#include "attend/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {

constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
static_assert(kScoreStride == kTokens);

/// Asks for one tile's share of a tensor of the next page, so that it arrives while this one is
/// computed on; for what is looked at before the rows, with the first tile. `rows` are the next
/// page's.
HWY_INLINE void fetch_ahead(const std::byte* next, const PageView& page, nkv_page_array exponents,
                            const RowSource& rows, std::size_t tile) {
  if (next == nullptr) return;
  if (tile == 0) fetch_head(page, next, {exponents});
  const std::uint8_t* const begin = rows.row(tile * kTileTokens);
  for (std::size_t offset = 0; offset < kTileTokens * rows.row_bytes; offset += NKV_BURST_BYTES) {
    __builtin_prefetch(begin + offset, 0, 2);
  }
}

void score_page_target(const DenseQuery& query, const PageView& page, const std::byte* next,
                       DenseScratch* scratch) {
  float* const tile = scratch->tile.get();
  const RowSource keys = page.keys();
  const RowSource after = next != nullptr ? page.keys_at(next) : RowSource{};
  for (std::size_t t = 0; t < kTokens; t += kTileTokens) {
    fetch_ahead(next, page, NKV_PAGE_ARRAY_K_EXPONENTS, after, t / kTileTokens);
    decode_rows(keys, t, kTileTokens, tile);
    score_tile(Stream<float>{tile}, query.values.get(), query.rows, query.dim,
               scratch->scores.get() + t);
  }
}

std::uint64_t tokens_at_least_target(const float* HWY_RESTRICT scores, float bound) {
  const FloatTag d;
  std::uint64_t tokens = 0;
  for (std::size_t t = 0; t < kTokens; t += hn::Lanes(d)) {
    const auto is_at_least = hn::Ge(hn::Load(d, scores + t), hn::Set(d, bound));
    if (hn::AllFalse(d, is_at_least)) continue;
    std::uint64_t bits = 0;
    hn::StoreMaskBits(d, is_at_least, reinterpret_cast<std::uint8_t*>(&bits));
    tokens |= bits << t;
  }
  return tokens;
}

void attend_page_target(const DenseQuery& query, const PageView& page, std::uint64_t visible,
                        const std::byte* next, DenseScratch* scratch, SoftmaxState* state) {
  float* const tile = scratch->tile.get();
  float* const scores = scratch->scores.get();
  score_page_target(query, page, next, scratch);
  for (std::size_t row = 0; row < query.rows; ++row) {
    weigh_row(query.soft_cap, visible, scores + row * kTokens,
              {&state->maximum[row], &state->sum[row], state->values(row).data(), state->dim});
  }
  const RowSource values = page.values();
  const RowSource after = next != nullptr ? page.values_at(next) : RowSource{};
  for (std::size_t t = 0; t < kTokens; t += kTileTokens) {
    fetch_ahead(next, page, NKV_PAGE_ARRAY_V_EXPONENTS, after, t / kTileTokens);
    decode_rows(values, t, kTileTokens, tile);
    accumulate(Stream<float>{tile}, values.dim, values.dim, kTileTokens, {scores + t, kTokens},
               query.rows, state->accumulator.data(), state->dim);
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
HWY_EXPORT(score_page_target);
HWY_EXPORT(tokens_at_least_target);

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

DenseQuery order_query(std::span<const float> values, std::size_t dim) {
  DenseQuery dense;
  dense.rows = values.size() / dim;
  dense.dim = dim;
  dense.values = hwy::AllocateAligned<float>(values.size());
  const std::vector<std::uint16_t> position = kernel_order(dim);
  for (std::size_t i = 0; i < values.size(); ++i) {
    dense.values[i / dim * dim + position[i % dim]] = values[i];
  }
  return dense;
}

DenseQuery prepare_dense(const Query& query, float scale, float soft_cap) {
  constexpr auto kLog2E = static_cast<float>(std::numbers::log2e);
  DenseQuery dense = order_query(query.values(), query.dim());
  dense.soft_cap = soft_cap * kLog2E;
  for (std::size_t i = 0; i < dense.rows * dense.dim; ++i) {
    dense.values[i] = dense.values[i] * scale * kLog2E;
  }
  return dense;
}

void attend_page(const DenseQuery& query, const PageView& page, std::uint64_t visible,
                 const std::byte* next, DenseScratch* scratch, SoftmaxState* state) {
  HWY_DYNAMIC_DISPATCH(attend_page_target)(query, page, visible, next, scratch, state);
}

void score_page(const DenseQuery& query, const PageView& page, const std::byte* next,
                DenseScratch* scratch) {
  HWY_DYNAMIC_DISPATCH(score_page_target)(query, page, next, scratch);
}

std::uint64_t tokens_at_least(const float* scores, float bound) {
  return HWY_DYNAMIC_DISPATCH(tokens_at_least_target)(scores, bound);
}

}  // namespace nearkv
#endif  // HWY_ONCE
