// Keys to records, by fingerprint.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <utility>
#include <vector>

#include "object/fingerprint_table.hpp"
#include "object/shared_mutex.hpp"

namespace nearkv {

/// Which record holds a key. Fingerprints of different keys may be equal, so every search takes
/// match(record), which compares the keys. It runs under the lock of the fingerprint's shard: while
/// it runs, the record stays in the index, so it may pin the record for later. match must not call
/// the index.
///
/// Memory: 8.9 to 10.7 bytes per key from some ten thousand keys on, and 32 KiB.
///
/// Thread safety: every call but load may come from any thread. Readers of a shard share its lock,
/// so that find's match may run for several of them at once; insert, replace and erase have it to
/// themselves. A growing shard stops nobody but its own callers.
class FlatIndex {
 public:
  static constexpr std::uint32_t kNoRecord = FingerprintTable::kNone;
  static constexpr std::size_t kShards = 256;

  struct Entry {
    std::uint64_t fingerprint = 0;
    std::uint32_t record = kNoRecord;
  };

  FlatIndex() : shards_(std::make_unique<Shard[]>(kShards)) {}

  /// Whether two records, of which the fingerprints' low halves are equal, are of one key.
  using SameKey = std::function<bool(std::uint32_t, std::uint32_t)>;

  /// Adds many records to an empty index. Of those of one key, the last; the others are returned.
  /// Without `same_key` all keys differ. Not beside other calls.
  std::vector<std::uint32_t> load(std::span<const Entry> entries, const SameKey& same_key = {});

  /// Asks for the memory that a search starts in.
  void prefetch(std::uint64_t fingerprint) const {
    const Shard& home = shard(fingerprint);
    const std::shared_lock lock(home.mutex);
    home.table.prefetch(FingerprintTable::tag(fingerprint));
  }

  /// The record for which match(record) holds.
  template <typename Match>
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t fingerprint, Match&& match) const {
    const Shard& home = shard(fingerprint);
    const std::shared_lock lock(home.mutex);
    const std::uint32_t* const found =
        home.table.find(FingerprintTable::tag(fingerprint), std::forward<Match>(match));
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }

  /// find for many, their cache misses overlapped: records[i] becomes that of fingerprints[i] for
  /// which match(i, record) holds, or kNoRecord. Before that, touch(record) is called for what
  /// match will probably be asked about, under the same lock, to prefetch it. Records may have
  /// changed between two answers.
  template <typename Touch, typename Match>
  void find_batch(std::span<const std::uint64_t> fingerprints, Touch touch, Match match,
                  std::span<std::uint32_t> records) const {
    for (std::size_t begin = 0; begin < fingerprints.size(); begin += kInFlight) {
      const std::size_t end = std::min(begin + kInFlight, fingerprints.size());
      for (std::size_t i = begin; i < end; ++i) prefetch(fingerprints[i]);
      for (std::size_t i = begin; i < end; ++i) {
        const auto probable = [&](std::uint32_t record) {
          touch(record);
          return true;
        };
        records[i] = find(fingerprints[i], probable).value_or(kNoRecord);
      }
      for (std::size_t i = begin; i < end; ++i) {
        if (records[i] == kNoRecord) continue;
        const auto matches = [&](std::uint32_t record) { return match(i, record); };
        records[i] = find(fingerprints[i], matches).value_or(kNoRecord);
      }
    }
  }

  /// Adds `record` unless match holds for one that is there: that one is returned instead.
  template <typename Match>
  [[nodiscard]] std::optional<std::uint32_t> insert(std::uint64_t fingerprint, std::uint32_t record,
                                                    Match&& match) {
    const std::uint32_t tag = FingerprintTable::tag(fingerprint);
    Shard& home = shard(fingerprint);
    const std::unique_lock lock(home.mutex);
    const std::uint32_t* const found = home.table.find(tag, std::forward<Match>(match));
    if (found != nullptr) return *found;
    home.table.insert(tag, record);
    return std::nullopt;
  }

  /// Puts `record` in the place of the one for which match holds, which is returned.
  template <typename Match>
  [[nodiscard]] std::optional<std::uint32_t> replace(std::uint64_t fingerprint,
                                                     std::uint32_t record, Match&& match) {
    Shard& home = shard(fingerprint);
    const std::unique_lock lock(home.mutex);
    std::uint32_t* const found =
        home.table.find(FingerprintTable::tag(fingerprint), std::forward<Match>(match));
    return found != nullptr ? std::optional(std::exchange(*found, record)) : std::nullopt;
  }

  /// Removes the record for which match holds and returns it. No find is in its match meanwhile, so
  /// match can refuse a record that has been pinned.
  template <typename Match>
  std::optional<std::uint32_t> erase(std::uint64_t fingerprint, Match&& match) {
    Shard& home = shard(fingerprint);
    const std::unique_lock lock(home.mutex);
    const std::uint32_t* const found =
        home.table.find(FingerprintTable::tag(fingerprint), std::forward<Match>(match));
    if (found == nullptr) return std::nullopt;
    const std::uint32_t record = *found;
    home.table.erase(found);
    return record;
  }

  /// Sums over the shards, one after the other.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::size_t kInFlight = 16;  ///< Cache misses that a core can wait for at once.

  struct alignas(128) Shard {  // Two lines: processors fetch lines in pairs.
    mutable SharedMutex mutex;
    FingerprintTable table;
  };

  // The table uses the low half of the fingerprint, so that the shard must be told by the high one.
  [[nodiscard]] static std::size_t shard_of(std::uint64_t fingerprint) { return fingerprint >> 56; }
  [[nodiscard]] const Shard& shard(std::uint64_t fingerprint) const {
    return shards_[shard_of(fingerprint)];
  }
  [[nodiscard]] Shard& shard(std::uint64_t fingerprint) { return shards_[shard_of(fingerprint)]; }

  std::unique_ptr<Shard[]> shards_;
};

}  // namespace nearkv
