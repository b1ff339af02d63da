// TOPK, modes FULL and INDEXER (section 6): every visible key row is read.
#include <algorithm>
#include <cmath>

#include "rounding.hpp"
#include "rows.hpp"
#include "topk.hpp"

namespace nearkv::model {

namespace {

Verdict open_pages(const TopkTask& task, bool raw_keys, ListedPages* pages) {
  const PageDemand demand{
      .head_dim = task.command.head_dim,
      .value_dim = std::nullopt,
      .raw_keys = raw_keys,
      .streamed = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS, NKV_PAGE_ARRAY_KEY_SCALES}};
  return ListedPages::open(task.domain, task.input.entries, task.input.visibility, demand, pages);
}

// One key's score over all heads: Σ_h weight_h · max(0, q_h k).
double indexer_score(const TopkTask& task, const std::vector<float>& weights,
                     std::span<const int32_t> key) {
  double sum = 0;
  for (size_t row = 0; row < weights.size(); ++row) {
    const int64_t score = exact_score(task.input.query.row(row), key);
    sum += static_cast<double>(weights[row]) * std::max(0.0, score_value(task, row, score));
  }
  return sum;
}

}  // namespace

TopkAnswer topk_full(const TopkTask& task) {
  TopkAnswer answer;
  ListedPages pages;
  answer.verdict = open_pages(task, /*raw_keys=*/false, &pages);
  if (!answer.verdict.ok()) return answer;
  answer.traffic.stream = full_scan_bursts(pages);
  if (pages.hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;

  const Query& query = task.input.query;
  std::vector<std::vector<ScoredToken<int64_t>>> scored(query.rows());
  for (const ListedPage& listed : pages) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(listed.visible, token)) continue;
      const auto key = key_row(listed.page, token, task.input.exponents.key);
      for (size_t row = 0; row < query.rows(); ++row) {
        scored[row].push_back(
            {.score = exact_score(query.row(row), key), .token = listed.first_token() + token});
      }
    }
  }
  for (size_t row = 0; row < query.rows(); ++row) {
    answer.rows.push_back(found_by_score(task, row, std::move(scored[row])));
  }
  return answer;
}

TopkAnswer topk_indexer(const TopkTask& task) {
  TopkAnswer answer;
  const auto weights = task.domain.window.load<float>(task.command.weights, task.command.group);
  for (size_t row = 0; row < weights.size(); ++row) {
    if (!std::isfinite(weights[row])) {
      answer.verdict = {NKV_STATUS_BAD_QUERY, row};
      return answer;
    }
  }
  ListedPages pages;
  answer.verdict = open_pages(task, /*raw_keys=*/true, &pages);
  if (!answer.verdict.ok()) return answer;
  answer.traffic.stream = full_scan_bursts(pages);

  bool hides_nonfinite = pages.hides_nonfinite();
  std::vector<ScoredToken<double>> scored;
  for (const ListedPage& listed : pages) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(listed.visible, token)) continue;
      // A key whose scale is not finite is no more a key than one whose channels are not.
      const float scale = key_scale(listed.page, token);
      hides_nonfinite |= !std::isfinite(scale);
      if (!std::isfinite(scale)) continue;
      const auto key = key_row(listed.page, token, task.input.exponents.key);
      scored.push_back({.score = static_cast<double>(scale) * indexer_score(task, weights, key),
                        .token = listed.first_token() + token});
    }
  }
  if (hides_nonfinite) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
  std::vector<FoundToken>& row = answer.rows.emplace_back();
  for (const auto& best : best_tokens(std::move(scored), task.command.top_k)) {
    const double score = best.score * static_cast<double>(task.command.scale);
    row.push_back({.token = best.token, .score = nearest_binary32(score)});
  }
  return answer;
}

}  // namespace nearkv::model
