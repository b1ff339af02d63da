// What a store finds again after it was closed, and what is gone for good.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "object/every_store.hpp"

namespace nearkv::test {
namespace {

/// Whether a file holds a text anywhere.
bool file_holds(const std::filesystem::path& path, const std::string& text) {
  std::ifstream file(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return all.find(text) != std::string::npos;
}

class ReopenedStoreTest : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(In, ReopenedStoreTest, testing::Values("cpu", "file"),
                         [](const auto& place) { return place.param; });

TEST_P(ReopenedStoreTest, FindsEverythingAgainAfterItWasClosed) {
  const TemporaryFile file("objects");
  const std::string uri = GetParam() + ":" + file.path().string() + "?memory=32MiB&huge=off";
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  ASSERT_EQ(ObjectStore::open(uri, {}, &store, &reason), Status::kBadPool);
  ASSERT_EQ(ObjectStore::create(uri, {}, &store, &reason), Status::kOk) << reason;
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(engine(), &space), Status::kOk);
  for (std::uint64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(set(store.get(), space, key_of(i), contents(i, 1000 * i + 1)), Status::kOk);
  }
  for (std::uint64_t i = 0; i < 50; i += 7) {
    ASSERT_EQ(erase(store.get(), space, key_of(i)), Status::kOk);
  }
  const std::uint64_t used_bytes = store->stats().used_bytes;
  store.reset();
  ASSERT_EQ(ObjectStore::open(uri, {}, &store, &reason), Status::kOk) << reason;
  std::uint32_t again = 99;
  ASSERT_EQ(store->open_namespace(engine(), &again), Status::kOk);
  EXPECT_EQ(again, space);
  EXPECT_EQ(store->stats().used_bytes, used_bytes);
  for (std::uint64_t i = 0; i < 50; ++i) {
    Bytes found;
    const Status status = get(store.get(), space, key_of(i), &found);
    ASSERT_EQ(status, i % 7 == 0 ? Status::kNotFound : Status::kOk);
    if (status == Status::kOk) {
      EXPECT_EQ(found, contents(i, 1000 * i + 1));
    }
  }
}

TEST_P(ReopenedStoreTest, MayBeClosedWhileItMovesObjects) {
  const TemporaryFile file("compacted");
  const std::string uri = GetParam() + ":" + file.path().string() + "?memory=32MiB&huge=off";
  std::unique_ptr<ObjectStore> store;
  ASSERT_EQ(ObjectStore::create(uri, {}, &store), Status::kOk);
  std::uint32_t space = 0;
  for (std::uint64_t round = 0; round < 5; ++round) {
    ASSERT_EQ(store->open_namespace(engine(), &space), Status::kOk);
    for (std::uint64_t i = 0; i < 150; ++i) {
      ASSERT_EQ(set(store.get(), space, key_of(i), contents(i, 100000)), Status::kOk);
    }
    for (std::uint64_t i = 0; i < 150; ++i) {
      if (i % 3 != round % 3) (void)erase(store.get(), space, key_of(i));
    }
    store.reset();
    ASSERT_EQ(ObjectStore::open(uri, {}, &store), Status::kOk);
    EXPECT_EQ(store->stats().torn, 0U);
    for (std::uint64_t i = round % 3; i < 150; i += 3) {
      Bytes found;
      ASSERT_EQ(get(store.get(), space, key_of(i), &found), Status::kOk) << i;
      ASSERT_EQ(found, contents(i, 100000)) << i;
    }
  }
}

TEST_P(ReopenedStoreTest, APrefixEndsBeforeABlockWhoseRecordIsOfAnotherKey) {
  const TemporaryFile file("prefix");
  const std::string uri = GetParam() + ":" + file.path().string() + "?memory=32MiB&huge=off";
  std::unique_ptr<ObjectStore> store;
  ASSERT_EQ(ObjectStore::create(uri, {}, &store), Status::kOk);
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(engine(), &space), Status::kOk);
  const Batch chain(20);
  ASSERT_NO_FATAL_FAILURE(set_chain(store.get(), space, chain, 5000));
  ASSERT_EQ(store->match_prefix(space, chain.keys), 20U);
  // As if the two keys had one fingerprint, which nobody can arrange: the record is changed.
  std::fstream pool(file.path(), std::ios::binary | std::ios::in | std::ios::out);
  const std::string all((std::istreambuf_iterator<char>(pool)), std::istreambuf_iterator<char>());
  for (const std::size_t block : {std::size_t{19}, std::size_t{18}}) {
    const auto* const name = reinterpret_cast<const char*>(chain.keys[block].data());
    const std::size_t at = all.find(std::string(name, chain.keys[block].size()));
    ASSERT_NE(at, std::string::npos);
    pool.clear();
    pool.seekp(static_cast<std::streamoff>(at));
    pool.put(static_cast<char>(all[at] ^ 1)).flush();
    EXPECT_EQ(store->match_prefix(space, chain.keys), block);
  }
}

TEST_P(ReopenedStoreTest, WhatATenantWantsWipedIsGoneFromTheMediumWithTheObject) {
  const TemporaryFile file("wiped");
  const std::string uri = GetParam() + ":" + file.path().string() + "?memory=32MiB&huge=off";
  std::unique_ptr<ObjectStore> store;
  ASSERT_EQ(ObjectStore::create(uri, {}, &store), Status::kOk);
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(engine(), &space), Status::kOk);
  const std::string kept = "what nobody asked to be wiped";
  const std::string secret = "the prompt that nobody else may read";
  ASSERT_EQ(set(store.get(), space, key_of(1), bytes_of(kept)), Status::kOk);
  ASSERT_EQ(store->set_wipe(1, true), Status::kOk);
  ASSERT_EQ(set(store.get(), space, key_of(2), bytes_of(secret)), Status::kOk);
  EXPECT_TRUE(file_holds(file.path(), secret));
  ASSERT_EQ(erase(store.get(), space, key_of(1)), Status::kOk);
  ASSERT_EQ(erase(store.get(), space, key_of(2)), Status::kOk);
  EXPECT_EQ(store->stats().used_bytes, 0U);
  store.reset();
  EXPECT_TRUE(file_holds(file.path(), kept)) << "the test would not see what is there";
  EXPECT_FALSE(file_holds(file.path(), secret));
}

}  // namespace
}  // namespace nearkv::test
