#include "attend/topk.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>

#include "attend/grain.hpp"
#include "attend/scored_token.hpp"

namespace nearkv {
namespace {

using Scored = ScoredToken<std::int64_t>;

void append_row(const ExactTokens& tokens, std::size_t row, std::vector<Scored>* scored) {
  for (std::size_t i = 0; i < tokens.tokens.size(); ++i) {
    scored->push_back({tokens.scores[i * tokens.rows + row], tokens.tokens[i]});
  }
}

/// The row's k-th largest score among `tokens`; the least possible one if there are fewer.
std::int64_t kth_score(const ExactTokens& tokens, std::size_t row, std::size_t k) {
  if (tokens.tokens.size() < k) return std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> scores;
  scores.reserve(tokens.tokens.size());
  for (std::size_t i = 0; i < tokens.tokens.size(); ++i) {
    scores.push_back(tokens.scores[i * tokens.rows + row]);
  }
  const auto nth = scores.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(scores.begin(), nth, scores.end(), std::greater<>());
  return *nth;
}

/// Tokens whose upper bound reaches the threshold of some row.
class Survivors {
 public:
  Survivors(const PlaneScan& scan, const ExactTokens& seeds, std::size_t top_k, unsigned z16)
      : scan_(scan), z16_(z16) {
    for (std::size_t row = 0; row < scan.rows(); ++row) {
      const std::int64_t tau = kth_score(seeds, row, top_k) >> NKV_PLANE_WEIGHT_SHIFT;
      thresholds_.push_back((tau - scan.scale(row).reference) >> scan.scale(row).shift);
    }
  }

  /// Alive tokens of a page once `planes` planes are known, among `candidates`.
  [[nodiscard]] std::uint64_t alive(std::size_t page, unsigned planes,
                                    std::uint64_t candidates) const {
    std::uint64_t alive = 0;
    for (std::size_t row = 0; row < scan_.rows(); ++row) {
      const std::int64_t least = thresholds_[row] - scan_.radius(row, page, planes, z16_);
      // A saturated midpoint is above any threshold.
      const auto bound = static_cast<std::int16_t>(
          std::clamp<std::int64_t>(least, kMaskedMidpoint + 1, kLargestMidpoint));
      if (scan_.page_largest(row, page) < bound && planes == scan_.planes()) continue;
      alive |= at_least(scan_.mids(row, page).data(), bound);
    }
    return alive & candidates;
  }

