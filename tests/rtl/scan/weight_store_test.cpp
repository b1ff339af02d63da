// nkv_weight_store: what was folded of a page comes again, all rows at a time, in whatever order
// pages are wanted and however long the tables keep them waiting.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "Vnkv_weight_store.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Store = Simulation<Vnkv_weight_store>;
constexpr unsigned kRows = 8;
constexpr unsigned kLanes = 8;
using Step = std::array<std::array<unsigned, kLanes>, kRows>;

struct Page {
  std::vector<Step> weights;  // Word by word, 4 steps each.
  std::array<unsigned, kRows> sums{};
};

Page random_page(test::Random& random, unsigned words) {
  Page page;
  page.weights.resize(std::size_t{4} * words);
  for (Step& step : page.weights) {
    for (auto& row : step) {
      for (unsigned& weight : row) weight = static_cast<unsigned>(random() & 0xfff);
    }
  }
  for (unsigned& sum : page.sums) sum = static_cast<unsigned>(random() & 0x7ffff);
  return page;
}

void write(Store& store, unsigned number, const Page& page) {
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned i = 0; i < page.weights.size(); ++i) {
      store->write_i = 1;
      store->write_page_i = static_cast<std::uint16_t>(number);
      store->write_half_i = static_cast<std::uint8_t>(half);
      store->write_word_i = static_cast<std::uint8_t>(i / 4);
      store->write_step_i = static_cast<std::uint8_t>(i % 4);
      for (unsigned r = 0; r < kRows / 2; ++r) {
        for (unsigned lane = 0; lane < kLanes; ++lane) {
          store->write_weight_i[r][lane] =
              static_cast<std::uint16_t>(page.weights[i][4 * half + r][lane]);
        }
      }
      store.tick();
    }
  }
  store->write_i = 0;
  for (unsigned row = 0; row < kRows; ++row) {
    store->sum_write_i = 1;
    store->sum_page_i = static_cast<std::uint16_t>(number);
    store->sum_row_i = static_cast<std::uint8_t>(row);
    store->sum_i = page.sums[row];
    store.tick();
  }
  store->sum_write_i = 0;
}

struct Wanted {
  unsigned number = 0;
  unsigned slot = 0;
};

class WeightStoreTest : public testing::TestWithParam<unsigned> {};

TEST_P(WeightStoreTest, GivesAgainWhatWasFolded) {
  const unsigned words = GetParam();
  for (const unsigned pace : {8U, 3U}) {
    SCOPED_TRACE(testing::Message() << words << " words, pace " << pace);
    test::Random random = test::case_random(words);
    Store store;
    store.reset();
    store->words_i = static_cast<std::uint8_t>(words);
    std::vector<Page> pages;
    for (unsigned number = 0; number < kKeptPages; ++number) {
      pages.push_back(random_page(random, words));
      write(store, number, pages.back());
    }
    // Those behind them leave no trace.
    for (unsigned i = 0; i < 20; ++i) {
      const unsigned number = test::pick(random, kKeptPages, kListPages - 1);
      write(store, number, random_page(random, words));
    }
    std::deque<Wanted> wanted;
    for (unsigned i = 0; i < 200; ++i) {
      wanted.push_back({.number = test::pick(random, 0, kKeptPages - 1), .slot = i % 8});
    }
    std::deque<Wanted> weights_due = wanted;
    std::deque<Wanted> sums_due = wanted;
    unsigned begun = 0;
    unsigned step = 0;
    unsigned row = 0;
    std::uint64_t cycles = 0;
    while ((!weights_due.empty() || !sums_due.empty()) && cycles < 20'000) {
      store->page_valid_i = !wanted.empty() && is_willing(random, pace);
      if (!wanted.empty()) {
        store->page_i = static_cast<std::uint16_t>(wanted.front().number);
        store->page_slot_i = static_cast<std::uint8_t>(wanted.front().slot);
      }
      store->room_i = is_willing(random, pace);
      store.settle();
      if (store->page_valid_i && store->page_ready_o) wanted.pop_front();
      begun += store->begins_o;
      ASSERT_TRUE(!store->begins_o || store->room_i);
      if (store->weight_valid_o) {
        const Page& page = pages[weights_due.front().number];
        ASSERT_EQ(store->weight_word_o, step / 4);
        ASSERT_EQ(store->weight_step_o, step % 4);
        ASSERT_EQ(store->weight_last_o, step + 1 == page.weights.size());
        for (unsigned r = 0; r < kRows; ++r) {
          for (unsigned lane = 0; lane < kLanes; ++lane) {
            ASSERT_EQ(store->weight_o[r][lane], page.weights[step][r][lane])
                << "row " << r << " lane " << lane << " step " << step;
          }
        }
        if (store->weight_last_o) weights_due.pop_front();
        step = store->weight_last_o ? 0 : step + 1;
      }
      if (store->sum_valid_o) {
        const Wanted& page = sums_due.front();
        ASSERT_EQ(store->sum_slot_o, page.slot);
        ASSERT_EQ(store->sum_row_o, row);
        ASSERT_EQ(store->sum_o, pages[page.number].sums[row]);
        if (row + 1 == kRows) sums_due.pop_front();
        row = (row + 1) % kRows;
      }
      store.tick();
      ++cycles;
    }
    EXPECT_TRUE(weights_due.empty() && sums_due.empty());
    EXPECT_EQ(begun, 200U);
    // Pages follow each other without a gap.
    if (pace == 8) {
      EXPECT_LE(cycles, 200 * std::max(8U, 4 * words) + 4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Words, WeightStoreTest, testing::Values(1U, 2U, 3U, 4U));

}  // namespace
}  // namespace nearkv::rtl_test
