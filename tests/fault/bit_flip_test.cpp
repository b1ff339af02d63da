// Bits flip anywhere in a pool: never wrong data, and only what was hit is lost.
#include <gtest/gtest.h>

#include <cstring>

#include "fault/store_world.hpp"
#include "nkv_abi.h"
#include "support/environment.hpp"
#include "support/fault_report.hpp"

namespace nearkv::test {
namespace {

std::uint64_t trials() { return by_size(800, 20000); }

struct World {
  std::vector<std::byte> memory;
  nkv_pool_header header{};  ///< As it was before any bit flipped.
  Held held{};
};

World make_world() {
  World world{std::vector<std::byte>(kWorldBytes)};
  const auto store = create_world(world.memory, Persistence::make(Durability::kNone));
  Random random = case_random(0);
  for (int step = 0; step < 60; ++step) run_step(store.get(), random_step(random));
  std::string wrong;
  world.held = look(store.get(), &wrong);
  EXPECT_EQ(wrong, "");
  EXPECT_GT(world.held.size(), 10U);
  std::memcpy(&world.header, world.memory.data(), sizeof(world.header));
  return world;
}

/// Where to flip: anywhere, or in one of the places on which much depends.
std::size_t place(const World& world, Random& random) {
  const nkv_pool_header& header = world.header;
  const auto in = [&](std::uint64_t begin, std::uint64_t bytes) {
    return begin + random() % bytes;
  };
  switch (random() % 5) {
    case 0:
      return in(0, sizeof(nkv_pool_header));
    case 1:
      return in(header.slabs_at, header.slabs * sizeof(nkv_slab_record));
    case 2:
      return in(header.namespaces_at, 2 * header.max_namespaces * sizeof(nkv_namespace_record));
    case 3:
      return in(header.objects_at, header.max_objects * sizeof(nkv_object_record));
    default:
      return in(0, world.memory.size());
  }
}

TEST(BitFlipTest, AWrongBitCostsAtMostTheObjectThatItHit) {
  const World world = make_world();
  std::uint64_t survived = 0;
  std::uint64_t hit = 0;
  for (std::uint64_t trial = 0; trial < trials(); ++trial) {
    SCOPED_TRACE(case_name(trial));
    Random random = case_random(trial);
    std::vector<std::byte> memory = world.memory;
    const std::size_t at = place(world, random);
    memory[at] ^= static_cast<std::byte>(1U << random() % 8);
    std::string wrong;
    const auto store = open_world(memory, &wrong);
    ASSERT_NE(store, nullptr) << "byte " << at << ": " << wrong;
    std::size_t missing = 0;
    for (const auto& [name, seed] : world.held) {
      Bytes found;
      const Status status = get(store.get(), name.first, key_of(name.second), &found);
      if (status == Status::kOk) {
        std::uint64_t found_seed = 0;
        std::memcpy(&found_seed, found.data(), sizeof(found_seed));
        ASSERT_EQ(found_seed, seed) << "byte " << at;
      } else {
        ASSERT_TRUE(status == Status::kNotFound || status == Status::kCorrupt);
        ++missing;
      }
    }
    ASSERT_LE(missing, 1U) << "byte " << at;
    look(store.get(), &wrong);
    ASSERT_EQ(wrong, "") << "byte " << at;
    hit += missing;
    ++survived;
  }
  EXPECT_GT(hit, trials() / 20) << "the flips hit next to nothing";
  report_fault("bit flip anywhere in a closed pool", trials(), survived, 0);
}

TEST(BitFlipTest, AWrongBitUnderAnOpenStoreIsNeverGivenOut) {
  std::uint64_t survived = 0;
  for (std::uint64_t trial = 0; trial < trials() / 8; ++trial) {
    SCOPED_TRACE(case_name(trial));
    World world = make_world();
    std::string wrong;
    const auto store = open_world(world.memory, &wrong);
    ASSERT_NE(store, nullptr) << wrong;
    Random random = case_random(trial);
    for (int flips = 0; flips < 4; ++flips) {
      world.memory[place(world, random)] ^= static_cast<std::byte>(1U << random() % 8);
    }
    std::size_t missing = 0;
    for (const auto& [name, seed] : world.held) {
      Bytes found;
      const Status status = get(store.get(), name.first, key_of(name.second), &found);
      if (status != Status::kOk) {
        ++missing;
        // A key whose load failed is gone: nobody asks for it in vain again.
        ASSERT_FALSE(exists(store.get(), name.first, key_of(name.second)));
      }
    }
    ASSERT_LE(missing, 4U);
    look(store.get(), &wrong);
    ASSERT_EQ(wrong, "");
    for (int step = 0; step < 20; ++step) run_step(store.get(), random_step(random));
    look(store.get(), &wrong);
    ASSERT_EQ(wrong, "");
    ++survived;
  }
  report_fault("bit flip under an open store", survived, survived, 0);
}

}  // namespace
}  // namespace nearkv::test
