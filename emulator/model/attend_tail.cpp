// ATTEND, mode TAIL (section 7): the best k exactly, all others by midpoint and page mean.
#include <bit>

#include "attend.hpp"
#include "rows.hpp"
#include "tail_state.hpp"

namespace nearkv::model {

namespace {

void add_exact_tokens(const TailState& state, std::vector<RowSoftmax>* softmax) {
  for (size_t page = 0; page < state.pages().size(); ++page) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(state.exact(page), token)) continue;
      const auto value =
          value_row(state.pages()[page].page, token, state.task().input.exponents.value);
      for (size_t row = 0; row < softmax->size(); ++row) {
        (*softmax)[row].add(state.logit(row, page, token), value);
      }
    }
  }
}

// Section 7.3.
void add_rest_of_pages(const TailState& state, size_t row, RowSoftmax* softmax) {
  for (size_t page = 0; page < state.pages().size(); ++page) {
    const TokenMask rest = state.rest(page);
    if (rest == 0) continue;
    int64_t weight = 0;
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(rest, token)) continue;
      weight += weight_of(state.logit(row, page, token), softmax->reference()).units();
    }
    const int64_t tokens = std::popcount(rest);
    const int64_t reciprocal = ((1 << 17) / tokens + 1) / 2;  // round(2^16 / r)
    softmax->add_rest(weight, state.rest_value_sum(page), reciprocal);
  }
}

}  // namespace

AttendAnswer attend_tail(const AttendTask& task) {
  AttendAnswer answer;
  TailState state(task);
  answer.verdict = state.scan(task.command.top_k);
  if (!answer.verdict.ok()) return answer;

  std::vector<RowSoftmax> softmax(task.command.group, RowSoftmax(task.command.value_dim));
  for (size_t row = 0; row < softmax.size(); ++row) {
    softmax[row].raise_reference(state.largest_integer_part(row));
  }
  add_exact_tokens(state, &softmax);
  for (size_t row = 0; row < softmax.size(); ++row) {
    add_rest_of_pages(state, row, &softmax[row]);
    answer.rows.push_back(finish_row(task, softmax[row]));
  }
  answer.traffic = state.traffic();
  if (state.hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
  return answer;
}

}  // namespace nearkv::model
