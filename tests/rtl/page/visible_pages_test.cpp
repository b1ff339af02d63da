// nkv_visible_pages against the model's rule of visibility.
#include <gtest/gtest.h>

#include <vector>

#include "Vnkv_visible_pages.h"
#include "nkv_abi.h"
#include "page_list.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

struct Visit {
  unsigned page;
  model::TokenMask tokens;
  bool operator==(const Visit&) const = default;
};

class VisiblePagesTest : public ::testing::Test {
 protected:
  VisiblePagesTest() { pages_.reset(); }

  void start(const model::Visibility& visibility) {
    pages_->tokens_i = visibility.tokens;
    pages_->window_i = visibility.window;
    pages_->sinks_i = static_cast<std::uint8_t>(visibility.sinks);
    pages_->start_i = 1;
    pages_->visit_ready_i = 0;
    pages_.tick();
    pages_->start_i = 0;
  }

  void expect_visits(const model::Visibility& visibility, unsigned pace) {
    SCOPED_TRACE(::testing::Message() << "tokens " << visibility.tokens << ", window "
                                      << visibility.window << ", sinks " << visibility.sinks);
    std::vector<Visit> expected, visits;
    for (unsigned page = 0; page < kListPages; ++page) {
      const model::TokenMask tokens = visibility.of_page(page);
      if (tokens != 0) expected.push_back({page, tokens});
    }
    start(visibility);
    unsigned cycles = 0;
    while (!pages_->done_o) {
      ASSERT_LT(++cycles, 20 * kListPages);
      pages_->visit_ready_i = is_willing(random_, pace);
      pages_.settle();
      if (pages_->visit_valid_o && pages_->visit_ready_i) {
        visits.push_back({pages_->visit_page_o, pages_->visit_tokens_o});
      }
      pages_.tick();
    }
    ASSERT_EQ(visits, expected);
    const unsigned listed = visibility.tokens / NKV_PAGE_TOKENS + 3;
    ASSERT_LE(cycles, pace == 8 ? listed : 20 * kListPages);
  }

  Simulation<Vnkv_visible_pages> pages_;
  test::Random random_ = test::case_random(1);
};

TEST_F(VisiblePagesTest, FollowTheRuleAtEveryEdge) {
  for (const unsigned tokens : {0u, 1u, 63u, 64u, 65u, 127u, 128u, 129u, 300u, 32767u, 32768u,
                                kListTokens - 1, kListTokens}) {
    for (const unsigned window : {0u, 1u, 63u, 64u, 65u, 128u, 32767u, 32768u, kListTokens, ~0u}) {
      for (const unsigned sinks : {0u, 1u, 63u, 64u, 65u, 128u, 255u}) {
        expect_visits({.tokens = tokens, .window = window, .sinks = sinks}, 8);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(VisiblePagesTest, FollowTheRuleAtEveryPace) {
  for (const unsigned pace : kPaces) {
    for (unsigned i = 0; i < 100; ++i) {
      const unsigned tokens = test::pick(random_, 0, 3000);
      expect_visits({.tokens = tokens,
                     .window = test::pick(random_, 0, 3000),
                     .sinks = test::pick(random_, 0, 255)},
                    pace);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(VisiblePagesTest, ClearEndsThem) {
  start({.tokens = 1000, .window = 0, .sinks = 0});
  EXPECT_TRUE(pages_->visit_valid_o);
  pages_->clear_i = 1;
  pages_.tick();
  pages_->clear_i = 0;
  pages_.settle();
  EXPECT_TRUE(pages_->done_o);
  EXPECT_FALSE(pages_->visit_valid_o);
  expect_visits({.tokens = 200, .window = 70, .sinks = 1}, 8);
}

}  // namespace
}  // namespace nearkv::rtl_test
