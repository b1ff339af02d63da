// nkv_array_verify: tells the arrays whose checksum is wrong or that hold poison, and no others.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <vector>

#include "Vnkv_array_verify.h"
#include "crc32c.hpp"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

struct Array {
  std::vector<std::byte> bytes;
  std::uint32_t crc = 0;
  std::size_t poisoned_burst = ~std::size_t{0};
  std::uint32_t index = 0;
  std::uint8_t failure = NKV_STATUS_OK;

  [[nodiscard]] std::size_t bursts() const {
    return (bytes.size() + NKV_BURST_BYTES - 1) / NKV_BURST_BYTES;
  }
};

class ArrayVerifyTest : public ::testing::Test {
 protected:
  ArrayVerifyTest() {
    verify_->expect_valid_i = verify_->beat_valid_i = 0;
    verify_.reset();
  }

  Array any_array() {
    Array array;
    array.bytes.resize(random_() % 8 == 0 ? 0 : 4 * test::pick(random_, 1, 200));
    for (auto& byte : array.bytes) byte = static_cast<std::byte>(random_());
    array.crc = model::crc32c(array.bytes);
    array.index = test::pick(random_, 0, (1 << 20) - 1);
    if (random_() % 4 == 0) {
      array.crc ^= 1u << random_() % 32;
      array.failure = NKV_STATUS_CORRUPT;
    }
    if (random_() % 4 == 0 && !array.bytes.empty()) {
      array.poisoned_burst = random_() % array.bursts();
      array.failure = NKV_STATUS_POISON;
    }
    return array;
  }

  // Streams arrays, each expected before its first burst, some of them far ahead.
  void stream(std::deque<Array> arrays, unsigned pace) {
    std::deque<Array> due, failures;
    std::size_t burst = 0, ahead = 0;
    for (const Array& array : arrays) {
      if (array.failure != NKV_STATUS_OK) failures.push_back(array);
    }
    for (unsigned idle = 0, cycles = 0; idle < 60; ++cycles) {
      ASSERT_LT(cycles, 100000u);
      verify_->expect_valid_i = !arrays.empty() && due.size() < ahead + 1 && random_() % 2;
      if (verify_->expect_valid_i) {
        verify_->expect_nothing_i = arrays.front().bytes.empty();
        verify_->expect_crc_i = arrays.front().crc;
        verify_->expect_index_i = arrays.front().index;
      }
      while (!due.empty() && due.front().bytes.empty()) due.pop_front();
      verify_->beat_valid_i = !due.empty() && is_willing(random_, pace);
      if (verify_->beat_valid_i) {
        const Array& array = due.front();
        const std::size_t at = burst * NKV_BURST_BYTES;
        const std::size_t count = std::min<std::size_t>(NKV_BURST_BYTES, array.bytes.size() - at);
        for (auto& word : verify_->beat_data_i.m_storage) word = static_cast<unsigned>(random_());
        std::memcpy(verify_->beat_data_i.data(), &array.bytes[at], count);
        verify_->beat_first_i = burst == 0;
        verify_->beat_last_i = burst + 1 == array.bursts();
        verify_->beat_tag_last_bytes_i =
            static_cast<std::uint8_t>((array.bytes.size() - 1) % NKV_BURST_BYTES + 1);
        verify_->beat_poison_i = burst == array.poisoned_burst;
      }
      verify_.settle();
      const bool expects = verify_->expect_valid_i && verify_->expect_ready_o;
      const bool beats = verify_->beat_valid_i;
      const bool ends = beats && verify_->beat_last_i;
      verify_.tick();
      if (expects) {
        due.push_back(arrays.front());
        arrays.pop_front();
        ahead = random_() % 4 == 0 ? random_() % 60 : ahead;
      }
      if (beats) ++burst;
      if (ends) {
        due.pop_front();
        burst = 0;
      }
      if (verify_->failed_o) {
        ASSERT_FALSE(failures.empty()) << "an array that is whole";
        ASSERT_EQ(int{verify_->failure_status_o}, int{failures.front().failure});
        ASSERT_EQ(verify_->failure_index_o, failures.front().index);
        failures.pop_front();
      }
      idle = arrays.empty() && due.empty() ? idle + 1 : 0;
      ASSERT_FALSE(verify_->idle_o && !due.empty() && !due.front().bytes.empty());
    }
    ASSERT_TRUE(failures.empty()) << failures.size() << " were not told";
    ASSERT_TRUE(verify_->idle_o);
  }

  Simulation<Vnkv_array_verify> verify_;
  test::Random random_ = test::case_random(1);
};

TEST_F(ArrayVerifyTest, TellsWhatIsWrongAtEveryPace) {
  for (const unsigned pace : kPaces) {
    std::deque<Array> arrays;
    for (unsigned i = 0; i < 400; ++i) arrays.push_back(any_array());
    stream(arrays, pace);
    if (HasFatalFailure()) return;
  }
}

TEST_F(ArrayVerifyTest, ClearForgetsWhatIsExpected) {
  verify_->expect_valid_i = 1;
  verify_->expect_nothing_i = 0;
  verify_.ticks(3);
  EXPECT_FALSE(verify_->idle_o);
  verify_->expect_valid_i = 0;
  verify_->clear_i = 1;
  verify_.tick();
  verify_->clear_i = 0;
  verify_.settle();
  EXPECT_TRUE(verify_->idle_o);
  std::deque<Array> arrays;
  for (unsigned i = 0; i < 50; ++i) arrays.push_back(any_array());
  stream(arrays, 8);
}

}  // namespace
}  // namespace nearkv::rtl_test
