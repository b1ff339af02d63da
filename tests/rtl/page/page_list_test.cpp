// nkv_page_list: lists of any length that begin anywhere in a burst, looked up in any order.
#include "page_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "Vnkv_page_list.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kBurstEntries = NKV_BURST_BYTES / sizeof(nkv_page_entry);

// From the last burst until the largest exponents are known.
constexpr unsigned kCompareCycles = 4;

class PageListTest : public ::testing::Test {
 protected:
  PageListTest() { list_.reset(); }

  std::vector<nkv_page_entry> any_entries(unsigned count) {
    std::vector<nkv_page_entry> entries(count);
    // One in a while has the largest exponent, so that each place is that of the largest.
    for (auto& entry : entries) {
      entry = std::bit_cast<nkv_page_entry>(random_());
      entry.k_exponent %= 200;
      entry.v_exponent %= 200;
    }
    if (count != 0) {
      entries[random_() % count].k_exponent = 201;
      entries[random_() % count].v_exponent = 202;
    }
    return entries;
  }

  // Loads a list that begins `skip` entries into a burst; garbage stands around it.
  void load(const std::vector<nkv_page_entry>& entries, unsigned skip, unsigned poisoned_burst,
            unsigned pace) {
    const std::uint64_t address = test::pick(random_, 0, 1000) * 64 + skip * sizeof(nkv_page_entry);
    const std::size_t bursts = (skip + entries.size() + kBurstEntries - 1) / kBurstEntries;
    std::vector<nkv_page_entry> stored((bursts + 1) * kBurstEntries);
    for (auto& entry : stored) entry = std::bit_cast<nkv_page_entry>(~std::uint64_t{0});
    std::ranges::copy(entries, stored.begin() + skip);

    list_->load_i = 1;
    list_->address_i = address;
    list_->entries_i = static_cast<std::uint16_t>(entries.size());
    list_->request_ready_i = 0;
    list_.tick();
    list_->load_i = 0;
    ASSERT_EQ(list_->loaded_o, entries.empty());
    if (entries.empty()) return;
    list_.ticks(test::pick(random_, 0, 2));
    ASSERT_TRUE(list_->request_valid_o);
    ASSERT_EQ(list_->request_address_o / 64, address / 64);
    ASSERT_EQ(list_->request_bursts_o, bursts);
    list_->request_ready_i = 1;
    list_.tick();
    ASSERT_FALSE(list_->request_valid_o);
    for (std::size_t burst = 0; burst < bursts;) {
      ASSERT_FALSE(list_->loaded_o);
      list_->beat_valid_i = is_willing(random_, pace);
      list_->beat_last_i = burst + 1 == bursts;
      list_->beat_poison_i = burst == poisoned_burst;
      std::memcpy(list_->beat_data_i.data(), &stored[burst * kBurstEntries], NKV_BURST_BYTES);
      if (list_->beat_valid_i) ++burst;
      list_.tick();
    }
    list_->beat_valid_i = 0;
    ASSERT_TRUE(list_.tick_until([&] { return list_->loaded_o != 0; }, kCompareCycles));
    ASSERT_EQ(list_->poisoned_o, poisoned_burst < bursts);
  }

  void expect_entries(const std::vector<nkv_page_entry>& entries) {
    const model::ListExponents exponents = model::list_exponents(entries);
    ASSERT_EQ(int{list_->k_exponent_o}, exponents.key);
    ASSERT_EQ(int{list_->v_exponent_o}, exponents.value);
    std::vector<unsigned> order(entries.size());
    for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::shuffle(order, random_);
    for (const unsigned page : order) {
      list_->page_i = static_cast<std::uint16_t>(page);
      list_.tick();
      ASSERT_EQ(list_->entry_o, std::bit_cast<std::uint64_t>(entries[page])) << "entry " << page;
    }
  }

  Simulation<Vnkv_page_list> list_;
  test::Random random_ = test::case_random(1);
};

constexpr unsigned kNoBurst = ~0u;

TEST_F(PageListTest, HoldsListsThatBeginAnywhereInABurst) {
  for (unsigned skip = 0; skip < kBurstEntries; ++skip) {
    for (const unsigned count : {0u, 1u, 7u, 8u, 9u, 100u, kListPages - 1, kListPages}) {
      const auto entries = any_entries(count);
      load(entries, skip, kNoBurst, kPaces[skip % 3]);
      expect_entries(entries);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(PageListTest, TellsPoisonOfAnyOfItsBurstsAndForgetsItWithTheNextList) {
  const auto entries = any_entries(40);
  for (unsigned burst = 0; burst < 5; ++burst) {
    load(entries, 0, burst, 8);
    load(entries, 0, kNoBurst, 8);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
