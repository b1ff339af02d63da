// nkv_word_packer: words become bursts one after the other, a last word ends its burst.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "Vnkv_word_packer.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kWords = NKV_BURST_BYTES / 4;

class WordPackerTest : public ::testing::Test {
 protected:
  WordPackerTest() { packer_.reset(); }

  // Runs of words, each ended by a last one, from an address on.
  void expect_packed(std::uint64_t address, const std::vector<unsigned>& runs, unsigned word_pace,
                     unsigned write_pace) {
    std::deque<std::vector<std::uint32_t>> expected;
    std::deque<std::pair<std::uint32_t, bool>> words;
    for (const unsigned run : runs) {
      for (unsigned i = 0; i < run; ++i) {
        if (i % kWords == 0) expected.emplace_back();
        expected.back().push_back(static_cast<std::uint32_t>(random_()));
        words.emplace_back(expected.back().back(), i + 1 == run);
      }
    }
    packer_->start_i = 1;
    packer_->address_i = address;
    packer_->word_valid_i = 0;
    packer_.tick();
    packer_->start_i = 0;
    for (cycles_ = 0; !expected.empty(); ++cycles_) {
      ASSERT_LT(cycles_, 20000u);
      packer_->word_valid_i = !words.empty() && is_willing(random_, word_pace);
      if (!words.empty()) {
        packer_->word_i = words.front().first;
        packer_->word_last_i = words.front().second;
      }
      packer_->write_ready_i = is_willing(random_, write_pace);
      packer_.settle();
      if (packer_->write_valid_o && packer_->write_ready_i) {
        const std::vector<std::uint32_t>& burst = expected.front();
        ASSERT_EQ(packer_->write_address_o, address);
        ASSERT_EQ(packer_->write_strobes_o,
                  ~std::uint64_t{0} >> (NKV_BURST_BYTES - 4 * burst.size()));
        for (std::size_t i = 0; i < burst.size(); ++i) {
          ASSERT_EQ(packer_->write_data_o[i], burst[i]);
        }
        address += NKV_BURST_BYTES;
        expected.pop_front();
      }
      if (packer_->word_valid_i && packer_->word_ready_o) words.pop_front();
      packer_.tick();
    }
    packer_->word_valid_i = 0;
    packer_.settle();
    ASSERT_TRUE(packer_->idle_o);
    ASSERT_TRUE(words.empty());
  }

  test::Random random_ = test::case_random(1);
  Simulation<Vnkv_word_packer> packer_;
  unsigned cycles_ = 0;
};

TEST_F(WordPackerTest, FillsBurstsAtEveryPace) {
  for (const unsigned word_pace : kPaces) {
    for (const unsigned write_pace : kPaces) {
      std::vector<unsigned> runs;
      for (unsigned words = 1; words <= 3 * kWords; ++words) runs.push_back(words);
      expect_packed(random_() / NKV_BURST_BYTES * NKV_BURST_BYTES / 2, runs, word_pace, write_pace);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(WordPackerTest, TakesAWordPerCycle) {
  expect_packed(0, {100 * kWords}, 8, 8);
  EXPECT_LE(cycles_, 100 * kWords + 1);
}

TEST_F(WordPackerTest, StartForgetsWhatIsHeld) {
  packer_->word_valid_i = 1;
  packer_.ticks(5);
  EXPECT_FALSE(packer_->idle_o);
  expect_packed(64, {20}, 8, 8);
}

}  // namespace
}  // namespace nearkv::rtl_test
