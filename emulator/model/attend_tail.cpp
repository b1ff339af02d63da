// ATTEND, mode TAIL (section 7): the best k exactly, all others by midpoint and page mean.
#include <algorithm>
#include <bit>
#include <optional>

#include "attend.hpp"
#include "number.hpp"
#include "rows.hpp"
#include "tail_state.hpp"

namespace nearkv::model {

namespace {

// What a page's tokens outside the exact set weigh together, as a token would (7.4).
struct RestWeight {
  int64_t mantissa;      // w
  int64_t integer_part;  // I

  [[nodiscard]] Weight against(int64_t reference) const {
    return {.mantissa = mantissa, .shift = reference - integer_part};
  }
};

std::optional<RestWeight> rest_weight(const TailState& state, size_t row, size_t page) {
  constexpr int kMantissaBits = 18;
  constexpr int kUnitBits = 42;  // Of a weight of 1.
  constexpr int64_t kLargestIntegerPart = (int64_t{1} << 31) - 1;
  const int64_t reference = state.midpoint_reference(row);
  uint64_t sum = 0;
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(state.rest(page), token)) continue;
    sum += static_cast<uint64_t>(weight_of(state.logit(row, page, token), reference).units());
  }
  if (sum == 0) return std::nullopt;
  const TopBits w = top_bits(sum, kMantissaBits);
  return RestWeight{
      .mantissa = static_cast<int64_t>(w.top),
      .integer_part = std::clamp(reference + w.power + kMantissaBits - kUnitBits,
                                 -kLargestIntegerPart, kLargestIntegerPart),
  };
}

// The mean value of a page's rest, u_c (7.4).
std::vector<int32_t> rest_mean(const TailState& state, size_t page) {
  constexpr int64_t kValueLimit = (int64_t{1} << 24) - 1;
  std::vector<int32_t> mean;
  const int64_t tokens = std::popcount(state.rest(page));
  if (tokens == 0) return mean;
  const int64_t reciprocal = ((1 << 17) / tokens + 1) / 2;  // round(2^16 / r)
  for (const int64_t sum : state.rest_value_sum(page)) {
    mean.push_back(static_cast<int32_t>(
        std::clamp(floor_shift(sum * reciprocal, 16), -kValueLimit, kValueLimit)));
  }
  return mean;
}

void add_page(const TailState& state, size_t page, std::vector<RowSoftmax>* softmax) {
  std::vector<uint32_t> tokens;
  std::vector<std::vector<int32_t>> values;
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(state.exact(page), token)) continue;
    tokens.push_back(token);
    values.push_back(
        value_row(state.pages()[page].page, token, state.task().input.exponents.value));
  }
  const std::vector<int32_t> mean = rest_mean(state, page);

  for (size_t row = 0; row < softmax->size(); ++row) {
    RowSoftmax& sums = (*softmax)[row];
    const auto rest = rest_weight(state, row, page);
    int64_t largest = rest ? rest->integer_part : kNoReference;
    for (const uint32_t token : tokens) {
      largest = std::max(largest, integer_part(state.logit(row, page, token)));
    }
    sums.raise_reference(largest);
    for (size_t i = 0; i < tokens.size(); ++i) {
      sums.add(weight_of(state.logit(row, page, tokens[i]), sums.reference()), values[i]);
    }
    if (rest) sums.add(rest->against(sums.reference()), mean);
  }
}

}  // namespace

AttendAnswer attend_tail(const AttendTask& task) {
  AttendAnswer answer;
  TailState state(task);
  answer.verdict = state.scan(task.command.top_k);
  if (!answer.verdict.ok()) return answer;

  std::vector<RowSoftmax> softmax(task.command.group, RowSoftmax(task.command.value_dim));
  for (size_t page = 0; page < state.pages().size(); ++page) add_page(state, page, &softmax);
  for (const RowSoftmax& row : softmax) answer.rows.push_back(finish_row(task, row));
  answer.traffic = state.traffic();
  if (state.hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
  return answer;
}

}  // namespace nearkv::model
