// One shard of the index: block hashes to holders, read without locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "holder_word.hpp"

namespace nearkv::router {

/// A multiplicative bijection of 64 bits: hashes may be numbers in a row, places must not be. Its
/// high bits choose the shard, those below the place in it.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t hash) {
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93;
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93;
  return hash ^ hash >> 32;
}

/// Open addressing in 16-byte slots, of a size that never changes. A slot's hash is written once
/// and stays when its block has no holder any more, so that a reader needs no second look: whoever
/// finds the hash reads the holders in one load. Slots of blocks without holders go when the table
/// is copied into another.
///
/// Thread safety: any number of readers beside one writer.
class BlockTable {
 public:
  /// With `slots` at least 1. std::bad_alloc where there is no memory.
  explicit BlockTable(std::size_t slots)
      : slot_count_(slots), slots_(std::make_unique<Slot[]>(slots)) {}

  [[nodiscard]] static std::size_t bytes_of(std::size_t slots) {
    return sizeof(BlockTable) + slots * sizeof(Slot);
  }

  void prefetch(std::uint64_t place) const { __builtin_prefetch(&slots_[home(place)]); }

  /// What a block stands under: no hash may be 0. 0 and the greatest hash are thus taken for one.
  [[nodiscard]] static constexpr std::uint64_t key_of(std::uint64_t hash) {
    return hash == kNoHash ? ~kNoHash : hash;
  }

  /// Empty for a block that nobody has. `hash` is a key_of, `place` is mixed(hash).
  [[nodiscard]] HolderWord find(std::uint64_t hash, std::uint64_t place) const {
    const Slot* const slot = slot_of(hash, place);
    return HolderWord(slot == nullptr ? 0 : slot->holders.load(std::memory_order_seq_cst));
  }

  /// Replaces the holders of a block, which takes a new slot if it never had any. False, and
  /// nothing changed, where no slot may be taken any more: copy the table.
  [[nodiscard]] bool put(std::uint64_t hash, std::uint64_t place, HolderWord holders);

  /// Calls visit(hash, holders) for each block that has holders.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < slot_count_; ++i) {
      const HolderWord holders(slots_[i].holders.load(std::memory_order_relaxed));
      if (!holders.empty()) visit(slots_[i].hash.load(std::memory_order_relaxed), holders);
    }
  }

  [[nodiscard]] std::size_t blocks() const { return blocks_; }  ///< Those that have holders.
  [[nodiscard]] std::size_t slots() const { return slot_count_; }

 private:
  static constexpr std::uint64_t kNoHash = 0;

  struct Slot {
    std::atomic<std::uint64_t> hash = kNoHash;
    std::atomic<std::uint64_t> holders = 0;
  };

  [[nodiscard]] std::size_t home(std::uint64_t place) const {
    constexpr int kShardBits = 8;
    return static_cast<std::size_t>((place << kShardBits >> 32) * slot_count_ >> 32);
  }
  [[nodiscard]] const Slot* slot_of(std::uint64_t hash, std::uint64_t place) const;
  [[nodiscard]] std::size_t most() const { return slot_count_ - slot_count_ / 4; }

  std::size_t slot_count_;
  std::size_t used_ = 0;  ///< Slots that have a hash.
  std::size_t blocks_ = 0;
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace nearkv::router
