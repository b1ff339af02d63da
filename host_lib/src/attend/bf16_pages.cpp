#include "attend/bf16_pages.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>
#include <numbers>

#include "attend/dense.hpp"
#include "attend/fetch.hpp"
#include "attend/rows_bf16.hpp"

namespace nearkv {
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

/// Empty if bf16 would change one.
std::vector<std::uint16_t> bf16_rows(std::span<const float> values) {
  std::vector<std::uint16_t> rounded;
  rounded.reserve(values.size());
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0xFFFFU) != 0) return {};
    rounded.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  return rounded;
}

SpanShape page_shape(std::size_t key_dim, std::size_t value_dim, std::size_t value_stride) {
  SpanShape shape;
  shape.dtype = NKV_DTYPE_BF16;
  shape.block_tokens = NKV_PAGE_TOKENS;
  shape.key_dim = key_dim;
  shape.value_dim = value_dim;
  shape.value_stride = value_stride;
  return shape;
}

/// Where a page's rows of one tensor are to be read.
struct Rows {
  const std::byte* here;
  const std::byte* next;  ///< Of the page after it, or null.
};

/// Decodes the rows where they are DELTA4. `after` are those of the page after them.
Rows plain_rows(const RowSource& source, const RowSource& after, std::uint16_t* tile) {
  const auto* const ahead = reinterpret_cast<const std::byte*>(after.rows);
  if (!source.is_delta4()) return {reinterpret_cast<const std::byte*>(source.rows), ahead};
  decode_delta4_bf16(source, ahead, tile);
  return {reinterpret_cast<const std::byte*>(tile), nullptr};
}

}  // namespace

std::uint16_t* Bf16Tiles::keys() {
  if (rows_ == nullptr) rows_ = hwy::AllocateAligned<std::uint16_t>(2 * kRowsOfPage);
  if (rows_ == nullptr) throw std::bad_alloc();
  return rows_.get();
}

Bf16Pages::Bf16Pages(const Query& query, float scale, float soft_cap, int key_exponent)
    : group_(query.rows()),
      dim_(query.dim()),
      factor_(scale * std::numbers::log2e_v<float>),
      soft_cap_(soft_cap * std::numbers::log2e_v<float>) {
  if (sums_are_safe(query, key_exponent, factor_)) rows_ = bf16_rows(query.values());
}

Bf16Pages::Bf16Pages(std::span<const float> rows, std::size_t dim)
    : group_(rows.size() / dim), dim_(dim), factor_(1), rows_(bf16_rows(rows)) {}

bool Bf16Pages::takes(const PageView& page) const {
  // The instructions take subnormal products for zeros: values below this might lose all of them.
  constexpr int kLeastValues = 32;
  const RowSource keys = page.keys();
  const RowSource values = page.values();
  return !rows_.empty() && page.header().v_exponent >= kLeastValues &&
         keys.dtype == NKV_DTYPE_BF16 && values.dtype == NKV_DTYPE_BF16 &&
         attend_span_bf16(page_shape(dim_, values.dim, values.dim)) != nullptr;
}

void Bf16Pages::attend(const PageView& page, std::uint64_t visible, const std::byte* next,
                       Bf16Tiles* tiles, SpanScope* scope, SoftmaxState* state) const {
  if (visible == 0) return;
  if (next != nullptr) {
    fetch_head(page, next, {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_V_EXPONENTS});
  }
  const bool has_values = page.header().v_form != NKV_ROW_FORM_NONE;
  const RowSource value_source = page.values();
  const bool has_next = next != nullptr;
  const Rows keys =
      plain_rows(page.keys(), has_next ? page.keys_at(next) : RowSource{}, tiles->keys());
  const Rows values =
      has_values
          ? plain_rows(value_source, has_next ? page.values_at(next) : RowSource{}, tiles->values())
          : keys;
  const SpanShape shape = page_shape(dim_, value_source.dim, has_values ? value_source.dim : dim_);
  const AttendSpan attend_span = attend_span_bf16(shape);
  const Span span{keys.here, values.here, 0, NKV_PAGE_TOKENS, visible};
  const Span span_after{keys.next, values.next, 0, NKV_PAGE_TOKENS, visible};
  for (std::size_t row = 0; row < group_; row += kSpanRows) {
    const SpanQuery query{reinterpret_cast<const std::byte*>(rows_.data() + row * dim_),
                          std::min(group_ - row, kSpanRows), factor_, soft_cap_};
    attend_span(shape, query, span, row == 0 ? &span_after : nullptr,
                {&state->maximum[row], &state->sum[row], state->values(row).data()}, scope);
  }
}

bool Bf16Pages::score(const PageView& page, const std::byte* next, Bf16Tiles* tiles,
                      SpanScope* scope, float* scores) const {
  const RowSource source = page.keys();
  SpanShape shape = page_shape(dim_, 0, 0);
  shape.dtype = source.dtype;
  const ScoreSpan score_span = rows_.empty() ? nullptr : score_span_bf16(shape);
  if (score_span == nullptr) return false;
  if (next != nullptr) fetch_head(page, next, {NKV_PAGE_ARRAY_K_EXPONENTS});
  const Rows keys =
      plain_rows(source, next != nullptr ? page.keys_at(next) : RowSource{}, tiles->keys());
  const Span span{keys.here, nullptr, 0, NKV_PAGE_TOKENS, 0};
  const Span span_after{keys.next, nullptr, 0, NKV_PAGE_TOKENS, 0};
  for (std::size_t row = 0; row < group_; row += kSpanRows) {
    const SpanQuery query{reinterpret_cast<const std::byte*>(rows_.data() + row * dim_),
                          std::min(group_ - row, kSpanRows), factor_, 0};
    score_span(shape, query, span, row == 0 ? &span_after : nullptr, scores + row * NKV_PAGE_TOKENS,
               scope);
  }
  return true;
}

void Bf16Pages::order_channels(SoftmaxState* state) {
  if (state->dim == 0) return;
  order_values_bf16(page_shape(state->dim, state->dim, state->dim), state->rows(),
                    state->accumulator.data());
  const std::vector<std::uint16_t> position = kernel_order(state->dim);
  std::vector<float> ordered(state->dim);
  for (std::size_t row = 0; row < state->rows(); ++row) {
    const std::span<float> values = state->values(row);
    for (std::size_t c = 0; c < state->dim; ++c) ordered[position[c]] = values[c];
    std::copy(ordered.begin(), ordered.end(), values.begin());
  }
}

}  // namespace nearkv
