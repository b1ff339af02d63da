// nkv_command_order: outcomes in the order of commands, one for each, whatever trails; a watchdog
// that ends all that is under way; a clearing that forgets it.
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "Vnkv_command_order.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kWatchdogCycles = 100;

/// What a command is to do.
struct Work {
  std::uint32_t word = 0;
  bool is_refused = false;
  bool runs = true;
  unsigned cycles = 1;   ///< From its dispatch on,
  unsigned flush = 0;    ///< then until memory has its writes,
  unsigned results = 0;  ///< or else its results; 0 if there are none.
  bool fails = false;    ///< Memory refuses one of these.
};

class CommandOrderTest : public ::testing::Test {
 protected:
  CommandOrderTest() { bench_.reset(); }

  Work any_work() {
    Work work;
    work.word = ++words_;
    work.is_refused = random_() % 8 == 0;
    work.runs = random_() % 8 != 0;
    work.cycles = 1 + static_cast<unsigned>(random_() % 40);
    work.flush = static_cast<unsigned>(random_() % 20);
    work.results = random_() % 2 == 0 ? 0 : 1 + static_cast<unsigned>(random_() % 60);
    work.fails = may_fail_ && random_() % 4 == 0;
    return work;
  }

  void cycle() {
    Vnkv_command_order& port = *bench_;
    port.command_valid_i = !offered_.empty() && is_willing(random_, ask_pace_);
    if (!offered_.empty()) {
      port.command_command_i[0] = offered_.front().word;
      port.command_domain_tenant_i = static_cast<std::uint16_t>(offered_.front().word);
    }
    port.outcome_ready_i = is_willing(random_, take_pace_);
    port.checked_i = port.check_o != 0 && random_() % 4 == 0;
    port.verdict_status_i = running_ && running_->is_refused ? NKV_STATUS_BAD_FIELD : NKV_STATUS_OK;
    port.runs_i = running_ && running_->runs;
    const bool ends = dispatched_ && !done_ && left_ == 0 && may_end();
    port.done_i = ends;
    port.done_outcome_count_i = running_ ? running_->word : 0;
    port.results_left_i = ends && running_->results != 0;
    port.results_i = static_cast<std::uint8_t>(running_ ? running_->results : 0);
    port.writes_done_i = !done_ || flush_left_ == 0;
    port.writes_failed_i = running_ && running_->fails && done_;
    port.results_done_i = trailing_left_ == 0;
    port.results_failed_i = trailing_ && trailing_->fails && trailing_left_ < 5;
    port.progress_i = !is_stuck_ && random_() % 8 == 0;
    bench_.settle();
    if (port.trails_o != 0) {
      EXPECT_EQ(port.trailing_domain_tenant_o, trailing_->word);
      EXPECT_EQ(port.results_o, trailing_->results);
    }
    EXPECT_EQ(port.trailing_ends_o != 0, trailing_ && port.outcome_valid_o != 0 &&
                                             port.outcome_ready_i != 0 &&
                                             due_.front().word == trailing_->word);
    const bool takes = port.command_valid_i != 0 && port.command_ready_o != 0;
    if (port.outcome_valid_o != 0 && port.outcome_ready_i != 0) take_outcome();
    if (port.dispatch_o != 0 && port.runs_i != 0) {
      EXPECT_EQ(port.command_command_o[0], running_->word);
      dispatched_ = true;
      left_ = running_->cycles;
    }
    bench_.tick();
    if (dispatched_ && !is_stuck_ && left_ > 0) --left_;
    if (done_ && !is_stuck_ && flush_left_ > 0) --flush_left_;
    if (trailing_ && !is_stuck_ && trailing_left_ > 0) --trailing_left_;
    if (ends) end_run();
    if (takes) {
      EXPECT_FALSE(running_) << "two run at once";
      running_ = offered_.front();
      due_.push_back(*running_);
      offered_.pop_front();
      dispatched_ = done_ = false;
    }
  }

  /// Results wait for those of the command before.
  [[nodiscard]] bool may_end() const { return running_->results == 0 || !trailing_; }

  void end_run() {
    if (running_->results != 0) {
      trailing_ = running_;
      trailing_left_ = running_->results;
      running_.reset();
      dispatched_ = false;
    } else {
      done_ = true;
      flush_left_ = running_->flush;
    }
  }

  void take_outcome() {
    ASSERT_FALSE(due_.empty()) << "an outcome of no command";
    const Work work = due_.front();
    due_.pop_front();
    const unsigned status = bench_->outcome_verdict_status_o;
    const bool is_trailing = trailing_ && trailing_->word == work.word;
    if (status == NKV_STATUS_INTERNAL) {
      const bool failed = work.fails && !work.is_refused && (work.runs || is_trailing);
      EXPECT_NE(bench_->fatal_o != 0, failed && !is_stuck_);
      EXPECT_EQ(bench_->outcome_count_o, 0U);
      ++internal_;
    } else if (work.is_refused) {
      EXPECT_EQ(status, NKV_STATUS_BAD_FIELD);
    } else {
      EXPECT_EQ(status, NKV_STATUS_OK);
      EXPECT_FALSE(work.runs && work.fails);
      EXPECT_EQ(bench_->outcome_count_o, work.runs ? work.word : 0U);
      const unsigned left = is_trailing ? trailing_left_ : work.runs ? flush_left_ : 0;
      EXPECT_EQ(left, 0U);
    }
    if (is_trailing) {
      trailing_.reset();
    } else {
      overlapped_ += trailing_.has_value();
      running_.reset();
    }
    ++outcomes_;
  }

