// nkv_code_sign_set against the model's: every run, pages at the ends of sequences.
#include <gtest/gtest.h>

#include "Vnkv_code_sign_set.h"
#include "simulation.hpp"
#include "transform.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr std::uint32_t kPlaces = 1u << 26;
constexpr unsigned kLatency = 27;

TEST(CodeSignSetTest, PagesOfEveryRun) {
  test::Random random = test::case_random(1);
  Simulation<Vnkv_code_sign_set> unit;
  unit->start_i = 0;
  unit.reset();
  for (std::uint32_t run = 1; run < 256; ++run) {
    const std::uint32_t any = test::pick(random, 0, kPlaces - 1);
    for (const std::uint32_t place : {0u, run - 1, run, 16 * run - 1, 16 * run, any, kPlaces - 1}) {
      unit->start_i = 1;
      unit->place_i = place;
      unit->run_i = static_cast<std::uint8_t>(run);
      unit.tick();
      unit->start_i = 0;
      ASSERT_TRUE(unit.tick_until([&] { return unit->done_o != 0; }, kLatency));
      ASSERT_EQ(unit->sign_set_o, model::sign_set_of(place, run)) << place << " by runs of " << run;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
