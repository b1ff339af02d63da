// ATTEND to a given error: TAIL, then a random sample of the tokens that it knows only
// approximately is read exactly, corrects the output and measures its own error (ARITHMETIC.md 8).
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "attend/error_model.hpp"
#include "attend/sampled_correction.hpp"
#include "attend/tail_sums.hpp"

namespace nearkv {
namespace {

constexpr unsigned kMaxRounds = 4;
constexpr double kVarianceShare = 0.95;
constexpr double kDenseShare = 0.85;

/// One BOUNDED command while it runs.
class BoundedAttention {
 public:
  BoundedAttention(const AttendContext& context, const AttendSpec& request, AttendResult* result)
      : context_(context),
        request_(request),
        result_(result),
        sums_(context, request),
        model_(context, &sums_),
        z_(request.z16 / 16.0) {}

  Outcome run();

 private:
  /// What may be read besides what has been.
  enum class Plan { kSample, kDense, kStop };

  Outcome prepare();
  Outcome estimate();
  Outcome settle();
  Outcome run_round(unsigned round, bool* done);
  Outcome read_dense();
  void finish(const SampledCorrection* correction);
  [[nodiscard]] Plan plan(double reads) const;

  const AttendContext& context_;
  const AttendSpec& request_;
  AttendResult* result_;
  TailSums sums_;
  ErrorModel model_;
  double z_;
  std::uint64_t dense_bursts_ = 0;
  std::uint64_t token_bursts_ = 0;  ///< A key and a value row.
  SoftmaxState state_;
  std::vector<double> wanted_;   ///< error * |O^|, per row.
  std::vector<double> targets_;  ///< What the next sample aims at.
};

Outcome BoundedAttention::prepare() {
  PlaneScan* const scan = context_.scan;
  Outcome outcome =
      scan->run(context_.list, context_.visibility, context_.query, 2, 0, context_.workers);
  if (!outcome.ok()) return outcome;
  result_->traffic += scan->traffic();
  result_->nonfinite = scan->nonfinite();
  outcome = sums_.start();
  if (!outcome.ok() || sums_.dim() == 0) return outcome;

  // Pages of one list are of one shape but for rare escapes: the first one stands for all.
  std::size_t first = 0;
  while (scan->visible(first) == 0) ++first;
  PageView view;
  const Status status = sums_.open(first, &view);
  if (status != Status::kOk) return {status, first};
  std::uint64_t page_bursts = bursts(sizeof(nkv_page_header));
  for (const nkv_page_array array : {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                     NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS}) {
    page_bursts += bursts(view.bytes(array).size());
  }
  for (std::size_t page = 0; page < scan->pages(); ++page) {
    if (context_.visibility.mask(page) != 0) dense_bursts_ += page_bursts;
  }
  token_bursts_ = bursts(view.keys().row_bytes);
  if (view.header().v_form != NKV_ROW_FORM_NONE) token_bursts_ += bursts(view.values().row_bytes);

  std::vector<std::uint64_t> unsafe(context_.list.pages());
  mark_unsafe(*scan, unsafe);
  const bool any = std::ranges::any_of(unsafe, [](std::uint64_t mask) { return mask != 0; });
  return any ? sums_.add_exact(unsafe, &result_->traffic) : Outcome{};
}

Outcome BoundedAttention::estimate() {
  const Outcome outcome = sums_.summarise(&state_, &result_->traffic);
  if (!outcome.ok()) return outcome;
  model_.set_state(state_);
  if (wanted_.empty()) {
    for (std::size_t row = 0; row < sums_.rows(); ++row) {
      wanted_.push_back(static_cast<double>(request_.error) * model_.output_norm(row));
    }
    targets_ = wanted_;
  }
  return {};
}

BoundedAttention::Plan BoundedAttention::plan(double reads) const {
  const double planned =
      static_cast<double>(result_->traffic.total()) + reads * static_cast<double>(token_bursts_);
  const auto dense = static_cast<double>(dense_bursts_);
  if (request_.byte_cap != 0 && planned > dense * request_.byte_cap / 256.0) return Plan::kStop;
  return planned > kDenseShare * dense ? Plan::kDense : Plan::kSample;
}

/// Reads the tokens that matter most for sure, before any sampling.
Outcome BoundedAttention::settle() {
  ContributionBins bins(sums_.rows());
  model_.bin_contributions(targets_, &bins);
  const int lowest = bins.settled_from();
  if (plan(bins.count_from(lowest)) != Plan::kSample) return {};  // The next step decides.
  std::vector<std::uint64_t> chosen(context_.list.pages());
  model_.choose_from(lowest, chosen);
  const Outcome outcome = sums_.add_exact(chosen, &result_->traffic);
  return outcome.ok() ? estimate() : outcome;
}

Outcome BoundedAttention::run_round(unsigned round, bool* done) {
  ContributionBins bins(sums_.rows());
  model_.bin_contributions(targets_, &bins);
  const double budget = (kVarianceShare / z_) * (kVarianceShare / z_);
  const Inclusion inclusion = choose_inclusion(bins, budget);
  const Plan next = plan(expected_reads(bins, inclusion));
  *done = next != Plan::kSample;
  if (next == Plan::kDense) return read_dense();
  if (next == Plan::kStop) {
    result_->capped = true;
    if (round == 0) finish(nullptr);  // Otherwise the last sample's result stands.
    return {};
  }
  SampledCorrection correction(context_, sums_, model_, state_);
  Outcome outcome = correction.draw(inclusion, request_.seed, round, &result_->traffic);
  if (!outcome.ok()) return outcome;
  result_->rounds = round + 1;
  finish(&correction);
  bool within = true;
  for (std::size_t row = 0; row < sums_.rows(); ++row) {
    const double bound = z_ * correction.deviation(row);
    if (bound <= wanted_[row]) continue;
    within = false;
    targets_[row] = kVarianceShare * targets_[row] * targets_[row] / bound;
  }
  *done = within;
  if (within) return {};
  Traffic counted;  // The rows have been read and counted for the correction.
  outcome = sums_.add_scored(correction.chosen(), correction.tokens(), &counted);
  return outcome.ok() ? estimate() : outcome;
}

void BoundedAttention::finish(const SampledCorrection* correction) {
  const std::size_t rows = sums_.rows();
  result_->bound.assign(rows, std::numeric_limits<float>::infinity());
  result_->state = state_;
  for (std::size_t row = 0; row < rows && correction != nullptr; ++row) {
    const double size = correction->apply(row, &result_->state);
    result_->bound[row] =
        size > 0 ? static_cast<float>(z_ * correction->deviation(row) / size) : 0.0F;
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
  outcome = estimate();
  if (outcome.ok()) outcome = settle();
  bool done = false;
  for (unsigned round = 0; outcome.ok() && !done && round < kMaxRounds; ++round) {
    outcome = run_round(round, &done);
  }
  return outcome.ok() && !done ? read_dense() : outcome;
}

}  // namespace

Outcome attend_bounded(const AttendContext& context, const AttendSpec& request,
                       AttendResult* result) {
  return BoundedAttention(context, request, result).run();
}

}  // namespace nearkv
