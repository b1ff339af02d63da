// TOPK modes that read every key row: FULL and INDEXER.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "attend/indexer.hpp"
#include "attend/rounded_scores.hpp"
#include "attend/scored_token.hpp"
#include "attend/topk.hpp"

namespace nearkv {
namespace {

constexpr std::array kKeyArrays = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                   NKV_PAGE_ARRAY_KEY_SCALES};

/// The tokens of one ranking that may still be among its best `top_k`: those whose score is at most
/// `slack` below the k-th best one so far.
template <typename Score>
class Contenders {
 public:
  Contenders(std::size_t top_k, Score slack)
      : top_k_(top_k), slack_(slack), room_(2 * top_k + 1024) {}

  /// No token below it is kept.
  [[nodiscard]] Score least() const { return least_; }

  void add(Score score, std::uint32_t token) {
    if (!(score >= least_)) return;
    tokens_.push_back({score, token});
    if (tokens_.size() >= room_) prune();
  }
  void merge(const Contenders& other) {
    for (const ScoredToken<Score>& scored : other.tokens_) add(scored.score, scored.token);
  }
  /// What is left, in no order.
  std::vector<ScoredToken<Score>>& finish() {
    prune();
    return tokens_;
  }

 private:
  void prune() {
    if (tokens_.size() < top_k_) return;
    const auto worst = tokens_.begin() + static_cast<std::ptrdiff_t>(top_k_ - 1);
    std::nth_element(tokens_.begin(), worst, tokens_.end());
    least_ = worst->score - slack_;
    if constexpr (std::is_floating_point_v<Score>) {
      least_ = std::nextafter(least_, -std::numeric_limits<Score>::infinity());
    }
    std::erase_if(tokens_, [&](const ScoredToken<Score>& one) { return one.score < least_; });
    room_ = std::max(room_, 2 * tokens_.size());
  }

  std::size_t top_k_;
  Score slack_;
  std::size_t room_;
  Score least_ = std::numeric_limits<Score>::lowest();
  std::vector<ScoredToken<Score>> tokens_;
};

/// A page that a query sees.
struct SeenPage {
  std::size_t index = 0;
  PageView view;
  std::uint64_t tokens = 0;         ///< Those that take part.
  const std::byte* next = nullptr;  ///< The page after it, to be fetched ahead, or null.
};

/// Opens every page with a visible token, verifies its rows and hands it to `visit(member, page)`.
/// `raw_only` refuses other row forms.
Outcome visit_pages(const PageList& list, const Visibility& visibility, std::size_t dim,
                    bool raw_only, Workers* workers, TopKResult* result,
                    const std::function<void(unsigned, const SeenPage&)>& visit) {
  std::vector<std::uint64_t> read(list.pages());
  std::vector<std::uint8_t> left_out(list.pages());
  FirstFault fault;
  workers->for_each(list.pages(), 8, [&](unsigned member, std::size_t begin, std::size_t end) {
    for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
      const std::uint64_t mask = visibility.mask(page);
      if (mask == 0) continue;
      SeenPage seen;
      seen.index = page;
      seen.next = list.peek(page + 1);
      Status status = list.open(page, HeaderDepth::kRows, dim, 0, &seen.view);
      if (status == Status::kOk && raw_only && seen.view.header().k_form != NKV_ROW_FORM_RAW) {
        status = Status::kBadPage;
      }
      if (status == Status::kOk) status = seen.view.check(kKeyArrays);
      if (status != Status::kOk) {
        fault.record(page, status);
        continue;
      }
      read[page] += bursts(sizeof(nkv_page_header));
      for (const nkv_page_array array : kKeyArrays) {
        read[page] += bursts(seen.view.bytes(array).size());
      }
      seen.tokens = mask & ~seen.view.header().nonfinite;
      left_out[page] = seen.tokens != mask;
      visit(member, seen);
    }
  });
  result->traffic = {};
  result->nonfinite = false;
  for (std::size_t page = 0; page < list.pages(); ++page) {
    result->traffic.stream += read[page];
    result->nonfinite |= left_out[page] != 0;
  }
  return fault.outcome();
}

/// Calls `use(token, index)` for each of some tokens of a page, ascending.
template <typename Use>
void for_each_token(std::size_t page, std::uint64_t tokens, Use use) {
  std::size_t index = 0;
  for (; tokens != 0; tokens &= tokens - 1, ++index) {
    use(static_cast<std::uint32_t>(page * NKV_PAGE_TOKENS +
                                   static_cast<std::size_t>(std::countr_zero(tokens))),
        index);
  }
}

}  // namespace

