// ATTEND, mode BOUNDED (section 8): to a stated error, by the engine's own random sample.
#include <algorithm>
#include <bit>

#include "attend.hpp"
#include "budget.hpp"
#include "rows.hpp"
#include "sampled_sums.hpp"
#include "sampling.hpp"
#include "tail_page.hpp"
#include "tail_state.hpp"

namespace nearkv::model {

namespace {

constexpr uint32_t kLargestRounds = 4;
constexpr uint32_t kUsualSixteenths = 32;
constexpr int64_t kOctave = int64_t{1} << 24;
constexpr int64_t kMargin = kOctave / 4;
constexpr int64_t kBlindStep = 6 * kOctave;

int64_t log2_of(float error) {
  const Number number = decode_binary32(std::bit_cast<uint32_t>(error));
  return number.significand == 0 ? kNoError
                                 : log2_fixed(static_cast<uint64_t>(number.significand)) +
                                       (number.exponent - 150) * kOctave;
}

// One BOUNDED command on its way.
class BoundedAttend {
 public:
  explicit BoundedAttend(const AttendTask& task)
      : task_(task),
        sixteenths_(task.command.z == 0 ? kUsualSixteenths : task.command.z),
        log_error_(log2_of(task.command.error)),
        state_(task) {}

  AttendAnswer run() {
    const Verdict verdict = state_.scan(/*top_k=*/0);
    if (!verdict.ok()) return {.verdict = verdict};
    if (count_tokens(state_.pages().visible()) == 0) return nothing_visible();
    sums_.assign(state_.rows(), SampledSums(task_.command.value_dim));
    bounds_.resize(sums_.size());
    return run_rounds(Budget(dense_bursts(state_.pages()), task_.command.byte_cap));
  }

 private:
  AttendAnswer run_rounds(const Budget& budget) {
    for (uint32_t round = 1; round <= kLargestRounds; ++round) {
      choose_thresholds(round);
      const auto sample = draw_sample(state_, thresholds_, task_.command.seed, round);
      const TokenSet tokens = token_set(sample, state_.pages().size());
      const uint64_t planned =
          round == 1 ? state_.exact_set_bursts(tokens) : state_.sample_bursts(tokens);
      if (const auto judgement = budget.judge(state_.traffic().total(), planned);
          judgement != Budget::Judgement::kRead) {
        return give_up(judgement);
      }
      // The first sample is read in the visit that reads the state.
      const Verdict verdict =
          round == 1 ? state_.read_exact_set(tokens) : state_.read_sample(tokens);
      if (!verdict.ok()) return {.verdict = verdict};
      const std::vector<TailPage> pages = round == 1 ? state_pages() : std::vector<TailPage>();
      state_.take_tokens(tokens);
      rounds_ = static_cast<uint8_t>(round);
      take(sample, pages);
      if (measure()) return answer();
    }
    return give_up(budget.is_capped() ? Budget::Judgement::kStop : Budget::Judgement::kReadDense);
  }

  // Step 1.
  std::vector<TailPage> state_pages() const {
    std::vector<TailPage> pages;
    for (size_t page = 0; page < state_.pages().size(); ++page) {
      pages.emplace_back(state_, page, page_mean(page));
    }
    return pages;
  }

  // Step 2.
  void choose_thresholds(uint32_t round) {
    const std::vector<Levels> levels = levels_of(state_);
    thresholds_.resize(levels.size());
    for (size_t row = 0; row < levels.size(); ++row) {
      thresholds_[row] = round == 1 ? levels[row].first()
                                    : levels[row].within(thresholds_[row].log_variance - step(row));
    }
  }

  // By how much the variance of a row must fall.
  [[nodiscard]] int64_t step(size_t row) const {
    if (!bounds_[row]) return kBlindStep;
    if (*bounds_[row] <= log_error_) return 0;
    return 2 * (*bounds_[row] - log_error_) + kMargin;
  }

  // Step 4. `pages` are the state's, before its first sample.
  void take(std::span<const SampledToken> sample, std::span<const TailPage> pages) {
    for (SampledSums& row : sums_) row.clear_groups();
    size_t begin = 0;
    for (size_t page = 0; page < state_.pages().size(); ++page) {
      size_t end = begin;
      while (end < sample.size() && sample[end].page == page) ++end;
      take_page(page, sample.subspan(begin, end - begin), pages.empty() ? nullptr : &pages[page]);
      begin = end;
    }
  }

  void take_page(size_t page, std::span<const SampledToken> tokens, const TailPage* tail) {
    for (size_t row = 0; row < sums_.size(); ++row) {
      int64_t largest = tail != nullptr ? tail->largest(row) : kNoReference;
      for (const SampledToken& token : tokens) {
        const int64_t logit =
            std::max(state_.logit(row, page, token.token), token.approximate[row]);
        largest = std::max(largest, integer_part(SampledSums::scaled(logit, token.halvings)));
      }
      sums_[row].raise_reference(largest);
      if (tail != nullptr) tail->add_to(row, &sums_[row]);
    }
    if (!tokens.empty()) take_sampled(page, tokens);
  }

  void take_sampled(size_t page, std::span<const SampledToken> tokens) {
    SampledValues values{.own = {}, .negative_mean = page_mean(page)};
    for (int32_t& channel : values.negative_mean) channel = -channel;
    for (const SampledToken& token : tokens) {
      values.own = value_row(state_.pages()[page].page, token.token, task_.input.exponents.value);
      for (size_t row = 0; row < sums_.size(); ++row) {
        sums_[row].add_sampled(state_.logit(row, page, token.token), token.approximate[row],
                               token.halvings, token.group, values);
      }
    }
  }

  // Step 5. Whether all rows are within the error asked for.
  bool measure() {
    bool all_within = true;
    for (size_t row = 0; row < sums_.size(); ++row) {
      bounds_[row] = sums_[row].bound(sixteenths_, log_error_ - kOctave);
      all_within = all_within && bounds_[row] && *bounds_[row] <= log_error_;
    }
    return all_within;
  }

  [[nodiscard]] std::vector<int32_t> page_mean(size_t page) const {
    return mean_value(state_.value_sum(page), NKV_PAGE_TOKENS);
  }

  AttendAnswer give_up(Budget::Judgement judgement) {
    if (judgement == Budget::Judgement::kStop) {
      if (rounds_ == 0) {
        const Verdict verdict = state_.read_exact_set(state_.pages().none());
        if (!verdict.ok()) return {.verdict = verdict};
        take({}, state_pages());
      }
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
    for (size_t row = 0; row < sums_.size(); ++row) {
      answer.rows.push_back(finish_row(task_, sums_[row].total()));
      answer.rows.back().bound = number_of(bounds_[row]);
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
  uint32_t sixteenths_;
  int64_t log_error_;
  TailState state_;
  std::vector<SampledSums> sums_;      // Per row, as the next three.
  std::vector<Threshold> thresholds_;  // Of the last round.
  std::vector<LogBound> bounds_;       // None before the first.
  uint8_t rounds_ = 0;
};

}  // namespace

AttendAnswer attend_bounded(const AttendTask& task) { return BoundedAttend(task).run(); }

}  // namespace nearkv::model
