// nkv_code_store: words of one and of two granules, at any place, against a plain row of bytes.
#include <gtest/gtest.h>

#include <vector>

#include "Vnkv_code_store.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

// The module's parameters.
constexpr unsigned kBanks = 32;
constexpr unsigned kBursts = 16;
constexpr unsigned kGranules = kBanks * kBursts;

TEST(CodeStoreTest, WordsAtAnyPlace) {
  test::Random random = test::case_random(1);
  Simulation<Vnkv_code_store> store;
  std::vector<std::uint16_t> kept(kGranules);
  const auto put = [&](unsigned at, bool two) {
    const auto granules = static_cast<std::uint32_t>(random());
    store->valid_i = 1;
    store->two_i = two;
    store->at_i = static_cast<std::uint16_t>(at);
    store->granule_i = granules;
    store.tick();
    store->valid_i = 0;
    kept[at] = static_cast<std::uint16_t>(granules);
    if (two) kept[(at + 1) % kGranules] = static_cast<std::uint16_t>(granules >> 16);
  };
  for (unsigned at = 0; at < kGranules; at += 2) put(at, true);
  for (unsigned i = 0; i < 5000; ++i) {
    put(test::pick(random, 0, kGranules - 1), random() % 2 == 0);
    const unsigned burst = test::pick(random, 0, kBursts - 1);
    store->index_i = static_cast<std::uint8_t>(burst);
    store.settle();
    for (unsigned granule = 0; granule < kBanks; ++granule) {
      const std::uint32_t word = store->burst_o[granule / 2];
      ASSERT_EQ(word >> granule % 2 * 16 & 0xffff, kept[burst * kBanks + granule]);
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
