// ATTEND to a given error: TAIL, then random samples of the tokens that it knows only approximately
// are read exactly, correct the output and measure its error (ARITHMETIC.md 8).
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "attend/sample_levels.hpp"
#include "attend/sampled_groups.hpp"
#include "attend/tail_sums.hpp"

namespace nearkv {
namespace {

constexpr unsigned kMaxRounds = 4;
constexpr double kDenseShare = 0.85;
constexpr double kMargin = 0.25;  ///< Octaves of variance to spare,
constexpr double kBlindStep = 6;  ///< and to go down when a sample measured nothing.

/// One BOUNDED command while it runs.
class BoundedAttention {
 public:
  BoundedAttention(const AttendContext& context, const AttendSpec& request, AttendResult* result)
      : context_(context),
        request_(request),
        result_(result),
        sums_(context, request),
        groups_(context, sums_),
        taken_(context.list.pages()),
        z_(request.z16 / 16.0) {}

  Outcome run();

 private:
  /// What may be read besides what has been.
  enum class Plan { kSample, kDense, kStop };

  Outcome prepare();
  void price_pages(const PageView& first);
  void set_thresholds(SampleLevels* levels, unsigned round);
  Outcome run_round(unsigned round, SampleLevels* levels, bool* done);
  Outcome read_dense();
  void finish();
  [[nodiscard]] Plan plan(const Sample& sample, unsigned round) const;
  [[nodiscard]] bool all_within() const;
  [[nodiscard]] double bound(std::size_t row) const { return z_ * groups_.deviation(row); }

