// ATTEND, mode DENSE (section 4): every visible token exactly, one pass over the pages.
#include <algorithm>

#include "attend.hpp"
#include "rows.hpp"

namespace nearkv::model {

namespace {

struct PageRows {
  std::vector<uint32_t> tokens;  // Visible tokens of the page.
  std::vector<std::vector<int32_t>> keys;
  std::vector<std::vector<int32_t>> values;
};

PageRows read_rows(const ListedPage& listed, const ListExponents& exponents) {
  PageRows rows;
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(listed.visible, token)) continue;
    rows.tokens.push_back(token);
    rows.keys.push_back(key_row(listed.page, token, exponents.key));
    rows.values.push_back(value_row(listed.page, token, exponents.value));
  }
  return rows;
}

void add_page(const AttendTask& task, const PageRows& rows, size_t query_row, RowSoftmax* softmax) {
  const Query& query = task.input.query;
  std::vector<int64_t> logits;
  int64_t largest = kNoReference;
  for (const auto& key : rows.keys) {
    const int64_t score = exact_score(query.row(query_row), key);
    logits.push_back(task.scale.logit(score, query.exponent(query_row)));
    largest = std::max(largest, integer_part(logits.back()));
  }
  softmax->raise_reference(largest);
  for (size_t i = 0; i < logits.size(); ++i) {
    softmax->add(weight_of(logits[i], softmax->reference()), rows.values[i]);
  }
}

}  // namespace

Verdict open_dense_pages(const AttendTask& task, ListedPages* pages) {
  const PageDemand demand{.head_dim = task.command.head_dim,
                          .value_dim = task.command.value_dim,
                          .streamed = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                       NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS}};
  return ListedPages::open(task.domain, task.input.entries, task.input.visibility, demand, pages);
}

AttendAnswer attend_dense(const AttendTask& task) {
  AttendAnswer answer;
  ListedPages pages;
  answer.verdict = open_dense_pages(task, &pages);
  if (!answer.verdict.ok()) return answer;
  answer.traffic.stream = dense_bursts(pages);

  std::vector<RowSoftmax> softmax(task.command.group, RowSoftmax(task.command.value_dim));
  for (const ListedPage& listed : pages) {
    const PageRows rows = read_rows(listed, task.input.exponents);
    if (rows.tokens.empty()) continue;
    for (size_t row = 0; row < softmax.size(); ++row) add_page(task, rows, row, &softmax[row]);
  }
  if (pages.hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
  for (const RowSoftmax& row : softmax) answer.rows.push_back(finish_row(task, row));
  return answer;
}

}  // namespace nearkv::model
