#include "codes/search_by_codes.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "attend/scored_token.hpp"
#include "codes/best_by_codes.hpp"
#include "codes/code_form.hpp"
#include "codes/exact_logit.hpp"
#include "codes/tokens_reaching.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv {
namespace {

constexpr std::int64_t kLog2E = 185;  // 2^7 log2 e, rounded up.
constexpr std::int64_t kMostRadius = std::int64_t{1} << 40;

using Scored = ScoredToken<std::int64_t>;

/// How far above its logit a token may be, by variance.
using Radii = StridedTable<std::int64_t, 4, kLeastVariance, kSearchVariance>;

std::int64_t radius(unsigned z16, int variance) {
  const Octaves deviation = octaves(variance >> 1);
  return scale_saturating(Int128{z16} * kLog2E * deviation.mantissa, deviation.power - 4,
                          kMostRadius);
}

/// One STATISTICAL command over a list that has been scanned.
class CodeSearch {
 public:
  CodeSearch(const CodedQuestion& question, const SearchSpec& request, CodeScratch* scratch)
      : question_(question),
        request_(request),
        scratch_(scratch),
        radii_([&](int variance) { return radius(request.z16, variance); }),
        scored_(question.query.rows()) {}

  /// Ends early where scores are loud.
  Outcome run() {
    std::vector<std::uint64_t>& alive = scratch_->tokens;
    Outcome outcome = read_rows(list().plain());
    if (!outcome.ok() || list().is_loud()) return outcome;
    best_by_codes(state(), 2 * std::uint64_t{request_.top_k}, &alive);
    outcome = read_tokens();
    if (!outcome.ok() || list().is_loud()) return outcome;
    take_thresholds();
    for (std::size_t page = 0; page < alive.size(); ++page) {
      alive[page] = this->alive(page, state().pages()[page].visible, 1);
    }
    for (int planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
      sharpen(planes);
      if (list().is_loud()) return {};
      for (const std::uint32_t page : scratch_->pages) {
        alive[page] = this->alive(page, alive[page], planes);
      }
    }
    return read_tokens();
  }

  void rank(TopKResult* result) {
    result->rows.assign(scored_.size(), {});
    for (std::size_t row = 0; row < scored_.size(); ++row) {
      keep_best(request_.top_k, &scored_[row]);
      const double unit = score_unit(question_.query.exponent(row), question_.list.k_exponent());
      for (const Scored& best : scored_[row]) {
        result->rows[row].push_back({best.token, static_cast<double>(best.score) * unit});
      }
    }
  }

 private:
  [[nodiscard]] CodedList& list() { return scratch_->list; }
  [[nodiscard]] CodeState& state() { return scratch_->list.state(); }
  [[nodiscard]] const CodeQuery& query() { return state().query(); }

  /// Reads key rows of tokens that have not been read.
  Outcome read_tokens() {
    std::vector<PageDemand>& demands = scratch_->demands;
    demands.clear();
    for (std::uint32_t page = 0; page < scratch_->tokens.size(); ++page) {
      const std::uint64_t tokens = scratch_->tokens[page] & ~state().reads()[page].key_rows;
      if (tokens != 0) demands.push_back({page, tokens, 0});
    }
    return read_rows(demands);
  }

  Outcome read_rows(std::span<const PageDemand> demands) {
    const Outcome outcome = list().read_rows(demands, &scratch_->scores);
    if (!outcome.ok()) return outcome;
    const std::int64_t* score = scratch_->scores.data();
    for (const PageDemand& demand : demands) {
      const std::uint32_t first = state().pages()[demand.page].index * NKV_PAGE_TOKENS;
      for_each_bit(demand.key_rows, [&](std::size_t token) {
        for (std::vector<Scored>& row : scored_) {
          row.push_back({*score++, first + static_cast<std::uint32_t>(token)});
        }
      });
    }
    return {};
  }

  /// The logits of every row's tau; none if all tokens are among the best.
  void take_thresholds() {
    for (std::size_t row = 0; row < scored_.size(); ++row) {
      std::vector<Scored> best = scored_[row];
      if (best.size() < request_.top_k) return;
      const auto last = best.begin() + static_cast<std::ptrdiff_t>(request_.top_k - 1);
      std::nth_element(best.begin(), last, best.end());
      thresholds_.push_back(query().search_logit(row, last->score, question_.list.k_exponent()) >>
                            kExactToCode);
    }
  }

  /// Of tokens whose key rows are not known, those that may yet be among the best.
  [[nodiscard]] std::uint64_t alive(std::size_t page, std::uint64_t tokens, int planes) {
    const CodedPage& coded = state().pages()[page];
    tokens &= ~state().reads()[page].key_rows;
    std::uint64_t alive = 0;
    for (std::size_t row = 0; row < thresholds_.size() && tokens != alive; ++row) {
      // The least R that is alive, by factor.
      std::array<std::int64_t, kFactors> least;
      const std::int64_t threshold =
          thresholds_[row] - 2 -
          std::int64_t{state().row_page(page, row).octave} * (1 << kCodeLogitBits);
      const int lowest = state().lowest_variance(page, row);
      const std::int64_t* const radii =
          radii_.run(lowest + kKeyVariances[static_cast<std::size_t>(planes)]);
      for (std::size_t factor = 0; factor < kFactors; ++factor) {
        least[factor] = threshold - radii[factor];
      }
      least[0] = threshold - radii_.at(lowest + kPlainVariance);
      const std::span<const std::int16_t, NKV_PAGE_TOKENS> above(state().above(page, row),
                                                                 NKV_PAGE_TOKENS);
      alive |= tokens & tokens_reaching(above, coded.keys.factors, least);
    }
    return alive;
  }

  /// Reads a plane of granules with tokens that are alive, and scores those.
  void sharpen(int planes) {
    const Granules& granules = state().key_granules();
    scratch_->pages.clear();
    for (std::uint32_t page = 0; page < scratch_->tokens.size(); ++page) {
      const std::uint64_t alive = scratch_->tokens[page];
      if (alive == 0) continue;
      scratch_->pages.push_back(page);
      for (std::size_t g = 0; g < granules.count; ++g) {
        if ((granules.mask(g) & alive) != 0) list().traffic().refine += granules.bursts;
      }
    }
    list().refine(scratch_->pages, scratch_->tokens, planes);
  }

  const CodedQuestion& question_;
  const SearchSpec& request_;
  CodeScratch* scratch_;
  Radii radii_;
  std::vector<std::int64_t> thresholds_;
  std::vector<std::vector<Scored>> scored_;
};

}  // namespace

Outcome search_by_codes(const PageList& list, const Visibility& visibility, const Query& query,
                        const SearchSpec& request, Workers* workers, CodeScratch* scratch,
                        std::vector<DenseScratch>* dense, TopKResult* result, bool* is_served) {
  const CodedQuestion question{list, visibility, query, workers, ScanFor::kSearch};
  Outcome outcome = scratch->list.scan(question, nullptr, is_served);
  if (!outcome.ok() || !*is_served) return outcome;
  CodeSearch search(question, request, scratch);
  outcome = search.run();
  if (!outcome.ok()) return outcome;
  result->traffic = {};
  if (scratch->list.is_loud()) {
    outcome = select_by_full_scan(list, visibility, query, request.top_k, workers, dense, result);
    result->traffic += scratch->list.traffic();
    return outcome;
  }
  result->traffic = scratch->list.traffic();
  result->nonfinite = scratch->list.hides_nonfinite();
  search.rank(result);
  return {};
}

}  // namespace nearkv
