// nkv_code_divide: quotients of any pairs, what overflows, and division by zero.
#include <gtest/gtest.h>

#include <algorithm>

#include "Vnkv_code_divide.h"
#include "pipe.hpp"

namespace nearkv::rtl_test {
namespace {

// The module's parameters.
constexpr unsigned kLeftBits = 25;
constexpr unsigned kRightBits = 22;
constexpr unsigned kQuotientBits = 15;
constexpr std::uint32_t kMost = (1u << kQuotientBits) - 1;

class Divide : public Pipe<Vnkv_code_divide, std::uint32_t> {
 public:
  Divide() : Pipe(kQuotientBits) {}

  void send(std::uint32_t left, std::uint32_t right) {
    (*this)->left_i = left;
    (*this)->right_i = right;
    send_expecting(right == 0 ? kMost : std::min(left / right, kMost));
  }

 private:
  void check(const std::uint32_t& expected) override { ASSERT_EQ((*this)->quotient_o, expected); }
};

TEST(CodeDivideTest, AnyPairs) {
  test::Random random = test::case_random(1);
  Divide divide;
  for (unsigned i = 0; i < 200000; ++i) {
    // Of every length, so that quotients are.
    const auto left =
        static_cast<std::uint32_t>(random()) >> (32 - test::pick(random, 1, kLeftBits));
    const auto right =
        static_cast<std::uint32_t>(random()) >> (32 - test::pick(random, 1, kRightBits));
    divide.send(left, right);
    if (random() % 8 == 0) divide.cycle();
    if (testing::Test::HasFatalFailure()) return;
  }
  divide.drain();
}

TEST(CodeDivideTest, EndsOfTheRange) {
  Divide divide;
  constexpr std::uint32_t kLeft = (1u << kLeftBits) - 1;
  for (const std::uint32_t right : {0u, 1u, 2u, 1023u, 1024u, 1025u, (1u << kRightBits) - 1}) {
    for (const std::uint32_t left : {0u, 1u, kMost, kMost + 1, kLeft - 1, kLeft}) {
      divide.send(left, right);
      // Quotients on both sides of a whole one.
      const std::uint64_t whole = std::uint64_t{right} * (kMost / 3);
      if (whole > 0 && whole <= kLeft) {
        divide.send(static_cast<std::uint32_t>(whole), right);
        divide.send(static_cast<std::uint32_t>(whole - 1), right);
      }
    }
  }
  divide.drain();
}

}  // namespace
}  // namespace nearkv::rtl_test
