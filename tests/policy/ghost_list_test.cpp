// Ghosts against a plain list of them.
#include "policy/ghost_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "support/seed.hpp"

namespace nearkv {
namespace {

using test::pick;

TEST(GhostListTest, AgreesWithAPlainList) {
  for (std::uint64_t number = 0; number < 4; ++number) {
    SCOPED_TRACE(test::case_name(number));
    test::Random random = test::case_random(number);
    GhostList ghosts;
    std::list<Ghost> plain;
    std::uint64_t bytes = 0;
    const auto expect_same = [&](const std::optional<Ghost>& got, auto expected) {
      ASSERT_EQ(got.has_value(), expected != plain.end());
      if (!got) return;
      EXPECT_EQ(got->fingerprint, expected->fingerprint);
      EXPECT_EQ(got->bytes, expected->bytes);
      bytes -= expected->bytes;
      plain.erase(expected);
    };
    const auto find = [&](std::uint64_t fingerprint) {
      return std::find_if(plain.begin(), plain.end(),
                          [&](const Ghost& ghost) { return ghost.fingerprint == fingerprint; });
    };
    // Grows, shrinks to nothing and grows again; fingerprints share their low or their high bits.
    for (int operation = 0; operation < 20000; ++operation) {
      const bool growing = operation / 2500 % 2 == 0;
      const std::uint64_t fingerprint = std::uint64_t{pick(random, 0, 700)} << (number * 18);
      if (pick(random, 0, 9) < (growing ? 8U : 2U)) {
        const Ghost ghost{.fingerprint = fingerprint, .bytes = pick(random, 1, 1000)};
        const auto replaced = ghosts.add(ghost);
        expect_same(replaced, find(fingerprint));
        plain.push_back(ghost);
        bytes += ghost.bytes;
      } else if (random() % 2 == 0) {
        const auto taken = ghosts.take(fingerprint);
        expect_same(taken, find(fingerprint));
      } else {
        const auto oldest = ghosts.take_oldest();
        expect_same(oldest, plain.begin());
      }
      ASSERT_EQ(ghosts.bytes(), bytes);
    }
    while (!plain.empty()) expect_same(ghosts.take_oldest(), plain.begin());
    EXPECT_FALSE(ghosts.take_oldest());
  }
}

}  // namespace
}  // namespace nearkv
