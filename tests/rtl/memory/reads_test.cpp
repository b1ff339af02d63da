// Reads through nkv_engine_memory: guarded, cut into AXI bursts, given back in the order they were
// asked for by a memory that answers late and in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "Vnkv_engine_memory.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr std::uint64_t kWindowBase = 0x12340000;
constexpr std::uint64_t kWindowBytes = (1 << 20) - 100;  // Its last burst is not whole.
constexpr std::uint64_t kWindowBursts = (1 << 20) / NKV_BURST_BYTES - 1;
constexpr unsigned kOutstanding = 128;
constexpr unsigned kOnTheirWayOut = 9;  // Whose places are free again.
constexpr unsigned kClient = 5;
constexpr unsigned kReaders = 3;

struct Read {
  unsigned reader;
  std::uint64_t address;
  std::uint32_t bursts;
  std::uint16_t page;
};

struct Beat {
  bool fault;
  bool poison;
  bool first;
  bool last;
  std::uint16_t page;
  std::uint64_t address;
};

// What memory holds, and what of it is poisoned or answers with an error.
std::uint32_t word_at(std::uint64_t address) {
  return static_cast<std::uint32_t>(address * 0x9e3779b97f4a7c15u >> 32);
}
bool is_poisoned(std::uint64_t address) { return address / NKV_BURST_BYTES % 37 == 5; }
bool is_error(std::uint64_t address) { return address / NKV_BURST_BYTES % 41 == 7; }

std::vector<Beat> beats_of(const Read& read) {
  const std::uint64_t first = read.address / NKV_BURST_BYTES;
  if (first >= kWindowBursts || read.bursts > kWindowBursts - first) {
    return {{true, false, true, true, read.page, 0}};
  }
  std::vector<Beat> beats;
  for (std::uint32_t i = 0; i < read.bursts; ++i) {
    const std::uint64_t address = kWindowBase + (first + i) * NKV_BURST_BYTES;
    beats.push_back({false, is_poisoned(address) || is_error(address), i == 0, i + 1 == read.bursts,
                     read.page, address});
  }
  return beats;
}

class ReadsTest : public ::testing::Test {
 protected:
  ReadsTest() {
    bench_->domain_window_base_i = kWindowBase;
    bench_->domain_window_bytes_i = kWindowBytes;
    bench_.reset();
  }

  // Offers what waits, answers as memory, and checks what comes out.
  void cycle() {
    Vnkv_engine_memory& port = *bench_;
    for (unsigned reader = 0; reader < waiting_.size(); ++reader) {
      // An offer stands until it is taken.
      if (!offered_[reader]) {
        offered_[reader] = !waiting_[reader].empty() && is_willing(random_, ask_pace_);
      }
      if (offered_[reader]) {
        const Read& read = waiting_[reader].front();
        port.read_address_i[reader] = read.address;
        port.read_bursts_i[reader] = read.bursts;
        port.read_tag_page_i[reader] = read.page;
      }
      port.read_valid_i[reader] = offered_[reader];
    }
    port.ar_ready_i = is_willing(random_, memory_pace_);
    port.beat_ready_i = is_willing(random_, take_pace_);
    show_answer();
    port.clk_i = 0;
    bench_.settle();
    take_request();
    take_burst();
    take_beat();
    if (HasFatalFailure()) return;
    bench_.tick();
    ++now_;
    ASSERT_EQ(port.quiet_o != 0, bursts_.size() == lost_);
  }

  // Until all has come, what answers to requests before a clearing too, and a while longer.
  void run_until_quiet() {
    for (unsigned quiet = 0, i = 0; quiet < 20; ++i) {
      ASSERT_LT(i, 400000u) << expected_.size() << " beats do not come";
      cycle();
      if (HasFatalFailure()) return;
      const bool is_quiet =
          expected_.empty() && bursts_.empty() &&
          std::ranges::all_of(waiting_, [](const auto& waiting) { return waiting.empty(); });
      quiet = is_quiet ? quiet + 1 : 0;
    }
  }

  /// By a reset, or as a command that is given up has it. With the first memory's answers may be
  /// given up, too.
  void clear(bool is_reset, bool forfeits = false) {
    bench_->clear_i = is_reset;
    bench_->forfeit_i = forfeits;
    bench_->forget_reads_i = !is_reset;
    std::ranges::fill(bench_->read_valid_i, 0);
    bench_->r_valid_i = 0;
    bench_->ar_ready_i = 0;
    bench_->beat_ready_i = 0;
    bench_.tick();
    bench_->clear_i = bench_->forfeit_i = bench_->forget_reads_i = 0;
    expected_.clear();
    outstanding_ = 0;
    if (forfeits) lost_ = bursts_.size();
    for (auto& waiting : waiting_) waiting.clear();
    offered_ = {};
  }

  Read any_read() {
    const std::uint32_t bursts = test::pick(random_, 1, random_() % 4 == 0 ? 200 : 20);
    std::uint64_t first = test::pick(random_, 0, kWindowBursts - 1);
    if (random_() % 8 == 0) first = kWindowBursts - bursts + random_() % 2;
    if (random_() % 32 == 0) first = random_() >> 6;
    return {static_cast<unsigned>(random_() % kReaders), first * NKV_BURST_BYTES, bursts,
            static_cast<std::uint16_t>(random_() % 512)};
  }

