// TOPK modes that read every key row: FULL and INDEXER.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "attend/exact.hpp"
#include "attend/grain.hpp"
#include "attend/indexer.hpp"
#include "attend/rounded_scores.hpp"
#include "attend/scored_token.hpp"
#include "attend/topk.hpp"

namespace nearkv {
namespace {

constexpr std::array kKeyArrays = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                   NKV_PAGE_ARRAY_KEY_SCALES};

/// How many tokens a list of contenders for `top_k` places takes before it is pruned.
std::size_t room_for(std::size_t top_k) { return 2 * top_k + 1024; }

/// The best `top_k` tokens by exact score.
class Ranking {
 public:
  explicit Ranking(std::size_t top_k) : top_k_(top_k) {}

  void add(std::int64_t score, std::uint32_t token) {
    if (score < least_) return;
    best_.push_back({score, token});
    if (best_.size() >= room_for(top_k_)) prune();
  }
  void merge(const Ranking& other) {
    for (const ScoredToken<std::int64_t>& scored : other.best_) add(scored.score, scored.token);
  }
  /// The best first.
  const std::vector<ScoredToken<std::int64_t>>& finish() {
    prune();
    return best_;
  }

 private:
  void prune() {
    keep_best(top_k_, &best_);
    if (best_.size() == top_k_) least_ = best_.back().score;
  }

  std::size_t top_k_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::lowest();  ///< Nothing below is chosen.
  std::vector<ScoredToken<std::int64_t>> best_;
};

/// The tokens whose rounded score is at most `slack` below the k-th best one.
class Contenders {
 public:
  Contenders(std::size_t top_k, float slack) : top_k_(top_k), slack_(slack) {}

  /// Too many to be kept: any token may be one.
  [[nodiscard]] bool are_all() const { return least_ == kInfinity; }
  /// No token below it is one.
  [[nodiscard]] float least() const { return least_; }

