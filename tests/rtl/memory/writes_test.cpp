// Writes through nkv_engine_memory: guarded, each once and in order, and told of when memory has
// all, or refused one, apart for those of writer 1, which trail.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>

#include "Vnkv_engine_memory.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr std::uint64_t kWindowBase = 0x40000;
constexpr std::uint64_t kWindowBytes = 1 << 16;
constexpr std::uint64_t kTrailingOffset = 0x300000;
constexpr unsigned kWriters = 3;
constexpr std::size_t kMostUnanswered = 63;

struct Write {
  unsigned writer;
  std::uint64_t address;
  std::uint64_t strobes;
  std::uint32_t word;
};

class WritesTest : public ::testing::Test {
 protected:
  WritesTest() {
    bench_->domain_window_base_i = kWindowBase;
    bench_->trailing_domain_window_base_i = kWindowBase + kTrailingOffset;
    bench_->domain_window_bytes_i = bench_->trailing_domain_window_bytes_i = kWindowBytes;
    bench_.reset();
  }

  Write any_write(unsigned writer) {
    std::uint64_t address = random_() % (kWindowBytes / NKV_BURST_BYTES) * NKV_BURST_BYTES;
    if (random_() % 16 == 0) address = kWindowBytes - NKV_BURST_BYTES * (random_() % 2);
    if (random_() % 32 == 0) address = random_() / NKV_BURST_BYTES * NKV_BURST_BYTES;
    return {writer, address, random_(), static_cast<std::uint32_t>(random_())};
  }

  void cycle() {
    Vnkv_engine_memory& port = *bench_;
    for (unsigned writer = 0; writer < kWriters; ++writer) {
      if (!offered_[writer] && left_ != 0 && is_willing(random_, ask_pace_)) {
        offered_[writer] = true;
        --left_;
        offers_[writer] = any_write(writer);
        port.write_address_i[writer] = offers_[writer].address;
        port.write_strobes_i[writer] = offers_[writer].strobes;
        for (unsigned i = 0; i < 16; ++i) port.write_data_i[writer][i] = offers_[writer].word + i;
      }
      port.write_valid_i[writer] = offered_[writer];
    }
    port.w_ready_i = is_willing(random_, memory_pace_);
    port.forget_reads_i = random_() % 16 == 0;  // No matter of writes.
    port.b_valid_i = 0;
    std::array<bool, 2> refused{};
    const bool answers = !answers_.empty() && answers_.front().second <= now_;
    if (answers) {
      port.b_valid_i = 1;
      port.b_id_i = answers_.front().first;
      port.b_error_i = refusals_of_1000_ != 0 && random_() % 1000 < refusals_of_1000_;
      for (unsigned trails = 0; trails < 2; ++trails) {
        if (answers_.front().first != id_[trails]) continue;
        --unanswered_[trails];
        refused[trails] = port.b_error_i != 0;
      }
      answers_.pop_front();
    }
    port.begins_i = may_begin_ && random_() % 64 == 0;
    port.trailing_ends_i = may_begin_ && random_() % 64 == 0;
    port.clk_i = 0;
    bench_.settle();
    take_write();
    if (HasFatalFailure()) return;
    bench_.tick();
    failed_[0] = refused[0] || (failed_[0] && port.begins_i == 0);
    failed_[1] = refused[1] || (failed_[1] && port.trailing_ends_i == 0);
    refused_ += refused[0] + refused[1];
    ASSERT_EQ(port.quiet_o != 0, unanswered_[0] + unanswered_[1] == 0);
    ASSERT_EQ(port.writes_failed_o != 0, failed_[0]);
    ASSERT_EQ(port.trailing_failed_o != 0, failed_[1]);
    ++now_;
    ASSERT_EQ(port.writes_done_o != 0, !waits(false) && unanswered_[0] == 0);
    ASSERT_EQ(port.trailing_done_o != 0, !waits(true) && unanswered_[1] == 0);
  }

  void finish() {
    for (unsigned i = 0; left_ != 0 || std::ranges::count(offered_, true) != 0 ||
                         !answers_.empty() || !expected_.empty();
         ++i) {
      ASSERT_LT(i, 200000u);
      cycle();
      if (HasFatalFailure()) return;
    }
  }

  Simulation<Vnkv_engine_memory> bench_;
  test::Random random_ = test::case_random(2);
  unsigned ask_pace_ = 8, memory_pace_ = 8, latency_ = 10;
  unsigned left_ = 0, written_ = 0;
  unsigned refusals_of_1000_ = 0, refused_ = 0, dropped_ = 0;
  bool may_begin_ = false;
  std::array<bool, 2> failed_{};                                 // [1]: of those that trail.
  std::array<std::size_t, 2> unanswered_{}, most_unanswered_{};  // [1]: of those that trail.
  std::deque<Write> expected_;                                   // Accepted and not at memory.

