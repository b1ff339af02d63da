// The flat index against std::unordered_map, with fingerprints that collide more than chance
// allows.
#include "object/flat_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <unordered_map>
#include <vector>

#include "object/fingerprint.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using Key = std::uint32_t;

std::span<const std::byte> bytes(const Key& key) { return std::as_bytes(std::span(&key, 1)); }

/// How fingerprints are made of keys.
struct Fingerprints {
  const char* name;
  std::uint64_t (*of)(Key key);
};

constexpr std::uint64_t kTopShard = std::uint64_t{0xff} << 56;
constexpr Fingerprints kFingerprints[] = {
    {"Hashed", [](Key key) { return fingerprint(7, 1, bytes(key)); }},
    {"AllEqual", [](Key) { return ~std::uint64_t{0}; }},
    {"FewEqual", [](Key key) { return std::uint64_t{key % 5} << 54; }},
    {"OneShardInOrder", [](Key key) { return kTopShard | key; }},
    {"OneShardAtItsEnd", [](Key key) { return kTopShard | ~key; }},
    {"EqualTags", [](Key key) { return std::uint64_t{key} << 32 | 0x80000000; }},
};

class FlatIndexTest : public testing::TestWithParam<Fingerprints> {};

/// Record r holds keys[r].
auto is_key(const std::vector<Key>& keys, Key key) {
  return [&keys, key](std::uint32_t record) { return keys[record] == key; };
}

TEST_P(FlatIndexTest, AnswersAsAMapDoes) {
  for (std::uint64_t number = 0; number < 4; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const Key most = pick(random, 1, 600);
    FlatIndex index;
    std::unordered_map<Key, std::uint32_t> oracle;
    std::vector<Key> keys;
    for (int step = 0; step < 6000; ++step) {
      const Key key = pick(random, 0, most);
      const std::uint64_t hash = GetParam().of(key);
      const auto known = oracle.find(key);
      const std::optional<std::uint32_t> expected =
          known == oracle.end() ? std::nullopt : std::optional(known->second);
      const auto next = static_cast<std::uint32_t>(keys.size());
      switch (pick(random, 0, 3)) {
        case 0:
          keys.push_back(key);
          ASSERT_EQ(index.insert(hash, next, is_key(keys, key)), expected);
          if (!expected) oracle[key] = next;
          break;
        case 1:
          ASSERT_EQ(index.erase(hash, is_key(keys, key)), expected);
          oracle.erase(key);
          break;
        case 2:
          keys.push_back(key);
          ASSERT_EQ(index.replace(hash, next, is_key(keys, key)), expected);
          if (expected) oracle[key] = next;
          break;
        default:
          ASSERT_EQ(index.find(hash, is_key(keys, key)), expected);
      }
      ASSERT_EQ(index.size(), oracle.size());
    }
    for (Key key = 0; key <= most; ++key) {
      const auto known = oracle.find(key);
      ASSERT_EQ(index.find(GetParam().of(key), is_key(keys, key)).value_or(FlatIndex::kNoRecord),
                known == oracle.end() ? FlatIndex::kNoRecord : known->second);
    }
  }
}

TEST_P(FlatIndexTest, FindsAllThatWasLoadedAndNothingElse) {
  constexpr Key kKeys = 1500;
  std::vector<Key> keys;
  std::vector<FlatIndex::Entry> entries;
  for (Key key = 0; key < kKeys; ++key) {
    keys.push_back(2 * key);
    entries.push_back({GetParam().of(2 * key), key});
  }
  FlatIndex index;
  index.load(entries);
  EXPECT_EQ(index.size(), kKeys);
  std::vector<std::uint64_t> fingerprints;
  for (Key key = 0; key < 2 * kKeys; ++key) fingerprints.push_back(GetParam().of(key));
  std::vector<std::uint32_t> records(2 * kKeys);
  const auto match = [&](std::size_t i, std::uint32_t record) { return keys[record] == i; };
  index.find_batch(fingerprints, [](std::uint32_t) {}, match, records);
  for (Key key = 0; key < 2 * kKeys; ++key) {
    const std::uint32_t expected = key % 2 == 0 ? key / 2 : FlatIndex::kNoRecord;
    ASSERT_EQ(records[key], expected) << key;
    const auto found = index.find(GetParam().of(key), is_key(keys, key));
    ASSERT_EQ(found.value_or(FlatIndex::kNoRecord), expected) << key;
  }
}

