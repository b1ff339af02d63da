// nkv_product_array, generic and of a technology: keys and values in any order, with gaps.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <deque>

#include "Vnkv_product_array.h"
#include "simulation.hpp"
#include "support/seed.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kLanes = 32;
constexpr unsigned kProducts = kRows * kLanes;
constexpr unsigned kLatency = 5;
constexpr unsigned kQueryPlace = 11;
constexpr unsigned kProductBits = 62;

/// Of as many bits; its ends and 0 more often than the rest.
std::int64_t random_signed(test::Random& random, unsigned bits) {
  const std::int64_t largest = (std::int64_t{1} << (bits - 1)) - 1;
  switch (random() % 8) {
    case 0:
      return 0;
    case 1:
      return largest;
    case 2:
      return -largest;
    default: {
      const auto magnitude = static_cast<std::int64_t>(random()) & largest;
      return random() % 2 == 0 ? magnitude : -magnitude;
    }
  }
}

struct Word {
  std::uint64_t cycle;
  bool is_key;
  std::array<std::int64_t, kProducts> product;
};

class Array : public Simulation<Vnkv_product_array> {
 public:
  Array() {
    (*this)->valid_i = 0;
    reset();
  }

  void send(test::Random& random) {
    Word word{.cycle = cycles() + kLatency, .is_key = random() % 2 == 0, .product = {}};
    std::array<std::int64_t, kLanes> left;
    for (unsigned i = 0; i < kLanes; ++i) {
      left[i] = random_signed(random, word.is_key ? 27 : 25);
      (*this)->left_i[i] = static_cast<std::uint32_t>(left[i]) & 0x7ffffff;
    }
    for (unsigned row = 0; row < kRows; ++row) {
      std::int64_t factor = random_signed(random, 35);
      if (word.is_key) factor &= -(std::int64_t{1} << kQueryPlace);
      (*this)->factor_i[row] = static_cast<std::uint64_t>(factor) & 0x7ffffffff;
      for (unsigned i = 0; i < kLanes; ++i) {
        const std::int64_t query = random_signed(random, 24);
        (*this)->query_i[row * kLanes + i] = static_cast<std::uint32_t>(query) & 0xffffff;
        const std::int64_t right = word.is_key ? query << kQueryPlace : factor;
        word.product[row * kLanes + i] = left[i] * right;
      }
    }
    if (word.is_key) {
      for (unsigned i = 0; i < kProducts; i += 2) word.product[i + 1] += word.product[i];
    }
    (*this)->is_key_i = word.is_key;
    (*this)->valid_i = 1;
    sent_.push_back(word);
    cycle();
    (*this)->valid_i = 0;
  }

  void cycle() {
    tick();
    if (sent_.empty() || sent_.front().cycle != cycles()) return;
    const Word& word = sent_.front();
    for (unsigned i = word.is_key ? 1 : 0; i < kProducts; i += word.is_key ? 2 : 1) {
      const auto product = static_cast<std::int64_t>((*this)->product_o[i] << (64 - kProductBits));
      ASSERT_EQ(product >> (64 - kProductBits), word.product[i]) << "product " << i;
    }
    sent_.pop_front();
    ++compared_;
  }

  [[nodiscard]] unsigned compared() const { return compared_; }

 private:
  std::deque<Word> sent_;
  unsigned compared_ = 0;
};

TEST(ProductArray, MultipliesAndAddsPairs) {
  test::Random random = test::case_random(1);
  Array array;
  constexpr unsigned kWords = 4000;
  for (unsigned i = 0; i < kWords && !testing::Test::HasFatalFailure(); ++i) {
    while (random() % 4 == 0) array.cycle();
    array.send(random);
  }
  for (unsigned i = 0; i < kLatency; ++i) array.cycle();
  EXPECT_EQ(array.compared(), kWords);
}

}  // namespace
}  // namespace nearkv::rtl_test