 private:
  const PlaneScan& scan_;
  unsigned z16_;
  std::vector<std::int64_t> thresholds_;
};

/// Tokens of the granules (5.4) that hold one of `tokens`.
std::uint64_t granules_of(std::uint64_t tokens, unsigned granule_tokens) {
  std::uint64_t result = 0;
  for (unsigned first = 0; first < NKV_PAGE_TOKENS; first += granule_tokens) {
    const std::uint64_t ones = granule_tokens == NKV_PAGE_TOKENS
                                   ? ~std::uint64_t{0}
                                   : (std::uint64_t{1} << granule_tokens) - 1;
    if ((tokens & (ones << first)) != 0) result |= ones << first;
  }
  return result;
}

unsigned tokens_per_granule(std::size_t dim) {
  constexpr unsigned kBurst = NKV_BURST_BYTES;
  return kBurst / std::gcd(kBurst, static_cast<unsigned>(dim / 8));
}

/// Reads one more plane where it can matter; `alive` shrinks to what is left.
Outcome refine(const PageList& list, const Query& query, const Survivors& survivors,
               unsigned planes, Workers* workers, PlaneScan* scan,
               std::vector<std::uint64_t>* alive, Traffic* traffic) {
  const unsigned granule_tokens = tokens_per_granule(query.dim());
  std::vector<std::uint64_t> read(alive->size());
  FirstFault fault;
  workers->for_each(
      alive->size(), kPlanePagesAtATime, [&](unsigned, std::size_t begin, std::size_t end) {
        PageFold fold;
        std::vector<std::int32_t> sums(query.rows() * NKV_PAGE_TOKENS);
        for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
          std::uint64_t& tokens = (*alive)[page];
          if (tokens == 0) continue;
          PageView view;
          Status status = list.open(page, HeaderDepth::kScan, query.dim(), 0, &view);
          if (status == Status::kOk) status = view.check(NKV_PAGE_ARRAY_K_DIGEST);
          if (status != Status::kOk) {
            fault.record(page, status);
            continue;
          }
          fold_weights(query, view, list.k_exponent(), &fold);
          plane_sums(fold, view, {planes - 1, 1}, tokens, sums.data());
          for (std::size_t row = 0; row < query.rows(); ++row) {
            sharpen_midpoints(scan->fold(row, page), scan->scale(row), planes, tokens,
                              sums.data() + row * NKV_PAGE_TOKENS, scan->mids(row, page).data());
          }
          read[page] = bursts(2 * query.dim()) +
                       row_bursts(granules_of(tokens, granule_tokens), query.dim() / 8);
          tokens = survivors.alive(page, planes, tokens);
        }
      });
  for (const std::uint64_t count : read) traffic->refine += count;
  return fault.outcome();
}

void rank(const ExactScorer& scorer, const std::vector<const ExactTokens*>& parts,
          std::size_t top_k, TopKResult* result) {
  result->rows.resize(scorer.rows());
  std::vector<Scored> scored;
  for (std::size_t row = 0; row < scorer.rows(); ++row) {
    scored.clear();
    for (const ExactTokens* part : parts) append_row(*part, row, &scored);
    keep_best(top_k, &scored);
    result->rows[row].clear();
    for (const Scored& best : scored) {
      result->rows[row].push_back({best.token, static_cast<double>(best.score) * scorer.unit(row)});
    }
  }
}

}  // namespace

Outcome select_by_planes(const PageList& list, const Visibility& visibility, const Query& query,
                         std::size_t top_k, unsigned z16, Workers* workers, PlaneScan* scan,
                         TopKResult* result) {
  const ExactScorer scorer(query, list.k_exponent());
  result->traffic = {};
  Outcome outcome = scan->run(list, visibility, query, NKV_TOPK_PLANES, workers);
  if (!outcome.ok()) return outcome;
  result->traffic += scan->traffic();
  result->nonfinite = scan->nonfinite();

  std::vector<std::uint64_t> seeds(list.pages());
  for (std::size_t row = 0; row < query.rows(); ++row) {
    const std::int16_t threshold = scan->visible_tokens() <= 2 * top_k
                                       ? std::int16_t{kMaskedMidpoint + 1}
                                       : scan->threshold(row, 2 * top_k);
    scan->mark(row, threshold, seeds);
  }
  ExactTokens seed_tokens;
  outcome =
      score_exactly(list, seeds, scorer, query.dim(), workers, &seed_tokens, &result->traffic);
  if (!outcome.ok()) return outcome;

  const Survivors survivors(*scan, seed_tokens, top_k, z16);
  std::vector<std::uint64_t> alive(list.pages());
  for (std::size_t page = 0; page < list.pages(); ++page) {
    const std::uint64_t candidates = scan->visible(page) & ~seeds[page];
    if (candidates != 0) alive[page] = survivors.alive(page, NKV_TOPK_PLANES, candidates);
  }
  for (unsigned planes = NKV_TOPK_PLANES + 1; planes <= NKV_KEY_PLANES; ++planes) {
    outcome = refine(list, query, survivors, planes, workers, scan, &alive, &result->traffic);
    if (!outcome.ok()) return outcome;
  }
  ExactTokens survivor_tokens;
  outcome =
      score_exactly(list, alive, scorer, query.dim(), workers, &survivor_tokens, &result->traffic);
  if (!outcome.ok()) return outcome;
  rank(scorer, {&seed_tokens, &survivor_tokens}, top_k, result);
  return {};
}

}  // namespace nearkv
