// nkv_code_top against the largest power of two of the gained elements, counted in whole numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "Vnkv_code_top.h"
#include "code_tables.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kLatency = 9;
constexpr unsigned kHighBits = 11;  // Of significands of 24.

struct Element {
  int exponent;
  unsigned high;  // 0, or its first bit is set.
  int gain;
};

class Top : public Simulation<Vnkv_code_top> {
 public:
  Top() { reset(); }

  /// A word; what X the words since the tensor's first one have.
  void send(const std::array<Element, kLanes>& word, bool first, int* top, bool* any) {
    if (first) *any = false;
    for (unsigned i = 0; i < kLanes; ++i) {
      (*this)->exponent_i[i] = static_cast<std::uint8_t>(word[i].exponent);
      (*this)->high_i[i] = static_cast<std::uint16_t>(word[i].high);
      (*this)->gain_i[i] = static_cast<std::uint8_t>(word[i].gain);
      if (word[i].high == 0) continue;
      const std::int64_t gained = (std::int64_t{word[i].high} << (24 - kHighBits)) *
                                  model::octave_table()[static_cast<size_t>(word[i].gain & 15)];
      const int own =
          word[i].exponent + (word[i].gain >> 4) + (gained >= std::int64_t{1} << 35 ? 1 : 0);
      *top = *any ? std::max(*top, own) : own;
      *any = true;
    }
    (*this)->valid_i = 1;
    (*this)->first_i = first;
    tick();
    (*this)->valid_i = 0;
  }

  int said() {
    ticks(kLatency - 1);
    return static_cast<int>((*this)->top_o << 22) >> 22;
  }
};

Element any_element(test::Random& random) {
  if (random() % 4 == 0) return {0, 0, static_cast<int>(random() % 256) - 128};
  return {.exponent = static_cast<int>(test::pick(random, 1, 254)),
          .high = 1u << (kHighBits - 1) | test::pick(random, 0, 1023),
          .gain = static_cast<int>(random() % 256) - 128};
}

TEST(CodeTopTest, AnyElements) {
  test::Random random = test::case_random(1);
  Top unit;
  for (unsigned i = 0; i < 3000; ++i) {
    int top = 0;
    bool any = false;
    const unsigned words = test::pick(random, 1, 6);
    // One octave of gains and exponents, so that what carries decides.
    const bool close = random() % 2 == 0;
    for (unsigned word = 0; word < words; ++word) {
      std::array<Element, kLanes> elements;
      for (auto& element : elements) {
        element = any_element(random);
        if (random() % 8 != 0 && i % 3 == 0) element.high = 0;
        if (!close || element.high == 0) continue;
        element.exponent = 128;
        element.gain &= 15;
      }
      unit.send(elements, word == 0, &top, &any);
      while (random() % 4 == 0) unit.tick();
    }
    ASSERT_EQ(unit.said(), any ? top : 0);
  }
}

TEST(CodeTopTest, WhereAProductReachesTheNextOctave) {
  Top unit;
  for (int gain = 0; gain < 16; ++gain) {
    for (unsigned high = 1024; high < 2048; ++high) {
      int top = 0;
      bool any = false;
      std::array<Element, kLanes> word{};
      word[high % kLanes] = {.exponent = 100, .high = high, .gain = gain};
      unit.send(word, true, &top, &any);
      ASSERT_EQ(unit.said(), top) << high << " by gain " << gain;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
