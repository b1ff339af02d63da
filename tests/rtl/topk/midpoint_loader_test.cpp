// nkv_midpoint_loader between a feed, memory and whoever works on midpoints: pages leave in order,
// each with its midpoints there, and no frame is filled while a page has it.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "Vnkv_midpoint_loader.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kFrames = 64;
constexpr unsigned kPageBursts = 16;
constexpr std::uint64_t kPageMidpointBytes = 1024;
constexpr unsigned kSinkMidpoints = 6;  // Of sink_e.

/// How willing each side is, of 8, and how late memory.
struct Pace {
  unsigned pages = 8;
  unsigned user = 8;
  unsigned requests = 8;
  unsigned beats = 8;
  unsigned overs = 8;
  unsigned latency = 60;
};

struct Page {
  unsigned index;
  bool wanted;
};

class MidpointLoaderTest : public ::testing::Test {
 protected:
  MidpointLoaderTest() {
    loader_.reset();
    loader_->loads_i = 1;
  }

  /// Ascending, some left out; about `wanted` of 8 are wanted.
  void list_pages(unsigned count, unsigned wanted, unsigned most_apart = 1) {
    forget();
    for (unsigned i = 0, page = 0; i < count; ++i, page += test::pick(random_, 1, most_apart)) {
      listed_.push_back({page, is_willing(random_, wanted)});
    }
  }

  void forget() {
    listed_.clear();
    offered_ = taken_ = queued_ = asked_ = 0;
    offering_ = looked_up_ = false;
    frames_.clear();
    in_work_.clear();
    reads_.clear();
    come_.clear();
  }

  void cycle(const Pace& pace) {
    Vnkv_midpoint_loader& port = *loader_;
    offer_page(pace);
    offer_beat(pace);
    const std::vector<unsigned> overs = offer_overs(pace);
    port.page_ready_i = is_willing(random_, pace.user);
    port.request_ready_i = is_willing(random_, pace.requests);
    loader_.settle();
    EXPECT_EQ(port.empty_o != 0, queued_ == 0);
    take_request(pace);
    if (HasFatalFailure()) return;
    const bool enters = port.page_valid_i && port.page_ready_o;
    if (enters && has_frame(listed_[offered_].index)) {
      const unsigned page = listed_[offered_].index;
      ASSERT_TRUE(frames_.emplace(page % kFrames, page).second)
          << "page " << page << " where " << frames_[page % kFrames] << " is";
      ++queued_;
    }
    if (port.page_valid_o && port.page_ready_i) take_page();
    if (HasFatalFailure()) return;
    looked_up_ = port.page_valid_i && !enters;
    if (enters) {
      ++offered_;
      offering_ = false;
    }
    loader_.tick();
    for (const unsigned page : overs) frames_.erase(page % kFrames);
    ++now_;
  }

  /// Until all pages have left and are over; the cycles that it took.
  std::uint64_t finish(const Pace& pace) {
    const std::uint64_t begin = now_;
    while (taken_ < listed_.size() || !frames_.empty()) {
      EXPECT_LT(now_ - begin, 400000U) << taken_ << " of " << listed_.size() << " pages have left";
      if (HasFailure()) return 0;
      cycle(pace);
    }
    const std::uint64_t cycles = now_ - begin;
    for (unsigned i = 0; i < 4; ++i) cycle(pace);
    EXPECT_TRUE(reads_.empty());
    return cycles;
  }

  [[nodiscard]] bool has_frame(unsigned page) { return loader_->loads_i && page >= kKeptPages; }

  Simulation<Vnkv_midpoint_loader> loader_;
  test::Random random_ = test::case_random(7);
  std::vector<Page> listed_;
  std::size_t taken_ = 0;           // Of those, that have left.
  unsigned asked_ = 0;              // Of those, that were asked for.
  std::optional<unsigned> poison_;  // Pages of which memory gives no good data.
  std::optional<unsigned> fault_;

