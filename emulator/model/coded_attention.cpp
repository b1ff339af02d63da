#include "coded_attention.hpp"

#include <array>
#include <utility>

#include "code_sums.hpp"
#include "query.hpp"
#include "rows.hpp"

namespace nearkv::model {

CodedAttention::CodedAttention(const AttendTask& task, CodedList list)
    : task_(task),
      list_(std::move(list)),
      scores_(list_, CodeQuery(task.input.query, list_.gains(), code_scale(task.command.scale))),
      weights_(scores_),
      reads_(list_, task.command.head_dim, task.command.value_dim),
      traffic_{.stream = list_.scan_bursts()} {}

bool CodedAttention::shares_rows() const {
  return list_.pages()[0].page.header().v_form == NKV_ROW_FORM_NONE;
}

Verdict CodedAttention::read(const CodeReads& next) {
  constexpr std::array kKeyArrays{NKV_PAGE_ARRAY_K_EXPONENTS};
  constexpr std::array kValueArrays{NKV_PAGE_ARRAY_V_EXPONENTS};
  TokenSet key_rows = next.keys.rows;
  TokenSet value_rows = next.values.rows;
  for (size_t page = 0; page < list_.size(); ++page) {
    key_rows[page] &= ~reads_.keys.rows[page];
    value_rows[page] &= ~reads_.values.rows[page];
  }
  ListedPages& pages = list_.pages();
  Verdict verdict = pages.rely_on(task_.domain, task_.input.entries, key_rows, kKeyArrays);
  if (!verdict.ok()) return verdict;
  verdict = pages.rely_on(task_.domain, task_.input.entries, value_rows, kValueArrays);
  if (!verdict.ok()) return verdict;

  const Traffic costs = reading_costs(list_, reads_, next);
  traffic_.refine += costs.refine;
  traffic_.exact += costs.exact;
  traffic_.value += costs.value;
  for (size_t page = 0; page < list_.size(); ++page) {
    if (key_rows[page] != 0) take_key_rows(page, key_rows[page]);
    for (uint32_t granule = 0; granule < next.keys.granules(); ++granule) {
      const int planes = next.keys.planes[page][granule];
      if (planes == reads_.keys.planes[page][granule]) continue;
      scores_.refine(page, next.keys.tokens_of(granule) & list_.coded(page), planes);
    }
  }
  weights_.update();
  reads_ = next;
  return {};
}

CodeReads CodedAttention::with_plain_pages() const {
  CodeReads reads = reads_;
  reads.keys.rows = list_.plain();
  reads.values.rows = list_.plain();
  return reads;
}

uint64_t CodedAttention::scan_bursts() const {
  return list_.scan_bursts() + reading_costs(list_, reads_, with_plain_pages()).total();
}

void CodedAttention::take_key_rows(size_t page, TokenMask tokens) {
  const Query& query = task_.input.query;
  std::vector<TokenLogits> logits(query.rows());
  for_each_token(tokens, [&](uint32_t token) {
    const auto key = key_row(list_.pages()[page].page, token, task_.input.exponents.key);
    for (size_t row = 0; row < query.rows(); ++row) {
      logits[row][token] = task_.scale.logit(exact_score(query.row(row), key), query.exponent(row));
    }
  });
  for (size_t row = 0; row < query.rows(); ++row) {
    scores_.set_exact(row, page, tokens, logits[row]);
  }
}

std::vector<RowSoftmax> CodedAttention::sums() const {
  std::vector<RowSoftmax> sums;
  for (size_t row = 0; row < scores_.rows(); ++row) {
    sums.push_back(code_sums(task_, scores_, weights_, reads_, row));
  }
  return sums;
}

AttendAnswer CodedAttention::answer(const std::vector<RowSoftmax>& sums) const {
  AttendAnswer answer{.traffic = traffic_};
  for (const RowSoftmax& row : sums) answer.rows.push_back(finish_row(task_, row));
  if (list_.pages().hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
  return answer;
}

AttendAnswer CodedAttention::dense_answer() const { return fall_back_to_dense(task_, traffic_); }

}  // namespace nearkv::model
