// TOPK, mode STATISTICAL, by codes (section 14).
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "best_codes.hpp"
#include "budget.hpp"
#include "code_reads.hpp"
#include "code_scores.hpp"
#include "rows.hpp"
#include "topk.hpp"

namespace nearkv::model {

namespace {

// T (14.2): the largest factor of the list's keys, or if none has one, the largest unit of means.
int search_top(const CodedList& list) {
  std::optional<int> factor;
  std::optional<int> mean;
  for (size_t page = 0; page < list.size(); ++page) {
    if (list.coded(page) == 0) continue;
    const StoredCodes keys = list.keys(page);
    if (keys.has_residuals()) factor = std::max(factor.value_or(keys.top()), keys.top());
    mean = std::max(mean.value_or(keys.mean_power()), keys.mean_power());
  }
  return factor.value_or(16 * mean.value_or(0));
}

class CodeSearch {
 public:
  CodeSearch(const TopkTask& task, CodedList list)
      : task_(task),
        list_(std::move(list)),
        query_(task.input.query, list_.gains(), search_top(list_)),
        scores_(list_, query_),
        reads_(list_, task.command.head_dim, /*scanned_planes=*/1),
        scored_(task.input.query.rows()),
        traffic_{.stream = list_.scan_bursts()} {}

  TopkAnswer run() {
    const uint64_t scan = traffic_.stream + key_row_bursts(list_.pages(), list_.plain());
    if (Budget::is_dense_cheaper(scan, full_scan_bursts(list_.pages()))) return topk_full(task_);
    TopkAnswer answer;
    answer.verdict = search();
    if (!answer.verdict.ok()) return answer;
    if (scores_.is_loud()) {
      answer = topk_full(task_);
      answer.traffic.stream += traffic_.stream;
      answer.traffic.refine += traffic_.refine;
      answer.traffic.exact += traffic_.exact;
      return answer;
    }
    if (list_.pages().hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
    answer.traffic = traffic_;
    for (size_t row = 0; row < scored_.size(); ++row) {
      answer.rows.push_back(found_by_score(task_, row, std::move(scored_[row])));
    }
    return answer;
  }

 private:
  // Ends early where scores are loud.
  Verdict search() {
    Verdict verdict = read_rows(list_.plain());
    if (!verdict.ok() || scores_.is_loud()) return verdict;
    verdict = read_rows(best_by_codes(scores_, 2 * uint64_t{task_.command.top_k}));
    if (!verdict.ok() || scores_.is_loud()) return verdict;
    take_thresholds();
    TokenSet alive = this->alive(list_.pages().visible());
    for (int planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
      sharpen(alive, planes);
      if (scores_.is_loud()) return {};
      alive = this->alive(alive);
    }
    return read_rows(alive);
  }

  // The logits of every row's τ.
  void take_thresholds() {
    for (size_t row = 0; row < scored_.size(); ++row) {
      const auto best = best_tokens(scored_[row], task_.command.top_k);
      if (best.size() < task_.command.top_k) return;
      const int64_t logit = query_.search_logit(row, best.back().score, task_.input.exponents.key);
      thresholds_.push_back(logit >> kExactToCode);
    }
  }

  // Of tokens whose key rows are not known, those that may yet be among the best.
  [[nodiscard]] TokenSet alive(const TokenSet& tokens) const {
    TokenSet alive = list_.pages().none();
    for (size_t page = 0; page < list_.size(); ++page) {
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        if (!has_token(tokens[page] & ~scores_.known(page), token)) continue;
        if (may_be_best(page, token)) alive[page] |= token_bit(token);
      }
    }
    return alive;
  }

  [[nodiscard]] bool may_be_best(size_t page, uint32_t token) const {
    for (size_t row = 0; row < thresholds_.size(); ++row) {
      const int64_t radius = search_radius(*scores_.variance(row, page, token), task_.command.z);
      if (scores_.logit(row, page, token) + radius >= thresholds_[row]) return true;
    }
    return false;
  }

  void sharpen(const TokenSet& alive, int planes) {
    for (size_t page = 0; page < list_.size(); ++page) {
      for (uint32_t granule = 0; granule < reads_.granules(); ++granule) {
        const TokenMask tokens = alive[page] & reads_.tokens_of(granule);
        if (tokens == 0) continue;
        traffic_.refine += reads_.burst_cost();
        scores_.refine(page, tokens, planes);
      }
    }
  }

  // Reads those of the tokens' key rows that have not been read.
  Verdict read_rows(TokenSet tokens) {
    constexpr std::array kArrays{NKV_PAGE_ARRAY_K_EXPONENTS};
    for (size_t page = 0; page < list_.size(); ++page) tokens[page] &= ~scores_.known(page);
    const Verdict verdict =
        list_.pages().rely_on(task_.domain, task_.input.entries, tokens, kArrays);
    if (!verdict.ok()) return verdict;
    traffic_.exact += key_row_bursts(list_.pages(), tokens);
    for (size_t page = 0; page < list_.size(); ++page) {
      if (tokens[page] != 0) take_rows(page, tokens[page]);
    }
    return {};
  }

  void take_rows(size_t page, TokenMask tokens) {
    const Query& query = task_.input.query;
    const ListedPage& listed = list_.pages()[page];
    const int exponent = task_.input.exponents.key;
    std::vector<TokenLogits> logits(query.rows());
    for_each_token(tokens, [&](uint32_t token) {
      const auto key = key_row(listed.page, token, exponent);
      for (size_t row = 0; row < query.rows(); ++row) {
        const int64_t score = exact_score(query.row(row), key);
        scored_[row].push_back({.score = score, .token = listed.first_token() + token});
        logits[row][token] = query_.search_logit(row, score, exponent);
      }
    });
    for (size_t row = 0; row < query.rows(); ++row) {
      scores_.set_exact(row, page, tokens, logits[row]);
    }
  }

  const TopkTask& task_;
  CodedList list_;
  CodeQuery query_;
  CodeScores scores_;
  TensorReads reads_;
  std::vector<int64_t> thresholds_;  // Per row; none if all visible tokens are among the best.
  std::vector<std::vector<ScoredToken<int64_t>>> scored_;
  Traffic traffic_;
};

}  // namespace

TopkAnswer topk_by_codes(const TopkTask& task, CodedList list) {
  return CodeSearch(task, std::move(list)).run();
}

}  // namespace nearkv::model
