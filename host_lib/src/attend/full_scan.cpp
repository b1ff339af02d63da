// TOPK modes that read every key row: FULL and INDEXER.
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "attend/indexer.hpp"
#include "attend/scored_token.hpp"
#include "attend/topk.hpp"

namespace nearkv {
namespace {

constexpr std::array kKeyArrays = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                   NKV_PAGE_ARRAY_KEY_SCALES};

/// Best tokens so far of some rankings; grows to a few times k between prunings.
class Rankings {
 public:
  Rankings(std::size_t count, std::size_t top_k) : lists_(count), top_k_(top_k) {}

  void add(std::size_t ranking, std::int64_t score, std::uint32_t token) {
    List& list = lists_[ranking];
    if (score < list.least) return;
    list.best.push_back({score, token});
    if (list.best.size() < 2 * top_k_ + 1024) return;
    keep_best(top_k_, &list.best);
    if (list.best.size() == top_k_) list.least = list.best.back().score;
  }
  void merge(const Rankings& other) {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      for (const ScoredToken<std::int64_t>& scored : other.lists_[i].best) {
        add(i, scored.score, scored.token);
      }
    }
  }
  std::vector<ScoredToken<std::int64_t>>& finish(std::size_t ranking) {
    keep_best(top_k_, &lists_[ranking].best);
    return lists_[ranking].best;
  }

 private:
  struct List {
    std::vector<ScoredToken<std::int64_t>> best;
    /// Nothing below it can be chosen.
    std::int64_t least = std::numeric_limits<std::int64_t>::lowest();
  };
  std::vector<List> lists_;
  std::size_t top_k_;
};

/// One worker's exact scores of a page's tokens that take part, ascending.
struct PageScores {
  std::size_t page = 0;
  std::uint64_t tokens = 0;
  std::span<const std::int64_t> scores;  ///< [tokens][rows].
};

/// Opens every page with a visible token, verifies its rows, scores them and hands them to
/// `visit(member, view, scores)`. `raw_only` refuses other row forms.
Outcome visit_pages(
    const PageList& list, const Visibility& visibility, std::size_t dim, const ExactScorer& scorer,
    bool raw_only, Workers* workers, TopKResult* result,
    const std::function<void(unsigned, const PageView&, const PageScores&)>& visit) {
  std::vector<std::uint64_t> read(list.pages());
  std::vector<std::uint8_t> left_out(list.pages());
  FirstFault fault;
  workers->for_each(list.pages(), 8, [&](unsigned member, std::size_t begin, std::size_t end) {
    std::vector<std::int64_t> scores(NKV_PAGE_TOKENS * scorer.rows());
    for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
      const std::uint64_t mask = visibility.mask(page);
      if (mask == 0) continue;
      PageView view;
      Status status = list.open(page, HeaderDepth::kRows, dim, 0, &view);
      if (status == Status::kOk && raw_only && view.header().k_form != NKV_ROW_FORM_RAW) {
        status = Status::kBadPage;
      }
      if (status == Status::kOk) status = view.check(kKeyArrays);
      if (status != Status::kOk) {
        fault.record(page, status);
        continue;
      }
      read[page] += bursts(sizeof(nkv_page_header));
      for (const nkv_page_array array : kKeyArrays) read[page] += bursts(view.bytes(array).size());
      const std::uint64_t taking_part = mask & ~view.header().nonfinite;
      left_out[page] = taking_part != mask;
      scorer.score(view.keys(), taking_part, scores.data());
      visit(member, view, {page, taking_part, scores});
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

/// Calls `use(token, index)` for each scored token of a page.
template <typename Use>
void for_each_token(const PageScores& page, Use use) {
  std::size_t index = 0;
  for (std::uint64_t left = page.tokens; left != 0; left &= left - 1, ++index) {
    use(static_cast<std::uint32_t>(page.page * NKV_PAGE_TOKENS +
                                   static_cast<std::size_t>(std::countr_zero(left))),
        index);
  }
}

Rankings merge_all(std::vector<Rankings>* parts) {
  for (std::size_t i = 1; i < parts->size(); ++i) parts->front().merge((*parts)[i]);
  return std::move(parts->front());
}

}  // namespace

Outcome select_by_full_scan(const PageList& list, const Visibility& visibility, const Query& query,
                            std::size_t top_k, Workers* workers, TopKResult* result) {
  const ExactScorer scorer(query, list.k_exponent());
  std::vector<Rankings> parts(workers->size(), {query.rows(), top_k});
  const Outcome outcome =
      visit_pages(list, visibility, query.dim(), scorer, false, workers, result,
                  [&](unsigned member, const PageView&, const PageScores& page) {
                    for_each_token(page, [&](std::uint32_t token, std::size_t index) {
                      for (std::size_t row = 0; row < query.rows(); ++row) {
                        parts[member].add(row, page.scores[index * query.rows() + row], token);
                      }
                    });
                  });
  if (!outcome.ok()) return outcome;
  Rankings all = merge_all(&parts);
  result->rows.assign(query.rows(), {});
  for (std::size_t row = 0; row < query.rows(); ++row) {
    for (const ScoredToken<std::int64_t>& best : all.finish(row)) {
      result->rows[row].push_back({best.token, static_cast<double>(best.score) * scorer.unit(row)});
    }
  }
  return {};
}

Outcome select_by_indexer(const PageList& list, const Visibility& visibility, const Query& query,
                          const std::vector<float>& weights, std::size_t top_k, Workers* workers,
                          TopKResult* result) {
  const ExactScorer scorer(query, list.k_exponent());
  const IndexerScorer indexer(weights, query, list.k_exponent());
  std::vector<Rankings> parts(workers->size(), {1, top_k});
  std::atomic<bool> left_out{false};
  const Outcome outcome =
      visit_pages(list, visibility, query.dim(), scorer, true, workers, result,
                  [&](unsigned member, const PageView& view, const PageScores& page) {
                    const bool scaled = (view.header().flags & NKV_PAGE_FLAG_KEY_SCALES) != 0;
                    const auto* const scales = view.data<float>(NKV_PAGE_ARRAY_KEY_SCALES);
                    for_each_token(page, [&](std::uint32_t token, std::size_t index) {
                      const float scale = scaled ? scales[token % NKV_PAGE_TOKENS] : 1.0F;
                      // A key whose scale is not finite is no more a key than one whose channels
                      // are not.
                      if (std::isfinite(scale)) {
                        const auto scores = page.scores.subspan(index * query.rows(), query.rows());
                        parts[member].add(0, indexer.rank(scores, scale), token);
                      } else {
                        left_out.store(true, std::memory_order_relaxed);
                      }
                    });
                  });
  if (!outcome.ok()) return outcome;
  Rankings all = merge_all(&parts);
  result->nonfinite |= left_out.load(std::memory_order_relaxed);
  result->rows.assign(1, {});
  for (const ScoredToken<std::int64_t>& best : all.finish(0)) {
    result->rows[0].push_back({best.token, indexer.score(best.score)});
  }
  return {};
}

}  // namespace nearkv