 private:
  struct Read {
    unsigned page;
    unsigned beat;
    std::uint64_t ready_at;
  };

  void offer_page(const Pace& pace) {
    Vnkv_midpoint_loader& port = *loader_;
    port.wanted_i = looked_up_ ? listed_[offered_].wanted : random_() % 2;
    offering_ = offered_ < listed_.size() && (offering_ || is_willing(random_, pace.pages));
    port.page_valid_i = offering_;
    port.page_i = static_cast<std::uint16_t>(offering_ ? listed_[offered_].index : random_() % 64);
  }

  void offer_beat(const Pace& pace) {
    Vnkv_midpoint_loader& port = *loader_;
    port.beat_valid_i =
        !reads_.empty() && reads_.front().ready_at <= now_ && is_willing(random_, pace.beats);
    if (!port.beat_valid_i) return;
    Read& read = reads_.front();
    port.beat_tag_page_i = static_cast<std::uint16_t>(read.page);
    port.beat_poison_i = poison_ == read.page && read.beat == 5;
    port.beat_fault_i = fault_ == read.page;
    port.beat_last_i = port.beat_fault_i || read.beat + 1 == kPageBursts;
    ++read.beat;
    if (!port.beat_last_i) return;
    come_.push_back(read.page);
    reads_.pop_front();
  }

  /// Pages that are over in this cycle; of pages that stay it may be said at any time.
  std::vector<unsigned> offer_overs(const Pace& pace) {
    Vnkv_midpoint_loader& port = *loader_;
    std::vector<unsigned> overs;
    port.over_i = 0;
    for (unsigned i = 0; i < 3; ++i) {
      const unsigned valid = 1U << i;
      port.over_page_i[i] = static_cast<std::uint16_t>(random_() % kKeptPages);
      if (in_work_.empty() || !is_willing(random_, pace.overs)) {
        if (random_() % 2 == 0) port.over_i |= static_cast<std::uint8_t>(valid);
        continue;
      }
      const auto any = in_work_.begin() + static_cast<std::ptrdiff_t>(random_() % in_work_.size());
      port.over_i |= static_cast<std::uint8_t>(valid);
      port.over_page_i[i] = static_cast<std::uint16_t>(*any);
      overs.push_back(*any);
      in_work_.erase(any);
    }
    return overs;
  }

  void take_request(const Pace& pace) {
    Vnkv_midpoint_loader& port = *loader_;
    if (!port.request_valid_o) return;
    ASSERT_TRUE(offering_ && looked_up_ && listed_[offered_].wanted);
    const unsigned page = listed_[offered_].index;
    ASSERT_TRUE(has_frame(page));
    ASSERT_EQ(port.request_tag_sink_o, kSinkMidpoints);
    ASSERT_EQ(port.request_tag_page_o, page);
    ASSERT_EQ(port.request_bursts_o, kPageBursts);
    ASSERT_EQ(port.request_address_o, page * kPageMidpointBytes);
    if (!port.request_ready_i) return;
    reads_.push_back({page, 0, now_ + pace.latency});
    ++asked_;
  }

  void take_page() {
    ASSERT_LT(taken_, listed_.size());
    const Page& page = listed_[taken_];
    ASSERT_EQ(loader_->page_o, page.index);
    ++taken_;
    if (!has_frame(page.index)) return;
    --queued_;
    in_work_.push_back(page.index);
    if (!page.wanted) return;
    ASSERT_FALSE(come_.empty()) << "page " << page.index << " leaves before its midpoints came";
    ASSERT_EQ(come_.front(), page.index);
    come_.pop_front();
  }

  std::size_t offered_ = 0;
  unsigned queued_ = 0;
  bool offering_ = false, looked_up_ = false;
  std::map<unsigned, unsigned> frames_;  // Whose each is.
  std::deque<unsigned> in_work_;         // Pages that have left and are not over.
  std::deque<Read> reads_;
  std::deque<unsigned> come_;  // Pages whose midpoints have come, that have not left.
  std::uint64_t now_ = 0;
};