  void add(float score, std::uint32_t token) {
    if (!(score >= least_)) return;
    tokens_.push_back({score, token});
    if (tokens_.size() >= room_) prune();
  }
  void merge(const Contenders& other) {
    if (are_all()) return;
    if (other.are_all()) return give_up();
    tokens_.insert(tokens_.end(), other.tokens_.begin(), other.tokens_.end());
  }
  /// In no order; none if are_all().
  const std::vector<ScoredToken<float>>& finish() {
    prune();
    return tokens_;
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr std::size_t kMostRooms = 4;
  static constexpr std::size_t kBins = 1024;

  void prune() {
    if (tokens_.size() < top_k_) return;
    least_ = std::max(least_, std::nextafter(about_the_worst() - slack_, -kInfinity));
    std::erase_if(tokens_, [&](const ScoredToken<float>& one) { return one.score < least_; });
    if (tokens_.size() >= kMostRooms * room_for(top_k_)) return give_up();
    room_ = std::max(room_, 2 * tokens_.size());
  }

  /// A score that `top_k` tokens reach, and few more: the least one in the bins that they fill.
  [[nodiscard]] float about_the_worst() const {
    const auto [low, high] = std::ranges::minmax(tokens_, {}, &ScoredToken<float>::score);
    const float width = high.score - low.score;
    const float bins_per_score = static_cast<float>(kBins - 1) / width;
    if (!std::isfinite(width) || !std::isfinite(bins_per_score)) return low.score;
    const auto bin_of = [&](const ScoredToken<float>& one) {
      return static_cast<std::size_t>((one.score - low.score) * bins_per_score);
    };
    std::array<std::uint32_t, kBins + 1> counts{};
    for (const ScoredToken<float>& one : tokens_) ++counts[bin_of(one)];
    std::size_t bin = counts.size() - 1;
    for (std::size_t reached = counts[bin]; reached < top_k_; reached += counts[bin]) --bin;
    float worst = high.score;
    for (const ScoredToken<float>& one : tokens_) {
      if (bin_of(one) >= bin) worst = std::min(worst, one.score);
    }
    return worst;
  }

  void give_up() {
    least_ = kInfinity;
    tokens_ = {};
  }

  std::size_t top_k_;
  float slack_;
  std::size_t room_ = room_for(top_k_);
  float least_ = std::numeric_limits<float>::lowest();
  std::vector<ScoredToken<float>> tokens_;
};

/// A page that a query sees.
struct SeenPage {
  std::size_t index = 0;
  PageView view;
  std::uint64_t tokens = 0;         ///< Those that take part.
  const std::byte* next = nullptr;  ///< The page after it, to be fetched ahead, or null.
  SpanScope* scope = nullptr;       ///< Of the pages that a worker reads in a row.
};

/// Opens every page of which `wanted(page)` has a token, verifies its rows and hands it to
/// `visit(member, page)`. `raw_only` refuses other row forms.
Outcome visit_pages(const PageList& list, const std::function<std::uint64_t(std::size_t)>& wanted,
                    std::size_t dim, bool raw_only, Workers* workers, TopKResult* result,
                    const std::function<void(unsigned, const SeenPage&)>& visit) {
  std::vector<std::uint64_t> read(list.pages());
  std::vector<std::uint8_t> left_out(list.pages());
  FirstFault fault;
  workers->for_each(
      list.pages(), whole_pages_at_a_time(list.pages(), workers->size()),
      [&](unsigned member, std::size_t begin, std::size_t end) {
        SpanScope scope;
        for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
          const std::uint64_t mask = wanted(page);
          if (mask == 0) continue;
          SeenPage seen;
          seen.index = page;
          seen.next = list.peek(page + 1);
          seen.scope = &scope;
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

/// The best tokens by exact scores, [rankings]. Each worker calls `ranker_of(page)` once a page,
/// and what that gives with `(token, scores, best)` for every token that takes part: its scores by
/// row and the worker's own rankings.
template <typename RankerOf>
Outcome rank_exactly(const PageList& list, const std::function<std::uint64_t(std::size_t)>& wanted,
                     const Query& query, const ExactScorer& scorer, bool raw_only, Workers* workers,
                     TopKResult* result, std::vector<Ranking>* rankings,
                     const RankerOf& ranker_of) {
  struct ExactPart {
    std::vector<std::int64_t> scores;  ///< Of one page, [tokens that take part][rows].
    std::vector<Ranking> best;
  };
  std::vector<ExactPart> parts(
      workers->size(), {std::vector<std::int64_t>(NKV_PAGE_TOKENS * query.rows()), *rankings});
  const Outcome outcome = visit_pages(
      list, wanted, query.dim(), raw_only, workers, result,
      [&](unsigned member, const SeenPage& page) {
        ExactPart& part = parts[member];
        scorer.score(page.view.keys(), page.tokens, part.scores.data());
        const auto rank = ranker_of(page.view);
        for_each_token(page.index, page.tokens, [&](std::uint32_t token, std::size_t index) {
          const auto scores = std::span(part.scores).subspan(index * query.rows(), query.rows());
          rank(token, scores, &part.best);
        });
      });
  if (!outcome.ok()) return outcome;
  for (std::size_t i = 0; i < rankings->size(); ++i) {
    for (const ExactPart& part : parts) (*rankings)[i].merge(part.best[i]);
  }
  return {};
}

/// Scores all pages in binary32; `chosen` becomes, by page, every token that may be among some
/// row's best `top_k`.
Outcome choose(const PageList& list, const Visibility& visibility, const Query& query,
               std::size_t top_k, Workers* workers, std::vector<DenseScratch>* scratch,
               TopKResult* result, std::vector<std::uint64_t>* chosen) {
  const RoundedScorer rounded(query, list.k_exponent());
  std::vector<Contenders> rows;
  rows.reserve(query.rows());
  for (std::size_t row = 0; row < query.rows(); ++row) rows.emplace_back(top_k, rounded.slack(row));
  std::vector<std::vector<Contenders>> parts(workers->size(), rows);
  const Outcome outcome = visit_pages(
      list, [&](std::size_t page) { return visibility.mask(page); }, query.dim(), false, workers,
      result,
      [&](unsigned member, const SeenPage& page) {
        const auto scores = rounded.score(page.view, page.next, &(*scratch)[member], page.scope);
        for (std::size_t row = 0; row < query.rows(); ++row) {
          const auto of_row = scores.subspan(row * NKV_PAGE_TOKENS, NKV_PAGE_TOKENS);
          Contenders& best = parts[member][row];
          const std::uint64_t likely = tokens_at_least(of_row.data(), best.least()) & page.tokens;
          for_each_token(page.index, likely, [&](std::uint32_t token, std::size_t /*index*/) {
            best.add(of_row[token % NKV_PAGE_TOKENS], token);
          });
        }
      });
  if (!outcome.ok()) return outcome;
  chosen->assign(list.pages(), 0);
  for (std::size_t row = 0; row < query.rows(); ++row) {
    for (const std::vector<Contenders>& part : parts) rows[row].merge(part[row]);
    for (const ScoredToken<float>& one : rows[row].finish()) {
      (*chosen)[one.token / NKV_PAGE_TOKENS] |= std::uint64_t{1} << (one.token % NKV_PAGE_TOKENS);
    }
    if (!rows[row].are_all()) continue;
    for (std::size_t page = 0; page < list.pages(); ++page) {
      (*chosen)[page] = visibility.mask(page);
    }
  }
  return {};
}

}  // namespace

Outcome select_by_full_scan(const PageList& list, const Visibility& visibility, const Query& query,
                            std::size_t top_k, Workers* workers, std::vector<DenseScratch>* scratch,
                            TopKResult* result) {
  std::vector<std::uint64_t> chosen;
  Outcome outcome = choose(list, visibility, query, top_k, workers, scratch, result, &chosen);
  if (!outcome.ok()) return outcome;

  const ExactScorer scorer(query, list.k_exponent());
  std::vector<Ranking> rankings(query.rows(), Ranking(top_k));
  TopKResult again;  // These rows have been counted.
  outcome = rank_exactly(
      list, [&](std::size_t page) { return chosen[page]; }, query, scorer, false, workers, &again,
      &rankings,
      [](const PageView& /*page*/) {
        return [](std::uint32_t token, std::span<const std::int64_t> scores,
                  std::vector<Ranking>* best) {
          for (std::size_t i = 0; i < scores.size(); ++i) (*best)[i].add(scores[i], token);
        };
      });
  if (!outcome.ok()) return outcome;
  result->rows.assign(query.rows(), {});
  for (std::size_t row = 0; row < query.rows(); ++row) {
    for (const ScoredToken<std::int64_t>& best : rankings[row].finish()) {
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
  std::vector<Ranking> rankings(1, Ranking(top_k));
  std::atomic<bool> left_out{false};
  const Outcome outcome = rank_exactly(
      list, [&](std::size_t page) { return visibility.mask(page); }, query, scorer, true, workers,
      result, &rankings,
      [&](const PageView& page) {
        const bool is_scaled = (page.header().flags & NKV_PAGE_FLAG_KEY_SCALES) != 0;
        const float* scales = is_scaled ? page.data<float>(NKV_PAGE_ARRAY_KEY_SCALES) : nullptr;
        return [&, scales](std::uint32_t token, std::span<const std::int64_t> scores,
                           std::vector<Ranking>* best) {
          const float scale = scales != nullptr ? scales[token % NKV_PAGE_TOKENS] : 1.0F;
          // A key whose scale is not finite is no more a key than one whose channels are not.
          if (std::isfinite(scale)) {
            best->front().add(indexer.rank(scores, scale), token);
          } else {
            left_out.store(true, std::memory_order_relaxed);
          }
        };
      });
  if (!outcome.ok()) return outcome;
  result->nonfinite |= left_out.load(std::memory_order_relaxed);
  result->rows.assign(1, {});
  for (const ScoredToken<std::int64_t>& best : rankings[0].finish()) {
    result->rows[0].push_back({best.token, indexer.score(best.score)});
  }
  return {};
}

}  // namespace nearkv
