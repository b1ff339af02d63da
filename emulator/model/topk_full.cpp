// TOPK, modes FULL and INDEXER (section 6): every visible key row is read.
#include <bit>

#include "indexer.hpp"
#include "number.hpp"
#include "rounding.hpp"
#include "rows.hpp"
#include "topk.hpp"

namespace nearkv::model {

Verdict open_full_pages(const TopkTask& task, bool raw_keys, ListedPages* pages) {
  const PageDemand demand{
      .head_dim = task.command.head_dim,
      .value_dim = std::nullopt,
      .raw_keys = raw_keys,
      .streamed = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS, NKV_PAGE_ARRAY_KEY_SCALES}};
  return ListedPages::open(task.domain, task.input.entries, task.input.visibility, demand, pages);
}

namespace {

// A token's key scale as a binary32 pattern; 1 if the page has none.
uint32_t scale_pattern(const Page& page, uint32_t token) {
  return std::bit_cast<uint32_t>(key_scale(page, token));
}

}  // namespace

TopkAnswer topk_full(const TopkTask& task) {
  TopkAnswer answer;
  ListedPages pages;
  answer.verdict = open_full_pages(task, /*raw_keys=*/false, &pages);
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
  const auto patterns = task.domain.window.load<uint32_t>(task.command.weights, task.command.group);
  for (size_t row = 0; row < patterns.size(); ++row) {
    if (!decode_binary32(patterns[row]).finite) {
      answer.verdict = {NKV_STATUS_BAD_QUERY, row};
      return answer;
    }
  }
  ListedPages pages;
  answer.verdict = open_full_pages(task, /*raw_keys=*/true, &pages);
  if (!answer.verdict.ok()) return answer;
  answer.traffic.stream = full_scan_bursts(pages);

  const Query& query = task.input.query;
  const IndexerWeights weights(patterns, query.exponents());
  bool hides_nonfinite = pages.hides_nonfinite();
  std::vector<ScoredToken<int64_t>> scored;
  for (const ListedPage& listed : pages) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(listed.visible, token)) continue;
      // A key whose scale is not finite is no more a key than one whose channels are not.
      const uint32_t scale = scale_pattern(listed.page, token);
      hides_nonfinite |= !decode_binary32(scale).finite;
      if (!decode_binary32(scale).finite) continue;
      const auto key = key_row(listed.page, token, task.input.exponents.key);
      std::vector<int64_t> scores;
      for (size_t row = 0; row < query.rows(); ++row) {
        scores.push_back(exact_score(query.row(row), key));
      }
      scored.push_back({.score = indexer_rank(weights.sum(scores), scale),
                        .token = listed.first_token() + token});
    }
  }
  if (hides_nonfinite) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
  std::vector<FoundToken>& row = answer.rows.emplace_back();
  for (const auto& best : best_tokens(std::move(scored), task.command.top_k)) {
    const double score = indexer_score(best.score, weights.exponent(), task.input.exponents.key);
    row.push_back({.token = best.token,
                   .score = nearest_binary32(score * static_cast<double>(task.command.scale))});
  }
  return answer;
}

}  // namespace nearkv::model
