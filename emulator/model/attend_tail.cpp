// ATTEND, mode TAIL (section 7): the best k exactly, all others by midpoint and page mean.
#include <algorithm>
#include <bit>

#include "attend.hpp"
#include "tail_page.hpp"
#include "tail_state.hpp"

namespace nearkv::model {

namespace {

void add_page(const TailState& state, size_t page, std::vector<RowSoftmax>* softmax) {
  const int64_t tokens = std::max(std::popcount(state.rest(page)), 1);
  const TailPage tail(state, page, mean_value(state.rest_value_sum(page), tokens));
  for (size_t row = 0; row < softmax->size(); ++row) {
    (*softmax)[row].raise_reference(tail.largest(row));
    tail.add_to(row, &(*softmax)[row]);
  }
}

}  // namespace

AttendAnswer attend_tail(const AttendTask& task) {
  AttendAnswer answer;
  TailState state(task);
  answer.verdict = state.scan(task.command.top_k);
  if (!answer.verdict.ok()) return answer;
  answer.verdict = state.read_exact_set(state.pages().none());
  if (!answer.verdict.ok()) return answer;

  std::vector<RowSoftmax> softmax(task.command.group, RowSoftmax(task.command.value_dim));
  for (size_t page = 0; page < state.pages().size(); ++page) add_page(state, page, &softmax);
  for (const RowSoftmax& row : softmax) answer.rows.push_back(finish_row(task, row));
  answer.traffic = state.traffic();
  if (state.hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
  return answer;
}

}  // namespace nearkv::model
