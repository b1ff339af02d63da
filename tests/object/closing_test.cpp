// Stores that are closed amid their jobs.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/eventually.hpp"
#include "support/objects.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<ObjectStore> store_at(const std::string& uri, bool create = true) {
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  EXPECT_EQ(create ? ObjectStore::create(uri, {}, &store, &reason)
                   : ObjectStore::open(uri, {}, &store, &reason),
            Status::kOk)
      << reason;
  return store;
}

std::uint32_t space_of(ObjectStore* store) {
  std::uint32_t space = 0;
  EXPECT_EQ(store->open_namespace({}, &space), Status::kOk);
  return space;
}

TEST(ClosingTest, WhatIsBeingCopiedFromMemoryOfTheStoreIsFinished) {
  constexpr std::size_t kObjects = 8;
  constexpr std::size_t kObjectBytes = 32 << 20;
  const TemporaryFile file("closing");
  const std::string uri = "cpu:" + file.path().string() + "?memory=320MiB";
  std::unique_ptr<ObjectStore> store = store_at(uri);
  const std::uint32_t space = space_of(store.get());
  std::span<std::byte> memory;
  ASSERT_EQ(store->allocate(kObjectBytes, &memory), Status::kOk);
  const Bytes expected = contents(1, kObjectBytes);
  std::ranges::copy(expected, memory.begin());
  Batch batch(kObjects);
  JobId id = 0;
  ASSERT_EQ(store->submit(batch.set_to(space, memory), &id), Status::kOk);
  ASSERT_TRUE(eventually([&] { return store->stats().used_bytes != 0; })) << "nobody has begun";
  store.reset();

  store = store_at(uri, false);
  for (const Bytes& name : batch.names) {
    Bytes found;
    ASSERT_EQ(get(store.get(), space, name, &found, kObjectBytes), Status::kOk);
    EXPECT_TRUE(found == expected);
  }
}

TEST(ClosingTest, ASetThatWaitsForRoomInAStackStillGetsIt) {
  constexpr std::size_t kObjectBytes = 1 << 20;
  constexpr seconds kPatience{20};
  const TemporaryFile file("closing");
  const std::string uri_below = "cpu:" + file.path().string() + "?memory=64MiB";
  std::vector<std::unique_ptr<ObjectStore>> tiers;
  tiers.push_back(store_at("cpu:?memory=8MiB"));
  tiers.push_back(store_at(uri_below));
  StackOptions options;
  options.patience = kPatience;
  options.high_watermark = 1;  // Nothing goes down but for those who wait.
  std::unique_ptr<ObjectStore> stack;
  ASSERT_EQ(ObjectStore::stack(std::move(tiers), options, &stack), Status::kOk);
  const std::uint32_t space = space_of(stack.get());
  const auto is_full = [&] {
    const ObjectStoreStats above = stack->tier_stats().front();
    return above.used_bytes + kObjectBytes > above.total_bytes;
  };
  std::uint64_t objects = 0;
  for (; !is_full(); ++objects) {
    const Bytes key = key_of(objects);
    ASSERT_EQ(set(stack.get(), space, key, contents(objects, kObjectBytes)), Status::kOk);
    const Key keys[] = {key};
    Status status = Status::kOk;
    ASSERT_NE(stack->pin(space, keys, milliseconds(500), std::span(&status, 1)), 0U);
  }
  const Bytes late = contents(objects, kObjectBytes);
  JobId id = 0;
  ASSERT_EQ(submit_set(stack.get(), space, key_of(objects), late, &id), Status::kOk);
  std::this_thread::sleep_for(milliseconds(100));  // A worker has it, and finds no room.
  const auto begin = std::chrono::steady_clock::now();
  stack.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
  EXPECT_GT(store_at(uri_below, false)->stats().recovered, 0U) << "nobody has made room";
}

}  // namespace
}  // namespace nearkv::test