  void clear(bool forfeits) {
    bench_->clear_i = 1;
    bench_->forfeit_i = forfeits;
    std::ranges::fill(bench_->write_valid_i, 0);
    bench_->w_ready_i = 0;
    bench_->b_valid_i = 0;
    bench_.tick();
    bench_->clear_i = bench_->forfeit_i = 0;
    expected_.clear();
    offered_ = {};
    left_ = 0;
    failed_ = {};
    if (!forfeits) return;
    unanswered_ = {};
    id_ = {kNoId, kNoId};
  }

 private:
  static constexpr std::uint16_t kNoId = 0xffff;  // No id has so many bits.

  static bool trails(const Write& write) { return write.writer == 1; }

  [[nodiscard]] bool waits(bool trailing) const {
    return std::ranges::any_of(expected_,
                               [&](const Write& write) { return trails(write) == trailing; });
  }

  void take_write() {
    Vnkv_engine_memory& port = *bench_;
    const auto& ready = port.write_ready_o;
    EXPECT_FALSE(offered_[0] && (ready[1] || ready[2]));
    EXPECT_FALSE(offered_[1] && ready[2]);
    if (port.w_valid_o != 0 && port.w_ready_i != 0) {
      ASSERT_FALSE(expected_.empty()) << "a write that nobody asked for";
      const Write write = expected_.front();
      expected_.pop_front();
      const std::uint64_t offset = trails(write) ? kTrailingOffset : 0;
      ASSERT_EQ(port.w_addr_o, kWindowBase + write.address + offset);
      ASSERT_EQ(port.w_strb_o, write.strobes);
      for (unsigned i = 0; i < 16; ++i) ASSERT_EQ(port.w_data_o[i], write.word + i);
      ++written_;
      id_[trails(write)] = port.w_id_o;
      answers_.emplace_back(port.w_id_o, now_ + latency_);
      std::size_t& most = most_unanswered_[trails(write)];
      most = std::max(most, ++unanswered_[trails(write)]);
    }
    for (unsigned writer = 0; writer < kWriters; ++writer) {
      if (!offered_[writer] || !ready[writer]) continue;
      const bool is_dropped = failed_[trails(offers_[writer])];
      dropped_ += is_dropped;
      if (offers_[writer].address < kWindowBytes && !is_dropped) {
        expected_.push_back(offers_[writer]);
      }
      offered_[writer] = false;
    }
  }

  std::array<bool, kWriters> offered_{};
  std::array<Write, kWriters> offers_{};
  std::deque<std::pair<std::uint16_t, std::uint64_t>> answers_;
  std::array<std::uint16_t, 2> id_{kNoId, kNoId};  // Of the writes since the last forfeit.
  std::uint64_t now_ = 0;
};

TEST_F(WritesTest, GoOnceEachInOrderAtEveryPace) {
  for (const unsigned ask : kPaces) {
    for (const unsigned memory : kPaces) {
      ask_pace_ = ask;
      memory_pace_ = memory;
      left_ = 400;
      finish();
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(written_, 3000u);
}

TEST_F(WritesTest, NoMoreWaitForTheirAnswerThanCanBeCounted) {
  latency_ = 500;
  left_ = 1000;
  finish();
  EXPECT_EQ(std::ranges::max(most_unanswered_), kMostUnanswered);
}

TEST_F(WritesTest, ARefusalIsToldAndEndsTheWritesUntilOthersBegin) {
  refusals_of_1000_ = 10;
  for (const bool may_begin : {false, true}) {
    may_begin_ = may_begin;
    for (const unsigned memory : kPaces) {
      memory_pace_ = memory;
      left_ = 2000;
      finish();
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(refused_, 20U);
  EXPECT_GT(dropped_, 3000U);
  EXPECT_GT(written_, 3000U);
}

TEST_F(WritesTest, WritesBeforeAClearingAreWaitedForAfterIt) {
  refusals_of_1000_ = 10;
  latency_ = 30;
  for (unsigned round = 0; round < 100; ++round) {
    left_ = 100;
    for (unsigned i = 0; i < 20 + random_() % 40; ++i) {
      cycle();
      if (HasFatalFailure()) return;
    }
    clear(false);
  }
  EXPECT_GT(written_, 1000u);
}

TEST_F(WritesTest, AnswersThatAreForfeitDoNotCount) {
  refusals_of_1000_ = 100;
  latency_ = 30;
  for (unsigned round = 0; round < 100; ++round) {
    left_ = 100;
    for (unsigned i = 0; i < 20 + random_() % 40; ++i) {
      cycle();
      if (HasFatalFailure()) return;
    }
    clear(true);
    if (round % 3 == 2) {
      // Answers of four forfeits ago have to be in.
      for (unsigned i = 0; i < 2 * latency_; ++i) cycle();
    }
  }
  EXPECT_GT(written_, 1000u);
}

}  // namespace
}  // namespace nearkv::rtl_test
