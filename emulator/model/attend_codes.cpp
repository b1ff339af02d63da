#include "attend_codes.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "best_codes.hpp"
#include "budget.hpp"
#include "code_choice.hpp"
#include "code_errors.hpp"
#include "coded_attention.hpp"

namespace nearkv::model {

namespace {

constexpr int64_t kGoal = int64_t{1} << 24;
constexpr int kMostRounds = 5;
constexpr int kFreeRounds = 2;  // Before a threshold has to fall.

// 13.7
class BoundedByCodes {
 public:
  BoundedByCodes(const AttendTask& task, CodedAttention& attention)
      : task_(task),
        attention_(attention),
        budget_(dense_bursts(attention_.list().pages()), task.command.byte_cap) {}

  AttendAnswer run() {
    if (attention_.is_loud()) return give_up();
    for (;;) {
      sums_ = attention_.sums();
      if (!sums_.front().has_tokens()) return attention_.answer(sums_);
      measure();
      if (left_.empty()) return answer();
      if (rounds_ == kMostRounds) return give_up();
      const Verdict verdict = read();
      if (!verdict.ok()) return {.verdict = verdict};
      if (has_stopped_) return give_up();
      ++rounds_;
      if (attention_.is_loud()) return give_up();
    }
  }

 private:
  void measure() {
    bounds_.clear();
    left_.clear();
    for (size_t row = 0; row < sums_.size(); ++row) {
      const CodeErrors errors(task_, attention_.scores(), attention_.weights(), attention_.reads(),
                              row, sums_[row]);
      bounds_.push_back(errors.bound());
      if (errors.total() > kGoal) left_.push_back(errors);
    }
  }

  Verdict read() {
    const CodedList& list = attention_.list();
    const CodeReads& now = attention_.reads();
    threshold_ =
        code_threshold(list, now, left_, rounds_ >= kFreeRounds ? threshold_ : std::nullopt);
    CodeReads next = choose(*threshold_);
    while (reading_costs(list, now, next).total() == 0 && *threshold_ > kLeastThreshold) {
      *threshold_ -= kThresholdStep;
      next = choose(*threshold_);
    }
    const uint64_t planned = reading_costs(list, now, next).total();
    has_stopped_ = planned == 0 ||
                   budget_.judge(attention_.traffic().total(), planned) != Budget::Judgement::kRead;
    return has_stopped_ ? Verdict{} : attention_.read(next);
  }

  // Where errors are vast, keys come first: they tell what values are worth.
  [[nodiscard]] CodeReads choose(int threshold) const {
    const CodedList& list = attention_.list();
    const CodeReads& now = attention_.reads();
    CodeReads next = choose_reads(list, now, left_, threshold, attention_.shares_rows());
    const bool are_vast = std::ranges::any_of(
        left_, [](const CodeErrors& errors) { return errors.total() == CodeErrors::kMostTotal; });
    if (rounds_ > 0 || !are_vast) return next;
    CodeReads of_keys = now;
    of_keys.keys = next.keys;
    if (attention_.shares_rows()) of_keys.values.rows = next.values.rows;
    return reading_costs(list, now, of_keys).total() > 0 ? of_keys : next;
  }

  [[nodiscard]] AttendAnswer answer() const {
    AttendAnswer answer = attention_.answer(sums_);
    answer.rounds = static_cast<uint8_t>(rounds_);
    for (size_t row = 0; row < bounds_.size(); ++row) answer.rows[row].bound = bounds_[row];
    return answer;
  }

  // Dense, or what there is if that may not be read.
  AttendAnswer give_up() {
    if (!budget_.is_capped()) {
      AttendAnswer dense = attention_.dense_answer();
      dense.rounds = static_cast<uint8_t>(rounds_);
      return dense;
    }
    if (attention_.is_loud()) {
      sums_ = attention_.sums();
      bounds_.assign(sums_.size(), std::numeric_limits<float>::infinity());
    }
    AttendAnswer capped = answer();
    capped.flags |= NKV_COMPLETION_FLAG_CAPPED;
    return capped;
  }

  const AttendTask& task_;
  CodedAttention& attention_;
  Budget budget_;
  std::vector<RowSoftmax> sums_;
  std::vector<float> bounds_;
  std::vector<CodeErrors> left_;  // Of the rows beyond their goal.
  std::optional<int> threshold_;
  int rounds_ = 0;
  bool has_stopped_ = false;
};

// 13.8
AttendAnswer tail_by_codes(const AttendTask& task, CodedAttention& attention) {
  if (attention.is_loud()) return attention.dense_answer();
  const TokenSet best = best_by_codes(attention.scores(), task.command.top_k);
  CodeReads reads = attention.reads();
  for (size_t page = 0; page < best.size(); ++page) {
    reads.keys.rows[page] |= best[page];
    reads.values.rows[page] |= best[page];
  }
  const Verdict verdict = attention.read(reads);
  if (!verdict.ok()) return {.verdict = verdict};
  return attention.is_loud() ? attention.dense_answer() : attention.answer(attention.sums());
}

}  // namespace

AttendAnswer attend_by_codes(const AttendTask& task, CodedList list) {
  CodedAttention attention(task, std::move(list));
  if (Budget::is_dense_cheaper(attention.scan_bursts(), dense_bursts(attention.list().pages()))) {
    return fall_back_to_dense(task, {});
  }
  const Verdict verdict = attention.read_plain_pages();
  if (!verdict.ok()) return {.verdict = verdict};
  return task.command.mode == NKV_ATTEND_MODE_TAIL ? tail_by_codes(task, attention)
                                                   : BoundedByCodes(task, attention).run();
}

}  // namespace nearkv::model