  void ask(const Read& read) { waiting_[read.reader].push_back(read); }

  Simulation<Vnkv_engine_memory> bench_;
  test::Random random_ = test::case_random(1);
  unsigned ask_pace_ = 8, memory_pace_ = 8, take_pace_ = 8, latency_ = 20, jitter_ = 0;
  std::array<std::deque<Read>, kReaders> waiting_;
  bool cuts_ = false;  ///< Memory answers each beat as a burst, whose ids count on (nkv_near_cut).
  std::deque<Beat> expected_;
  unsigned outstanding_ = 0;  // Bursts that memory was asked for and that were not given out.
  std::size_t lost_ = 0;      ///< AXI bursts under way, the first ones, that nobody waits for.
  std::uint64_t now_ = 0, faults_ = 0, given_ = 0;

 private:
  struct Burst {
    std::uint16_t id;
    std::uint64_t address;
    unsigned left;
    std::uint64_t ready_at;
  };

  void show_answer() {
    Vnkv_engine_memory& port = *bench_;
    port.r_valid_i = 0;
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < bursts_.size(); ++i) {
      if (bursts_[i].ready_at <= now_) ready.push_back(i);
    }
    if (ready.empty()) return;
    // Beats of different bursts mix; those of one come in order.
    const std::size_t chosen = jitter_ == 0 ? ready[0] : ready[random_() % ready.size()];
    Burst& burst = bursts_[chosen];
    port.r_valid_i = 1;
    port.r_id_i = burst.id;
    port.r_last_i = burst.left == 1;
    port.r_poison_i = is_poisoned(burst.address);
    port.r_error_i = is_error(burst.address);
    for (unsigned i = 0; i < 16; ++i) port.r_data_i[i] = word_at(burst.address) + i;
    burst.address += NKV_BURST_BYTES;
    if (--burst.left != 0) return;
    bursts_.erase(bursts_.begin() + static_cast<std::ptrdiff_t>(chosen));
    if (chosen < lost_) --lost_;
  }

  void take_request() {
    const auto& ready = bench_->read_ready_o;
    // The lower reader goes first.
    EXPECT_FALSE(offered_[0] && (ready[1] || ready[2]));
    EXPECT_FALSE(offered_[1] && ready[2]);
    for (unsigned reader = 0; reader < offered_.size(); ++reader) {
      if (!offered_[reader] || !ready[reader]) continue;
      const std::vector<Beat> beats = beats_of(waiting_[reader].front());
      expected_.insert(expected_.end(), beats.begin(), beats.end());
      waiting_[reader].pop_front();
      offered_[reader] = false;
    }
  }

  void take_burst() {
    Vnkv_engine_memory& port = *bench_;
    if (port.ar_valid_o == 0 || port.ar_ready_i == 0) return;
    const unsigned beats = port.ar_len_o + 1u;
    const std::uint64_t end = port.ar_addr_o + beats * NKV_BURST_BYTES;
    ASSERT_LE(beats, 16u);
    ASSERT_EQ(port.ar_addr_o >> 12, (end - 1) >> 12) << "crosses 4 KiB";
    ASSERT_GE(port.ar_addr_o, kWindowBase);
    ASSERT_LE(end, kWindowBase + kWindowBursts * NKV_BURST_BYTES);
    ASSERT_EQ(port.ar_id_o >> 9, kClient);
    outstanding_ += beats;
    ASSERT_LE(outstanding_, kOutstanding + kOnTheirWayOut);
    const std::uint64_t delay = latency_ + (jitter_ == 0 ? 0 : random_() % jitter_);
    if (!cuts_) {
      bursts_.push_back(
          {static_cast<std::uint16_t>(port.ar_id_o), port.ar_addr_o, beats, now_ + delay});
      return;
    }
    for (unsigned i = 0; i < beats; ++i) {
      const unsigned id = (port.ar_id_o & ~127u) | ((port.ar_id_o + i) & 127u);
      bursts_.push_back(
          {static_cast<std::uint16_t>(id), port.ar_addr_o + i * NKV_BURST_BYTES, 1, now_ + delay});
    }
  }

  void take_beat() {
    Vnkv_engine_memory& port = *bench_;
    if (port.beat_valid_o == 0 || port.beat_ready_i == 0) return;
    ASSERT_FALSE(expected_.empty()) << "a beat that nobody asked for";
    const Beat beat = expected_.front();
    expected_.pop_front();
    ASSERT_EQ(port.beat_fault_o != 0, beat.fault);
    ASSERT_EQ(port.beat_poison_o != 0, beat.poison);
    ASSERT_EQ(port.beat_first_o != 0, beat.first);
    ASSERT_EQ(port.beat_last_o != 0, beat.last);
    ASSERT_EQ(port.beat_tag_page_o, beat.page);
    ++given_;
    if (beat.fault) {
      ++faults_;
      // Nor what lay here of a read before, which may have been another tenant's.
      for (unsigned i = 0; i < 16; ++i) ASSERT_EQ(port.beat_data_o[i], 0U) << "data of a fault";
      return;
    }
    --outstanding_;
    for (unsigned i = 0; i < 16; ++i) ASSERT_EQ(port.beat_data_o[i], word_at(beat.address) + i);
  }

  std::array<bool, kReaders> offered_{};
  std::vector<Burst> bursts_;
};

