#include "tail_page.hpp"

#include <algorithm>
#include <utility>

#include "number.hpp"
#include "rows.hpp"
#include "softmax.hpp"

namespace nearkv::model {

std::vector<int32_t> mean_value(std::span<const int64_t> sums, int64_t tokens) {
  constexpr int64_t kValueLimit = (int64_t{1} << 24) - 1;
  const int64_t reciprocal = ((1 << 17) / tokens + 1) / 2;  // round(2^16 / r)
  std::vector<int32_t> mean;
  for (const int64_t sum : sums) {
    mean.push_back(static_cast<int32_t>(
        std::clamp(floor_shift(sum * reciprocal, 16), -kValueLimit, kValueLimit)));
  }
  return mean;
}

TailPage::TailPage(const TailState& state, size_t page, std::vector<int32_t> mean)
    : state_(&state), page_(page), mean_(std::move(mean)) {
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(state.exact(page), token)) continue;
    tokens_.push_back(token);
    values_.push_back(
        value_row(state.pages()[page].page, token, state.task().input.exponents.value));
  }
  for (size_t row = 0; row < state.rows(); ++row) rests_.push_back(rest_weight(row));
}

std::optional<TailPage::RestWeight> TailPage::rest_weight(size_t row) const {
  constexpr int kMantissaBits = 18;
  constexpr int kUnitBits = 42;  // Of a weight of 1.
  constexpr int64_t kLargestIntegerPart = (int64_t{1} << 31) - 1;
  const int64_t reference = state_->midpoint_reference(row);
  uint64_t sum = 0;
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(state_->rest(page_), token)) continue;
    sum += static_cast<uint64_t>(weight_of(state_->logit(row, page_, token), reference).units());
  }
  if (sum == 0) return std::nullopt;
  const TopBits w = top_bits(sum, kMantissaBits);
  return RestWeight{
      .mantissa = static_cast<int64_t>(w.top),
      .integer_part = std::clamp(reference + w.power + kMantissaBits - kUnitBits,
                                 -kLargestIntegerPart, kLargestIntegerPart),
  };
}

int64_t TailPage::largest(size_t row) const {
  int64_t largest = rests_[row] ? rests_[row]->integer_part : kNoReference;
  for (const uint32_t token : tokens_) {
    largest = std::max(largest, integer_part(state_->logit(row, page_, token)));
  }
  return largest;
}

}  // namespace nearkv::model
