#include "best_codes.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace nearkv::model {

namespace {

constexpr int64_t kBins = 4096;
constexpr int kBinBits = 4;  // Of a logit.

// Calls `use(page, token)` for every visible token.
template <typename Use>
void for_each_visible(const CodedList& list, const Use& use) {
  for (size_t page = 0; page < list.size(); ++page) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (has_token(list.pages()[page].visible, token)) use(page, token);
    }
  }
}

void add_best(const CodeScores& scores, size_t row, uint64_t count, TokenSet* tokens) {
  int64_t largest = std::numeric_limits<int64_t>::min();
  for_each_visible(scores.list(), [&](size_t page, uint32_t token) {
    largest = std::max(largest, scores.logit(row, page, token));
  });
  const auto bin_of = [&](size_t page, uint32_t token) {
    return std::min((largest - scores.logit(row, page, token)) >> kBinBits, kBins - 1);
  };
  std::array<uint64_t, kBins> counts{};
  for_each_visible(scores.list(), [&](size_t page, uint32_t token) {
    ++counts[static_cast<size_t>(bin_of(page, token))];
  });
  uint64_t reached = 0;
  int64_t last = 0;
  for (; last < kBins; ++last) {
    reached += counts[static_cast<size_t>(last)];
    if (reached >= count) break;
  }
  for_each_visible(scores.list(), [&](size_t page, uint32_t token) {
    if (bin_of(page, token) <= last) (*tokens)[page] |= token_bit(token);
  });
}

}  // namespace

TokenSet best_by_codes(const CodeScores& scores, uint64_t count) {
  TokenSet visible = scores.list().pages().visible();
  if (count_tokens(visible) <= count) return visible;
  TokenSet tokens = scores.list().pages().none();
  if (count == 0) return tokens;
  for (size_t row = 0; row < scores.rows(); ++row) add_best(scores, row, count, &tokens);
  return tokens;
}

}  // namespace nearkv::model
