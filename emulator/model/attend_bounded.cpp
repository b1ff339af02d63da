// ATTEND, mode BOUNDED (section 8): to a stated error, by the engine's own random sample.
#include <algorithm>
#include <limits>
#include <numbers>

#include "attend.hpp"
#include "correction.hpp"
#include "estimate.hpp"
#include "rounding.hpp"
#include "sampling.hpp"
#include "tail_state.hpp"

namespace nearkv::model {

namespace {

constexpr uint32_t kLargestRounds = 4;
constexpr double kTighteningMargin = 0.95;

double standard_deviations(const nkv_attend_command& command) {
  return command.z == 0 ? 2.0 : command.z / 16.0;
}

std::vector<double> goals(const Estimate& estimate, float error) {
  std::vector<double> goals;
  for (size_t row = 0; row < estimate.rows(); ++row) {
    goals.push_back(static_cast<double>(error) * estimate.norm(row));
  }
  return goals;
}

// What may still be read, in bursts.
class Budget {
 public:
  enum class Judgement { kRead, kReadDense, kStop };

  Budget(uint64_t dense, uint8_t byte_cap) : dense_(dense), byte_cap_(byte_cap) {}

  // A dense read costs more than any cap allows, so a capped command never falls back to it.
  [[nodiscard]] bool is_capped() const { return byte_cap_ != 0; }

  [[nodiscard]] Judgement judge(uint64_t spent, uint64_t planned) const {
    const uint64_t total = spent + planned;
    if (is_capped()) {
      return total * 256 > dense_ * byte_cap_ ? Judgement::kStop : Judgement::kRead;
    }
    return total * 20 > dense_ * 17 ? Judgement::kReadDense : Judgement::kRead;
  }

 private:
  uint64_t dense_;
  uint8_t byte_cap_;
};

// One BOUNDED command on its way.
class BoundedAttend {
 public:
  explicit BoundedAttend(const AttendTask& task)
      : task_(task), z_(standard_deviations(task.command)), state_(task) {}

  AttendAnswer run() {
    Verdict verdict = state_.scan(/*top_k=*/0);
    if (!verdict.ok()) return {.verdict = verdict};
    if (count_tokens(state_.pages().visible()) == 0) return nothing_visible();
    const Budget budget(dense_bursts(state_.pages()), task_.command.byte_cap);

    Estimate scanned(state_);
    best_ = uncorrected(scanned);
    const TokenSet settled =
        ContributionBins(scanned, goals(scanned, task_.command.error)).settled();
    if (const auto judgement = judge(budget, settled); judgement != Budget::Judgement::kRead) {
      return give_up(judgement);
    }
    verdict = state_.read_exactly(settled);
    if (!verdict.ok()) return {.verdict = verdict};
    return run_rounds(budget);
  }

 private:
  AttendAnswer run_rounds(const Budget& budget) {
    std::vector<double> targets;
    for (uint32_t round = 1; round <= kLargestRounds; ++round) {
      const Estimate estimate(state_);
      const std::vector<double> goal = goals(estimate, task_.command.error);
      if (round == 1) {
        targets = goal;
        best_ = uncorrected(estimate);
      }
      const auto sample = ContributionBins(estimate, targets).sample(task_.command.seed, round, z_);
      const TokenSet tokens = token_set(sample, state_.pages().size());
      if (const auto judgement = judge(budget, tokens); judgement != Budget::Judgement::kRead) {
        return give_up(judgement);
      }
      const Verdict verdict = state_.read_exactly(tokens);
      if (!verdict.ok()) return {.verdict = verdict};
      rounds_ = static_cast<uint8_t>(round);
      best_ = correct(estimate, sample, z_);
      if (tighten(goal, &targets)) return answer();
    }
    return give_up(budget.is_capped() ? Budget::Judgement::kStop : Budget::Judgement::kReadDense);
  }

  // Step 4. Whether all rows are within their goals; the targets of those that are not shrink.
  bool tighten(const std::vector<double>& goal, std::vector<double>* targets) const {
    bool all_within = true;
    for (size_t row = 0; row < goal.size(); ++row) {
      const double error = best_[row].error;
      if (error <= goal[row]) continue;
      all_within = false;
      double& target = (*targets)[row];
      target = kTighteningMargin * target * target / error;
    }
    return all_within;
  }

  [[nodiscard]] Budget::Judgement judge(const Budget& budget, const TokenSet& tokens) const {
    return budget.judge(state_.traffic().total(), state_.read_bursts(tokens));
  }

  AttendAnswer give_up(Budget::Judgement judgement) {
    if (judgement == Budget::Judgement::kStop) {
      AttendAnswer capped = answer();
      capped.flags |= NKV_COMPLETION_FLAG_CAPPED;
      return capped;
    }
    AttendAnswer dense = attend_dense(task_);
    dense.traffic.stream += state_.traffic().stream;
    dense.traffic.exact += state_.traffic().exact;
    dense.traffic.value += state_.traffic().value;
    dense.flags |= NKV_COMPLETION_FLAG_DENSE_FALLBACK;
    dense.rounds = rounds_;
    return dense;
  }

  AttendAnswer answer() const {
    AttendAnswer answer = without_rows();
    const double unit = task_.base2() ? 1.0 : std::numbers::ln2;
    for (const CorrectedRow& corrected : best_) {
      AttendRow row{.output = {},
                    .log_sum_exp = nearest_binary32(corrected.log2_sum * unit),
                    .bound = nearest_binary32(corrected.bound())};
      for (const double element : corrected.output) {
        row.output.push_back(nearest_binary32(element));
      }
      answer.rows.push_back(std::move(row));
    }
    return answer;
  }

  AttendAnswer nothing_visible() const {
    AttendAnswer answer = without_rows();
    const RowSoftmax empty(task_.command.value_dim);
    answer.rows.assign(task_.command.group, finish_row(task_, empty));
    return answer;
  }

  AttendAnswer without_rows() const {
    AttendAnswer answer;
    answer.traffic = state_.traffic();
    answer.rounds = rounds_;
    if (state_.hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
    return answer;
  }

  const AttendTask& task_;
  double z_;
  TailState state_;
  std::vector<CorrectedRow> best_;  // The result so far.
  uint8_t rounds_ = 0;
};

}  // namespace

AttendAnswer attend_bounded(const AttendTask& task) { return BoundedAttend(task).run(); }

}  // namespace nearkv::model
