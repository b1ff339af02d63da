// Objects at rest: what a thief of the medium reads, and what a forger of it can make believed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "support/checksum.hpp"
#include "support/objects.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

Namespace engine(std::uint16_t tenant) {
  Namespace name;
  name.tenant = tenant;
  name.model = "llama";
  return name;
}

class SealedStoreTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    write_key(key_.path(), 1);
    write_key(other_key_.path(), 2);
    std::string reason;
    ASSERT_EQ(ObjectStore::create(uri(), options(key_), &store_, &reason), Status::kOk) << reason;
    ASSERT_EQ(store_->open_namespace(engine(1), &space_), Status::kOk);
  }

  static void write_key(const std::filesystem::path& path, char fill) {
    std::ofstream(path, std::ios::binary) << std::string(32, fill);
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  }

  [[nodiscard]] std::string uri() const {
    return GetParam() + ":" + file_.path().string() + "?memory=32MiB&huge=off";
  }

  static ObjectStore::Options options(const TemporaryFile& key) {
    ObjectStore::Options options;
    options.seal_key_file = key.path();
    options.defragment_above = 0;  // Nothing moves but what a test moves.
    return options;
  }

  /// Closes the store and takes the medium up again.
  void reopen(const ObjectStore::Options& options) {
    store_.reset();
    std::string reason;
    ASSERT_EQ(ObjectStore::open(uri(), options, &store_, &reason), Status::kOk) << reason;
    ASSERT_EQ(store_->open_namespace(engine(1), &space_), Status::kOk);
  }

  [[nodiscard]] std::string medium() const {
    std::ifstream file(file_.path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void write_medium(const std::string& bytes) const {
    std::ofstream(file_.path(), std::ios::binary | std::ios::in) << bytes;
  }

  TemporaryFile file_{"sealed_store"};
  TemporaryFile key_{"sealed_store_key"};
  TemporaryFile other_key_{"sealed_store_other_key"};
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
};

INSTANTIATE_TEST_SUITE_P(In, SealedStoreTest, testing::Values("cpu", "file"),
                         [](const auto& place) { return place.param; });

constexpr std::string_view kSecret = "the prompt that no thief of the medium may read";

TEST_P(SealedStoreTest, NothingOfTheBytesIsOnTheMedium) {
  ASSERT_EQ(set(store_.get(), space_, key_of(1), bytes_of(std::string(kSecret))), Status::kOk);
  const std::string twice = std::string(kSecret) + std::string(kSecret);
  Job in_parts;
  in_parts.parts = 2;
  ASSERT_EQ(set(store_.get(), space_, key_of(2), bytes_of(twice), in_parts), Status::kOk);
  store_.reset();
  EXPECT_EQ(medium().find(kSecret), std::string::npos);

  ASSERT_EQ(ObjectStore::create(uri(), {}, &store_), Status::kOk);
  ASSERT_EQ(store_->open_namespace(engine(1), &space_), Status::kOk);
  ASSERT_EQ(set(store_.get(), space_, key_of(1), bytes_of(std::string(kSecret))), Status::kOk);
  store_.reset();
  EXPECT_NE(medium().find(kSecret), std::string::npos) << "the test would not see what is there";
}

TEST_P(SealedStoreTest, WhoHasTheKeyFindsEverythingAgain) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, 10000 * i + 1)), Status::kOk);
  }
  ASSERT_NO_FATAL_FAILURE(reopen(options(key_)));
  for (std::uint64_t i = 0; i < 50; ++i) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, key_of(i), &found), Status::kOk);
    EXPECT_EQ(found, contents(i, 10000 * i + 1));
  }
}

TEST_P(SealedStoreTest, PartsAreOpenedAlone) {
  const Bytes data = contents(1, 8 * 4096);
  Job in_parts;
  in_parts.parts = 8;
  ASSERT_EQ(set(store_.get(), space_, key_of(1), data, in_parts), Status::kOk);
  for (std::uint16_t part = 0; part < 8; ++part) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, key_of(1), &found, 4096, part, 1), Status::kOk);
    EXPECT_TRUE(std::ranges::equal(found, std::span(data).subspan(part * 4096, 4096)));
  }
}

TEST_P(SealedStoreTest, MorePartsThanBytesAreFine) {
  Job in_parts;
  in_parts.parts = 4;
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 5), in_parts), Status::kOk);
  Bytes found;
  ASSERT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, contents(1, 5));
  ASSERT_EQ(get(store_.get(), space_, key_of(1), &found, 5, 3, 1), Status::kOk);
  EXPECT_TRUE(found.empty());
}

TEST_P(SealedStoreTest, PartsThatComeOneByOneAreSealed) {
  const Bytes data = contents(1, 4 * 4096);
  for (std::uint16_t part = 0; part < 4; ++part) {
    ASSERT_EQ(set_parts(store_.get(), space_, key_of(1), data, 4, part, 1), Status::kOk);
  }
  ASSERT_NO_FATAL_FAILURE(reopen(options(key_)));
  Bytes found;
  ASSERT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, data);
}