Outcome select_by_full_scan(const PageList& list, const Visibility& visibility, const Query& query,
                            std::size_t top_k, Workers* workers, std::vector<DenseScratch>* scratch,
                            TopKResult* result) {
  const RoundedScorer rounded(query, list.k_exponent());
  using Rows = std::vector<Contenders<float>>;
  Rows rows;
  for (std::size_t row = 0; row < query.rows(); ++row) rows.emplace_back(top_k, rounded.slack(row));
  std::vector<Rows> parts(workers->size(), rows);
  Outcome outcome = visit_pages(
      list, visibility, query.dim(), false, workers, result,
      [&](unsigned member, const SeenPage& page) {
        const auto scores = rounded.score(page.view, page.next, &(*scratch)[member]);
        for (std::size_t row = 0; row < query.rows(); ++row) {
          const auto of_row = scores.subspan(row * NKV_PAGE_TOKENS, NKV_PAGE_TOKENS);
          Contenders<float>& best = parts[member][row];
          const std::uint64_t chosen = tokens_at_least(of_row.data(), best.least()) & page.tokens;
          for_each_token(page.index, chosen, [&](std::uint32_t token, std::size_t /*index*/) {
            best.add(of_row[token % NKV_PAGE_TOKENS], token);
          });
        }
      });
  if (!outcome.ok()) return outcome;

  std::vector<std::uint64_t> chosen(list.pages());
  for (std::size_t row = 0; row < query.rows(); ++row) {
    for (const Rows& part : parts) rows[row].merge(part[row]);
    for (const ScoredToken<float>& one : rows[row].finish()) {
      chosen[one.token / NKV_PAGE_TOKENS] |= std::uint64_t{1} << (one.token % NKV_PAGE_TOKENS);
    }
  }
  const ExactScorer scorer(query, list.k_exponent());
  ExactTokens exact;
  Traffic again;  // Their rows have been counted.
  outcome = score_exactly(list, chosen, scorer, query.dim(), workers, &exact, &again);
  if (outcome.ok()) rank(scorer, {&exact}, top_k, result);
  return outcome;
}

Outcome select_by_indexer(const PageList& list, const Visibility& visibility, const Query& query,
                          const std::vector<float>& weights, std::size_t top_k, Workers* workers,
                          TopKResult* result) {
  struct Part {
    std::vector<std::int64_t> scores;
    Contenders<std::int64_t> best;
  };
  const ExactScorer scorer(query, list.k_exponent());
  const IndexerScorer indexer(weights, query, list.k_exponent());
  std::vector<Part> parts(workers->size(),
                          {std::vector<std::int64_t>(NKV_PAGE_TOKENS * scorer.rows()), {top_k, 0}});
  std::atomic<bool> left_out{false};
  const Outcome outcome = visit_pages(
      list, visibility, query.dim(), true, workers, result,
      [&](unsigned member, const SeenPage& page) {
        Part& part = parts[member];
        scorer.score(page.view.keys(), page.tokens, part.scores.data());
        const bool scaled = (page.view.header().flags & NKV_PAGE_FLAG_KEY_SCALES) != 0;
        const auto* const scales = page.view.data<float>(NKV_PAGE_ARRAY_KEY_SCALES);
        for_each_token(page.index, page.tokens, [&](std::uint32_t token, std::size_t index) {
          const float scale = scaled ? scales[token % NKV_PAGE_TOKENS] : 1.0F;
          // A key whose scale is not finite is no more a key than one whose channels are not.
          if (std::isfinite(scale)) {
            const auto scores = std::span(part.scores).subspan(index * query.rows(), query.rows());
            part.best.add(indexer.rank(scores, scale), token);
          } else {
            left_out.store(true, std::memory_order_relaxed);
          }
        });
      });
  if (!outcome.ok()) return outcome;
  result->nonfinite |= left_out.load(std::memory_order_relaxed);
  Contenders<std::int64_t>& best = parts.front().best;
  for (std::size_t i = 1; i < parts.size(); ++i) best.merge(parts[i].best);
  std::vector<ScoredToken<std::int64_t>>& ranking = best.finish();
  keep_best(top_k, &ranking);
  result->rows.assign(1, {});
  for (const ScoredToken<std::int64_t>& one : ranking) {
    result->rows[0].push_back({one.token, indexer.score(one.score)});
  }
  return {};
}

}  // namespace nearkv