TEST_F(MidpointLoaderTest, BringsMidpointsOfEveryPageThatIsWanted) {
  for (unsigned i = 0; i < 60; ++i) {
    SCOPED_TRACE(test::case_name(i));
    random_ = test::case_random(i);
    list_pages(test::pick(random_, 1, 300), test::pick(random_, 0, 8), test::pick(random_, 1, 40));
    finish({.pages = kPaces[random_() % 3],
            .user = kPaces[random_() % 3],
            .requests = kPaces[random_() % 3],
            .beats = kPaces[random_() % 3],
            .overs = kPaces[random_() % 3],
            .latency = test::pick(random_, 0, 300)});
    if (HasFailure()) return;
    unsigned wanted = 0;
    for (const Page& page : listed_) wanted += page.wanted && page.index >= kKeptPages ? 1 : 0;
    ASSERT_EQ(asked_, wanted);
    EXPECT_FALSE(loader_->poisoned_o);
  }
}

TEST_F(MidpointLoaderTest, PassesPagesWhoseMidpointsNobodyWorksOn) {
  loader_->loads_i = 0;
  list_pages(200, 8);
  EXPECT_EQ(finish({}), 200U);
  EXPECT_EQ(asked_, 0U);
}

TEST_F(MidpointLoaderTest, PassesPagesThatStayInTheCycleInWhichTheyCome) {
  list_pages(kKeptPages, 8);
  EXPECT_EQ(finish({}), kKeptPages);
  EXPECT_EQ(asked_, 0U);
}

TEST_F(MidpointLoaderTest, HidesTheLatencyOfMemory) {
  constexpr unsigned kPages = 200, kLatency = 400;
  list_pages(kPages, 8);
  const std::uint64_t cycles = finish({.latency = kLatency});
  EXPECT_LE(cycles, kPages * kPageBursts + kLatency + 20);
}

TEST_F(MidpointLoaderTest, AsksForNoMorePagesThanThereAreFrames) {
  list_pages(200, 8);
  for (unsigned i = 0; i < 3000; ++i) cycle({.user = i < 10 ? 8U : 0U, .overs = 0});
  EXPECT_EQ(asked_, kFrames);
  finish({});
  EXPECT_EQ(asked_, 200 - kKeptPages);
}

TEST_F(MidpointLoaderTest, TellsOfTheFirstPageWithPoison) {
  for (const bool faults : {false, true}) {
    SCOPED_TRACE(faults ? "outside scratch memory" : "poison");
    list_pages(100, 8);
    (faults ? fault_ : poison_) = 37;
    finish({.beats = 5});
    EXPECT_TRUE(loader_->poisoned_o);
    EXPECT_EQ(loader_->poisoned_page_o, 37);
    // Until the next command, and whatever comes after.
    list_pages(100, 8);
    (faults ? fault_ : poison_) = 20;
    finish({});
    EXPECT_EQ(loader_->poisoned_page_o, 37);
    loader_->clear_i = 1;
    loader_.tick();
    loader_->clear_i = 0;
    loader_.settle();
    EXPECT_FALSE(loader_->poisoned_o);
    fault_.reset();
    poison_.reset();
  }
}

TEST_F(MidpointLoaderTest, ForgetsPagesThatAreCutOff) {
  for (unsigned i = 0; i < 40; ++i) {
    SCOPED_TRACE(test::case_name(i));
    list_pages(150, 7);
    const unsigned cycles = test::pick(random_, 1, 600);
    for (unsigned k = 0; k < cycles; ++k) cycle({.user = 4, .overs = 1});
    ASSERT_FALSE(HasFailure());
    forget();
    loader_->page_valid_i = loader_->beat_valid_i = loader_->over_i = 0;
    loader_->clear_i = 1;
    loader_.tick();
    loader_->clear_i = 0;
    list_pages(150, 7);
    finish({});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