TEST_P(SealedStoreTest, WithoutTheKeyOrWithAnotherObjectsStayAndAreDenied) {
  const Bytes data = contents(1, 100000);
  ASSERT_EQ(set(store_.get(), space_, key_of(1), data), Status::kOk);
  for (const ObjectStore::Options& other : {ObjectStore::Options(), options(other_key_)}) {
    ASSERT_NO_FATAL_FAILURE(reopen(other));
    Bytes found;
    EXPECT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kDenied);
    EXPECT_TRUE(exists(store_.get(), space_, key_of(1)));
    VerifyProgress progress;
    ASSERT_EQ(store_->verify(0, 1 << 20, &progress), Status::kOk);
    EXPECT_EQ(progress.objects, 1U);
    EXPECT_EQ(progress.damaged, 0U);
  }
  ASSERT_NO_FATAL_FAILURE(reopen(options(key_)));
  Bytes found;
  EXPECT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, data);
}

TEST_P(SealedStoreTest, WhatWasStoredPlainIsStillRead) {
  store_.reset();
  ASSERT_EQ(ObjectStore::create(uri(), {}, &store_), Status::kOk);
  ASSERT_EQ(store_->open_namespace(engine(1), &space_), Status::kOk);
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 5000)), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(reopen(options(key_)));
  Bytes found;
  EXPECT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, contents(1, 5000));
}

TEST_P(SealedStoreTest, AFlippedBitIsDamageAsInAnyObject) {
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 5000)), Status::kOk);
  store_.reset();
  std::string bytes = medium();
  nkv_pool_header header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  nkv_object_record record{};
  std::size_t at = header.objects_at;
  do {
    std::memcpy(&record, bytes.data() + at, sizeof(record));
    at += sizeof(record);
  } while (record.state != NKV_OBJECT_STATE_LIVE);
  bytes[std::size_t{record.extent_first[0]} * NKV_OBJECT_GRAIN_BYTES + 4000] ^= 1;
  write_medium(bytes);
  ASSERT_NO_FATAL_FAILURE(reopen(options(key_)));
  Bytes found;
  EXPECT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kCorrupt);
  EXPECT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kNotFound);
}

TEST_P(SealedStoreTest, AForgerWithoutTheKeyCannotGiveOneObjectsBytesToAnother) {
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 5000)), Status::kOk);
  ASSERT_EQ(set(store_.get(), space_, key_of(2), contents(2, 5000)), Status::kOk);
  store_.reset();
  std::string bytes = medium();
  nkv_pool_header header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::vector<std::size_t> places;
  std::vector<nkv_object_record> records;
  for (std::size_t at = header.objects_at; records.size() < 2; at += sizeof(nkv_object_record)) {
    nkv_object_record record{};
    std::memcpy(&record, bytes.data() + at, sizeof(record));
    if (record.state != NKV_OBJECT_STATE_LIVE) continue;
    records.push_back(record);
    places.push_back(at);
  }
  // Every checksum is right: the forger knows how to make those.
  std::swap(records[0].extent_first[0], records[1].extent_first[0]);
  std::swap(records[0].payload_crc, records[1].payload_crc);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::size_t covered = offsetof(nkv_object_record, generation);
    records[i].crc = checksum(std::as_bytes(std::span(&records[i], 1)).subspan(covered));
    std::memcpy(bytes.data() + places[i], &records[i], sizeof(records[i]));
  }
  write_medium(bytes);
  ASSERT_NO_FATAL_FAILURE(reopen(options(key_)));
  for (const std::uint64_t key : {1U, 2U}) {
    Bytes found;
    EXPECT_EQ(get(store_.get(), space_, key_of(key), &found), Status::kDenied);
  }
}

TEST_P(SealedStoreTest, DefragmentationMovesWhatItCannotRead) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, 100000)), Status::kOk);
  }
  for (std::uint64_t i = 0; i < 200; ++i) {
    if (i % 10 != 0) {
      ASSERT_EQ(erase(store_.get(), space_, key_of(i)), Status::kOk);
    }
  }
  ObjectStore::Options without_key;
  without_key.defragment_above = 0;
  ASSERT_NO_FATAL_FAILURE(reopen(without_key));
  std::uint64_t moved_bytes = 0;
  ASSERT_EQ(store_->defragment(64 << 20, &moved_bytes), Status::kOk);
  EXPECT_GT(moved_bytes, 0U);
  ASSERT_NO_FATAL_FAILURE(reopen(options(key_)));
  for (std::uint64_t i = 0; i < 200; i += 10) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, key_of(i), &found), Status::kOk);
    EXPECT_EQ(found, contents(i, 100000));
  }
}

TEST(SealedStoreKeyTest, AKeyThatOthersCanReadIsRefused) {
  const TemporaryFile key("sealed_store_open_key");
  std::ofstream(key.path(), std::ios::binary) << std::string(32, 'k');
  std::filesystem::permissions(
      key.path(), std::filesystem::perms::owner_all | std::filesystem::perms::others_read);
  ObjectStore::Options options;
  options.seal_key_file = key.path();
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  EXPECT_EQ(ObjectStore::create("cpu:?memory=8MiB", options, &store, &reason),
            Status::kBadArgument);
  EXPECT_NE(reason.find("0600"), std::string::npos) << reason;
}

}  // namespace
}  // namespace nearkv::test
