// nkv_page_feed over an nkv_page_set: the pages in sight in list order, each with the tokens of a
// set.
#include <gtest/gtest.h>

#include <vector>

#include "Vnkv_page_feed_bench.h"
#include "nkv_abi.h"
#include "page_list.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

enum class Take : std::uint8_t { kVisible, kSet, kVisibleAndNotInSet };

struct Visit {
  unsigned page;
  model::TokenMask tokens;
  std::uint16_t step_exponent;
  bool any_set;
  bool operator==(const Visit&) const = default;
};

class PageFeedTest : public ::testing::Test {
 protected:
  struct Stored {
    model::TokenMask visible;
    model::TokenMask set;
    std::uint32_t crc;
    std::uint16_t step_exponent;
  };

  PageFeedTest() : stored_(kListPages) {
    feed_.reset();
    for (std::uint16_t page = 0; page < kListPages; ++page) store(page);
  }

  void store(std::uint16_t page) {
    const model::TokenMask tokens = random_(), nonfinite = random_() & random_();
    Stored& stored = stored_[page];
    stored = {tokens & ~nonfinite, random_() % 4 == 0 ? 0 : random_(),
              static_cast<std::uint32_t>(random_()), static_cast<std::uint16_t>(random_())};
    feed_->scanned_i = feed_->set_i = 1;
    feed_->body_page_i = feed_->set_tokens_page_i = page;
    feed_->body_tokens_i = tokens;
    feed_->body_nonfinite_i = nonfinite;
    feed_->body_crc_hot_i = stored.crc;
    feed_->body_k_step_exponent_i = stored.step_exponent;
    feed_->set_tokens_tokens_i = stored.set;
    feed_.tick();
    feed_->scanned_i = feed_->set_i = 0;
  }

  model::TokenMask tokens_of(unsigned page, Take take) const {
    const Stored& stored = stored_[page];
    if (take == Take::kSet) return stored.set;
    return take == Take::kVisible ? stored.visible : stored.visible & ~stored.set;
  }

  void expect_visits(const model::Visibility& visibility, Take take, unsigned pace) {
    std::vector<Visit> expected, visits;
    for (unsigned page = 0; page < kListPages; ++page) {
      if (visibility.of_page(page) == 0) continue;
      expected.push_back(
          {page, tokens_of(page, take), stored_[page].step_exponent, stored_[page].set != 0});
    }
    feed_->tokens_i = visibility.tokens;
    feed_->window_i = visibility.window;
    feed_->sinks_i = static_cast<std::uint8_t>(visibility.sinks);
    feed_->take_visible_i = take != Take::kSet;
    feed_->take_set_i = take != Take::kVisible;
    feed_->start_i = 1;
    feed_->ready_i = 0;
    feed_.tick();
    feed_->start_i = 0;
    ASSERT_EQ(feed_->pages_o, expected.size());
    for (unsigned cycles = 0; !feed_->done_o; ++cycles) {
      ASSERT_LT(cycles, 40u * kListPages);
      feed_->ready_i = is_willing(random_, pace);
      feed_.settle();
      if (feed_->valid_o && feed_->ready_i) {
        visits.push_back({feed_->visit_page_o, feed_->visit_tokens_o, feed_->step_exponent_o,
                          feed_->any_set_o != 0});
      }
      feed_.tick();
    }
    ASSERT_EQ(visits, expected);
  }

  Simulation<Vnkv_page_feed_bench> feed_;
  test::Random random_ = test::case_random(1);
  std::vector<Stored> stored_;
};

TEST_F(PageFeedTest, GoesOverThePagesInSightWithEachSet) {
  for (const unsigned pace : kPaces) {
    for (const Take take : {Take::kVisible, Take::kSet, Take::kVisibleAndNotInSet}) {
      for (unsigned i = 0; i < 20; ++i) {
        const unsigned tokens = test::pick(random_, 0, i < 18 ? 3000 : kListTokens);
        expect_visits({.tokens = tokens,
                       .window = test::pick(random_, 0, tokens),
                       .sinks = test::pick(random_, 0, 200)},
                      take, pace);
        if (HasFatalFailure()) return;
        for (unsigned k = 0; k < 5; ++k) store(static_cast<std::uint16_t>(random_() % kListPages));
      }
    }
  }
}

TEST_F(PageFeedTest, KeepsTheChecksumOfEachPage) {
  for (std::uint16_t page = 0; page < kListPages; ++page) {
    feed_->crc_page_i = page;
    feed_.tick();
    ASSERT_EQ(feed_->crc_hot_o, stored_[page].crc);
  }
}

TEST_F(PageFeedTest, ClearEndsIt) {
  feed_->tokens_i = 1000;
  feed_->start_i = 1;
  feed_.tick();
  feed_->start_i = 0;
  feed_->clear_i = 1;
  feed_.ticks(2);
  feed_->clear_i = 0;
  feed_.settle();
  EXPECT_TRUE(feed_->done_o);
  EXPECT_FALSE(feed_->valid_o);
  expect_visits({.tokens = 200, .window = 70, .sinks = 1}, Take::kSet, 8);
}

}  // namespace
}  // namespace nearkv::rtl_test