  void clear() {
    bench_->clear_i = 1;
    bench_->command_valid_i = 0;
    bench_->done_i = 0;
    bench_.tick();
    bench_->clear_i = 0;
    running_.reset();
    trailing_.reset();
    due_.clear();
    offered_.clear();
    dispatched_ = done_ = is_stuck_ = false;
    left_ = flush_left_ = trailing_left_ = 0;
  }

  Simulation<Vnkv_command_order> bench_;
  test::Random random_ = test::case_random(1);
  unsigned ask_pace_ = 8, take_pace_ = 8;
  std::deque<Work> offered_;
  std::deque<Work> due_;  ///< Taken, without an outcome.
  std::optional<Work> running_, trailing_;
  bool dispatched_ = false, done_ = false, is_stuck_ = false, may_fail_ = false;
  unsigned left_ = 0, flush_left_ = 0, trailing_left_ = 0;
  unsigned outcomes_ = 0, internal_ = 0, overlapped_ = 0;
  std::uint32_t words_ = 0;
};

TEST_F(CommandOrderTest, EachCommandHasItsOutcomeInOrder) {
  for (const unsigned ask : kPaces) {
    for (const unsigned take : kPaces) {
      ask_pace_ = ask;
      take_pace_ = take;
      for (unsigned i = 0; i < 200; ++i) offered_.push_back(any_work());
      for (unsigned i = 0; i < 100'000 && (!offered_.empty() || !due_.empty()); ++i) {
        cycle();
        if (HasFatalFailure()) return;
      }
      ASSERT_TRUE(offered_.empty() && due_.empty());
    }
  }
  EXPECT_EQ(outcomes_, 1800U);
  EXPECT_EQ(internal_, 0U);
  EXPECT_EQ(overlapped_, 0U);  // The outcome of the one before goes first.
}

TEST_F(CommandOrderTest, ACommandOfWhichMemoryRefusesAWriteFailsAloneAndTheNextIsTaken) {
  may_fail_ = true;
  for (unsigned i = 0; i < 1000; ++i) offered_.push_back(any_work());
  for (unsigned i = 0; i < 200'000 && (!offered_.empty() || !due_.empty()); ++i) {
    cycle();
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(offered_.empty() && due_.empty());
  EXPECT_EQ(bench_->fatal_o, 0);
  EXPECT_GT(internal_, 100U);
  EXPECT_LT(internal_, 300U);
}

TEST_F(CommandOrderTest, WithoutProgressAllEndsAndNothingIsTakenUntilAClearing) {
  unsigned two = 0;
  for (unsigned round = 0; round < 200; ++round) {
    for (unsigned i = 0; i < 8; ++i) offered_.push_back(any_work());
    for (std::uint64_t i = random_() % 150; i > 0; --i) cycle();
    is_stuck_ = true;
    for (unsigned i = 0; i < 3 * kWatchdogCycles; ++i) cycle();
    if (HasFatalFailure()) return;
    // Refusals, and what ended at that time, may leave none that is stuck.
    EXPECT_TRUE(due_.empty()) << round;
    if (bench_->fatal_o != 0) {
      EXPECT_EQ(bench_->command_ready_o, 0);
      two += internal_ == 2;
    }
    internal_ = 0;
    clear();
    bench_.settle();
    EXPECT_EQ(bench_->fatal_o, 0);
    EXPECT_NE(bench_->command_ready_o, 0);
  }
  EXPECT_GT(two, 10U);
}

// The first one's results are written and its outcome offered; then the second one is stuck.
TEST_F(CommandOrderTest, AnOutcomeThatIsOfferedStaysWhenTheNextCommandIsStuck) {
  take_pace_ = 0;
  offered_.push_back({.word = 1, .results = 5});
  offered_.push_back({.word = 2, .cycles = 1000});
  for (unsigned i = 0; i < 80; ++i) cycle();
  EXPECT_EQ(bench_->outcome_verdict_status_o, NKV_STATUS_OK);
  is_stuck_ = true;
  for (unsigned i = 0; i < 2 * kWatchdogCycles; ++i) cycle();
  EXPECT_NE(bench_->fatal_o, 0);
  EXPECT_EQ(bench_->outcome_verdict_status_o, NKV_STATUS_OK);
  take_pace_ = 8;
  for (unsigned i = 0; i < 10; ++i) cycle();
  EXPECT_EQ(outcomes_, 2U);
  EXPECT_EQ(internal_, 1U);
}

TEST_F(CommandOrderTest, AClearingInAnyCycleForgetsWhatIsUnderWay) {
  for (unsigned round = 0; round < 300; ++round) {
    for (unsigned i = 0; i < 8; ++i) offered_.push_back(any_work());
    for (std::uint64_t i = random_() % 200; i > 0; --i) cycle();
    clear();
    for (unsigned i = 0; i < 20; ++i) cycle();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(outcomes_, 300U);
}

}  // namespace
}  // namespace nearkv::rtl_test