TEST_P(FlatIndexTest, LoadKeepsTheLastRecordOfAKeyAndGivesBackTheOthers) {
  constexpr Key kKeys = 300;
  std::vector<Key> keys;
  std::vector<FlatIndex::Entry> entries;
  for (std::uint32_t record = 0; record < 2 * kKeys; ++record) {
    // The first third of the keys four times, the others once.
    keys.push_back(record < kKeys ? record : record % (kKeys / 3));
    entries.push_back({GetParam().of(keys.back()), record});
  }
  std::vector<std::uint32_t> earlier;
  for (std::uint32_t record = 0; record < 2 * kKeys; ++record) {
    if (std::find(keys.begin() + record + 1, keys.end(), keys[record]) != keys.end()) {
      earlier.push_back(record);
    }
  }
  FlatIndex index;
  std::vector<std::uint32_t> replaced = index.load(
      entries, [&](std::uint32_t one, std::uint32_t other) { return keys[one] == keys[other]; });
  std::ranges::sort(replaced);
  EXPECT_EQ(replaced, earlier);
  EXPECT_EQ(index.size(), kKeys);
  for (Key key = 0; key < kKeys; ++key) {
    const auto last = std::find(keys.rbegin(), keys.rend(), key);
    const auto found = index.find(GetParam().of(key), is_key(keys, key));
    ASSERT_EQ(found, static_cast<std::uint32_t>(keys.rend() - last) - 1) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(, FlatIndexTest, testing::ValuesIn(kFingerprints),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(FlatIndexUseTest, TakesNoMoreMemoryThanItStates) {
  constexpr Key kKeys = 100'000;
  FlatIndex grown;
  std::vector<FlatIndex::Entry> entries;
  for (Key key = 0; key < kKeys; ++key) {
    entries.push_back({fingerprint(1, 0, bytes(key)), key});
    const auto none = [](std::uint32_t) { return false; };
    ASSERT_EQ(grown.insert(entries.back().fingerprint, key, none), std::nullopt);
  }
  FlatIndex loaded;
  loaded.load(entries);
  for (const FlatIndex* const index : {&grown, &loaded}) {
    const auto slots = static_cast<double>(index->memory_bytes() - 32 * 1024);
    EXPECT_LT(slots / kKeys, 11.5);  // Small shards: their spill weighs more.
    EXPECT_GT(slots / kKeys, 8.0);
  }
}

TEST(FlatIndexUseTest, KeepsWhatMatchRefusesToErase) {
  FlatIndex index;
  const auto any = [](std::uint32_t) { return true; };
  ASSERT_EQ(index.insert(3, 9, any), std::nullopt);
  EXPECT_EQ(index.erase(3, [](std::uint32_t) { return false; }), std::nullopt);
  EXPECT_EQ(index.find(3, any), 9);
  EXPECT_EQ(index.erase(3, any), 9);
  EXPECT_EQ(index.find(3, any), std::nullopt);
}

TEST(FlatIndexUseTest, EraseWaitsForTheFindThatIsMatching) {
  FlatIndex index;
  ASSERT_EQ(index.insert(3, 9, [](std::uint32_t) { return false; }), std::nullopt);
  std::atomic<bool> erasing{false};
  std::atomic<bool> erased{false};
  std::thread eraser;
  const auto match = [&](std::uint32_t) {
    eraser = std::thread([&] {
      erasing = true;
      EXPECT_EQ(index.erase(3, [&](std::uint32_t) { return erased = true; }), 9);
    });
    while (!erasing) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return !erased;
  };
  EXPECT_EQ(index.find(3, match), 9);
  eraser.join();
  EXPECT_EQ(index.size(), 0);
}

TEST(FlatIndexUseTest, NoRecordIsErasedWhileItIsBeingMatched) {
  constexpr Key kKeys = 400;  // Shards grow meanwhile.
  constexpr int kRounds = 60;
  FlatIndex index;
  std::vector<std::atomic<bool>> indexed(kKeys);
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> found{0};
  const auto hash = [](Key key) { return kFingerprints[0].of(key) & ~(std::uint64_t{0x7f} << 57); };
  const auto write = [&](Key first) {
    for (int round = 0; round < kRounds; ++round) {
      for (Key key = first; key < kKeys; key += 2) {
        indexed[key] = true;
        EXPECT_EQ(index.insert(hash(key), key, [](std::uint32_t) { return false; }), std::nullopt);
      }
      for (Key key = first; key < kKeys; key += 2) {
        const auto unmark = [&](std::uint32_t record) {
          if (record == key) indexed[record] = false;
          return record == key;
        };
        EXPECT_EQ(index.erase(hash(key), unmark), key);
      }
    }
  };
  const auto read = [&] {
    for (Key key = 0; !stop; key = (key + 1) % kKeys) {
      index.prefetch(hash(key));
      const auto match = [&](std::uint32_t record) {
        EXPECT_TRUE(indexed[record]);
        return record == key;
      };
      if (index.find(hash(key), match)) ++found;
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) readers.emplace_back(read);
  std::thread other(write, 1);
  write(0);
  other.join();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(index.size(), 0);
}

TEST(FingerprintTest, DependsOnKeyNamespaceAndSeed) {
  const Key a = 1;
  const Key b = 2;
  EXPECT_EQ(fingerprint(5, 6, bytes(a)), fingerprint(5, 6, bytes(a)));
  EXPECT_NE(fingerprint(5, 6, bytes(a)), fingerprint(5, 6, bytes(b)));
  EXPECT_NE(fingerprint(5, 6, bytes(a)), fingerprint(5, 7, bytes(a)));
  EXPECT_NE(fingerprint(5, 6, bytes(a)), fingerprint(6, 6, bytes(a)));
  EXPECT_NE(fingerprint(5, 6, bytes(a)), fingerprint(6, 5, bytes(a)));
  EXPECT_NE(fingerprint(5, 6, bytes(a)), fingerprint(5, 6, {}));
}

}  // namespace
}  // namespace nearkv::test