  const AttendContext& context_;
  const AttendSpec& request_;
  AttendResult* result_;
  TailSums sums_;
  SampledGroups groups_;
  std::vector<std::uint64_t> taken_;  ///< Tokens that samples have made exact.
  std::vector<SampleThreshold> thresholds_;
  double z_;
  std::uint64_t dense_bursts_ = 0;
  std::uint64_t token_bursts_ = 0;  ///< A key and a value row,
  std::uint64_t page_bursts_ = 0;   ///< what else a page with such rows takes,
  std::uint64_t sum_bursts_ = 0;    ///< and its sums.
};

/// Pages of one list are of one shape but for rare escapes: the first one stands for all.
void BoundedAttention::price_pages(const PageView& first) {
  std::uint64_t dense = bursts(sizeof(nkv_page_header));
  for (const nkv_page_array array : {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                     NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS}) {
    dense += bursts(first.bytes(array).size());
  }
  for (std::size_t page = 0; page < context_.scan->pages(); ++page) {
    if (context_.visibility.mask(page) != 0) dense_bursts_ += dense;
  }
  token_bursts_ = bursts(first.keys().row_bytes);
  page_bursts_ = bursts(first.bytes(NKV_PAGE_ARRAY_K_EXPONENTS).size());
  if (first.header().v_form != NKV_ROW_FORM_NONE) {
    token_bursts_ += bursts(first.values().row_bytes);
    page_bursts_ += bursts(first.bytes(NKV_PAGE_ARRAY_V_EXPONENTS).size());
  }
  sum_bursts_ = bursts(first.bytes(NKV_PAGE_ARRAY_V_SUM).size());
}

Outcome BoundedAttention::prepare() {
  PlaneScan* const scan = context_.scan;
  Outcome outcome =
      scan->run(context_.list, context_.visibility, context_.query, 2, context_.workers);
  if (!outcome.ok()) return outcome;
  result_->traffic += scan->traffic();
  result_->nonfinite = scan->nonfinite();
  outcome = sums_.start();
  if (!outcome.ok() || sums_.dim() == 0) return outcome;

  std::size_t first = 0;
  while (scan->visible(first) == 0) ++first;
  PageView view;
  const Status status = sums_.open(first, &view);
  if (status != Status::kOk) return {status, first};
  price_pages(view);

  std::vector<std::uint64_t> unsafe(context_.list.pages());
  mark_unsafe(*scan, unsafe);
  const bool any = std::ranges::any_of(unsafe, [](std::uint64_t mask) { return mask != 0; });
  if (any) outcome = sums_.add_exact(unsafe, &result_->traffic);
  return outcome.ok() ? sums_.summarise(&groups_.state(), &result_->traffic) : outcome;
}

BoundedAttention::Plan BoundedAttention::plan(const Sample& sample, unsigned round) const {
  const auto pages = static_cast<std::uint64_t>(
      std::ranges::count_if(sample.chosen, [](std::uint64_t mask) { return mask != 0; }));
  const std::uint64_t planned = result_->traffic.total() + sample.group.size() * token_bursts_ +
                                pages * (page_bursts_ + (round > 1 ? sum_bursts_ : 0));
  const auto wanted = static_cast<double>(planned);
  const auto dense = static_cast<double>(dense_bursts_);
  if (request_.byte_cap != 0) {
    return wanted > dense * request_.byte_cap / 256.0 ? Plan::kStop : Plan::kSample;
  }
  return wanted > kDenseShare * dense ? Plan::kDense : Plan::kSample;
}

void BoundedAttention::set_thresholds(SampleLevels* levels, unsigned round) {
  const std::vector<LevelCounts> counts = levels->count(taken_);
  thresholds_.resize(counts.size());
  for (std::size_t row = 0; row < counts.size(); ++row) {
    if (round == 1) {
      thresholds_[row] = counts[row].first();
      continue;
    }
    const double over = std::log2(bound(row) / static_cast<double>(request_.error));
    double step = over > 0 ? 2 * over + kMargin : 0;
    if (std::isinf(groups_.deviation(row))) step = kBlindStep;
    thresholds_[row] = counts[row].within(thresholds_[row].log_variance - step);
  }
}

bool BoundedAttention::all_within() const {
  for (std::size_t row = 0; row < sums_.rows(); ++row) {
    if (!(bound(row) <= static_cast<double>(request_.error))) return false;
  }
  return true;
}

Outcome BoundedAttention::run_round(unsigned round, SampleLevels* levels, bool* done) {
  set_thresholds(levels, round);
  Sample sample;
  levels->draw(thresholds_, request_.seed, round, &sample);
  const Plan next = plan(sample, round);
  *done = next != Plan::kSample;
  if (next == Plan::kDense) return read_dense();
  if (next == Plan::kStop) {
    result_->capped = true;
    finish();
    return {};
  }
  const Outcome outcome = groups_.take(sample, round > 1, &result_->traffic);
  if (!outcome.ok()) return outcome;
  for (std::size_t page = 0; page < taken_.size(); ++page) taken_[page] |= sample.chosen[page];
  groups_.measure();
  result_->rounds = round;
  *done = all_within();
  if (*done) finish();
  return {};
}

void BoundedAttention::finish() {
  result_->state = groups_.total();
  result_->bound.assign(sums_.rows(), std::numeric_limits<float>::infinity());
  for (std::size_t row = 0; row < sums_.rows() && result_->rounds != 0; ++row) {
    const double least = bound(row) > 0 ? static_cast<double>(request_.error) / 2 : 0;
    result_->bound[row] = static_cast<float>(std::max(bound(row), least));
  }
}

Outcome BoundedAttention::read_dense() {
  AttendResult dense;
  const Outcome outcome = attend_dense(context_, request_, &dense);
  result_->state = std::move(dense.state);
  result_->bound = std::move(dense.bound);
  result_->traffic += dense.traffic;
  result_->dense_fallback = true;
  return outcome;
}

Outcome BoundedAttention::run() {
  Outcome outcome = prepare();
  if (!outcome.ok()) return outcome;
  if (sums_.dim() == 0) {
    result_->state.reset(sums_.rows(), 0);
    result_->bound.assign(sums_.rows(), 0.0F);
    return {};
  }
  SampleLevels levels(context_, sums_);
  bool done = false;
  for (unsigned round = 1; outcome.ok() && !done && round <= kMaxRounds; ++round) {
    outcome = run_round(round, &levels, &done);
  }
  if (!outcome.ok() || done) return outcome;
  if (request_.byte_cap == 0) return read_dense();
  result_->capped = true;
  finish();
  return {};
}

}  // namespace

Outcome attend_bounded(const AttendContext& context, const AttendSpec& request,
                       AttendResult* result) {
  return BoundedAttention(context, request, result).run();
}

}  // namespace nearkv
