// nkv_burst_align against the bytes themselves, for every offset and at every pace of both sides.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "Vnkv_burst_align.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

class BurstAlignTest : public ::testing::Test {
 protected:
  BurstAlignTest() { align_.reset(); }

  // So many bytes from so many words on into their first burst; the cycles that it took.
  void expect_aligned(unsigned offset_words, unsigned bytes, unsigned in_pace, unsigned out_pace) {
    const unsigned in_bursts = (4 * offset_words + bytes + 63) / NKV_BURST_BYTES;
    const unsigned out_bursts = (bytes + 63) / NKV_BURST_BYTES;
    std::vector<std::uint32_t> source(16 * (in_bursts + 1));
    for (auto& word : source) word = static_cast<std::uint32_t>(random_());
    align_->start_i = 1;
    align_->offset_i = static_cast<std::uint8_t>(offset_words);
    align_->in_bursts_i = static_cast<std::uint16_t>(in_bursts);
    align_->out_bursts_i = static_cast<std::uint16_t>(out_bursts);
    align_->in_valid_i = 0;
    align_.tick();
    align_->start_i = 0;
    cycles_ = 0;
    for (unsigned in = 0, out = 0; in < in_bursts || out < out_bursts; ++cycles_) {
      ASSERT_LT(cycles_, 10000u);
      align_->in_valid_i = in < in_bursts && is_willing(random_, in_pace);
      align_->out_ready_i = is_willing(random_, out_pace);
      if (in < in_bursts) std::memcpy(align_->in_i.data(), &source[16 * in], NKV_BURST_BYTES);
      align_.settle();
      if (align_->out_valid_o && align_->out_ready_i) {
        ASSERT_LT(out, out_bursts);
        // Bytes behind the last one are whatever they are.
        const std::size_t count = std::min(bytes - 64 * out, NKV_BURST_BYTES + 0u);
        ASSERT_EQ(std::memcmp(align_->out_o.data(), &source[16 * out + offset_words], count), 0)
            << "burst " << out;
        ++out;
      }
      if (align_->in_valid_i && align_->in_ready_o) ++in;
      align_.tick();
    }
    align_->in_valid_i = 1;
    align_->out_ready_i = 1;
    align_.settle();
    ASSERT_FALSE(align_->in_ready_o);
    ASSERT_FALSE(align_->out_valid_o);
  }

  test::Random random_ = test::case_random(1);
  unsigned cycles_ = 0;

 private:
  Simulation<Vnkv_burst_align> align_;
};

TEST_F(BurstAlignTest, MovesBytesToTheStartOfBursts) {
  for (const unsigned in_pace : kPaces) {
    for (const unsigned out_pace : kPaces) {
      for (unsigned offset = 0; offset < 16; ++offset) {
        for (const unsigned bytes : {4u, 60u, 64u, 68u, 124u, 128u, 1000u}) {
          expect_aligned(offset, bytes, in_pace, out_pace);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(BurstAlignTest, TakesABurstPerCycle) {
  for (unsigned offset = 0; offset < 16; ++offset) {
    expect_aligned(offset, 6400, 8, 8);
    EXPECT_LE(cycles_, 102u);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