TEST_F(ReadsTest, GivesBeatsInTheOrderOfTheRequestsAtEveryPace) {
  for (const unsigned ask : kPaces) {
    for (const unsigned memory : kPaces) {
      for (const unsigned take : kPaces) {
        ask_pace_ = ask;
        memory_pace_ = memory;
        take_pace_ = take;
        jitter_ = static_cast<unsigned>(random_() % 2 * 100);
        cuts_ = random_() % 2 == 0;
        for (unsigned i = 0; i < 60; ++i) this->ask(any_read());
        run_until_quiet();
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(faults_, 20u);
  EXPECT_GT(given_, 20000u);
}

TEST_F(ReadsTest, GivesABurstPerCycleWhenMemoryKeepsUp) {
  latency_ = 60;
  ask({.reader = 0, .address = 0, .bursts = 4000, .page = 1});
  const std::uint64_t begin = now_;
  while (!expected_.empty() || !waiting_[0].empty()) cycle();
  EXPECT_LE(now_ - begin, 4000u + latency_ + 10);
}

// A fault takes its place between reads that go on.
TEST_F(ReadsTest, RefusesRangesBeyondTheWindowAndReadsNothingOfThem) {
  ask({.reader = 0, .address = 0, .bursts = 40, .page = 1});
  ask({.reader = 0, .address = (kWindowBursts - 3) * NKV_BURST_BYTES, .bursts = 4, .page = 2});
  ask({.reader = 0, .address = (kWindowBursts - 4) * NKV_BURST_BYTES, .bursts = 4, .page = 3});
  ask({.reader = 0, .address = ~std::uint64_t{63}, .bursts = 2, .page = 4});
  run_until_quiet();
  EXPECT_EQ(faults_, 2u);
  EXPECT_EQ(given_, 40u + 1 + 4 + 1);
}

// Memory answers what was asked for before the clearing between what is asked for after it.
TEST_F(ReadsTest, DropsWhatAnswersToRequestsBeforeAClearing) {
  latency_ = 40;
  jitter_ = 200;
  for (unsigned round = 0; round < 60; ++round) {
    for (unsigned i = 0; i < 20; ++i) ask(any_read());
    for (std::uint64_t i = 10 + random_() % 600; i > 0; --i) {
      cycle();
      if (HasFatalFailure()) return;
    }
    clear(round % 2 == 0);
  }
  EXPECT_GT(given_, 1000u);
}

// However many there were: memory is asked for nothing that could be taken for what it still owes.
TEST_F(ReadsTest, TakesNoAnswerOfManyClearingsBeforeForOneOfItsOwn) {
  latency_ = 3000;
  for (unsigned clearings = 1; clearings < 12; ++clearings) {
    SCOPED_TRACE(clearings);
    ask({.reader = 0, .address = 0, .bursts = 40, .page = 1});
    for (unsigned i = 0; i < 30; ++i) cycle();
    for (unsigned i = 0; i < clearings; ++i) {
      clear(i % 2 == 0);
      ask({.reader = 0, .address = 1 << 16, .bursts = 30, .page = 2});
      for (unsigned j = 0; j < 20; ++j) cycle();
      EXPECT_EQ(bench_->quiet_o, 0);
    }
    run_until_quiet();
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(given_, 11U * 30);
}

TEST_F(ReadsTest, WaitsForNothingThatIsForfeitAndDropsItIfItComes) {
  latency_ = 400;
  for (unsigned round = 0; round < 10; ++round) {
    ask({.reader = 0, .address = 0, .bursts = 40, .page = 1});
    for (unsigned i = 0; i < 30; ++i) cycle();
    clear(true, true);
    EXPECT_NE(bench_->quiet_o, 0);
    ask({.reader = 0, .address = 1 << 16, .bursts = 30, .page = 2});
    run_until_quiet();
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(given_, 10U * 30);
}

// The first burst after a clearing has the id of the first one before it.
TEST_F(ReadsTest, CountsTheBeatsOfABurstAnewWhereAClearingHasCutTheLastOneOff) {
  latency_ = 3;
  for (unsigned cycles = 1; cycles < 40; ++cycles) {
    SCOPED_TRACE(cycles);
    for (unsigned round = 0; round < 2; ++round) {
      for (unsigned i = 0; i < 3; ++i) ask({0, 16ULL * i * NKV_BURST_BYTES, 16, 0});
      for (unsigned i = 0; i < cycles; ++i) {
        cycle();
        if (HasFatalFailure()) return;
      }
      if (round == 0) clear(cycles % 2 == 0);
    }
    run_until_quiet();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
