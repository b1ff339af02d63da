// A set of blocks of a bounded size, of which the least recently used leaves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "block_ids.hpp"

namespace nearkv::traces {

using scheduler::BlockHash;

/// What a tier holds. Nothing is ever pinned, so that a plain list keeps the order, in 8 bytes a
/// block. Thread safety: several readers or one writer.
class LruBlocks {
 public:
  explicit LruBlocks(std::uint64_t capacity_blocks) : capacity_blocks_(capacity_blocks) {
    constexpr std::uint64_t kMostReserved = 1 << 22;
    const std::uint64_t blocks = std::min(capacity_blocks, kMostReserved);
    ids_.reserve(blocks);
    links_.reserve(blocks);
  }

  [[nodiscard]] bool holds(BlockHash hash) const { return ids_.find(hash) != kNoObject; }
  /// Asks for the memory that holds() and use() begin in.
  void prefetch(BlockHash hash) const { ids_.prefetch(hash); }

  /// Makes a block the newest; one that is not held comes, and the oldest leaves where there is no
  /// room for both. Whether it came.
  bool use(BlockHash hash) {
    if (const ObjectId id = ids_.find(hash); id != kNoObject) {
      unlink(id);
      link_newest(id);
      return false;
    }
    if (capacity_blocks_ == 0) return false;
    if (ids_.size() >= capacity_blocks_) {
      ids_.remove(oldest_);
      unlink(oldest_);
    }
    const ObjectId id = ids_.add(hash);
    if (id == links_.size()) links_.emplace_back();
    link_newest(id);
    return true;
  }

 private:
  struct Links {
    ObjectId newer = kNoObject;
    ObjectId older = kNoObject;
  };

  void unlink(ObjectId id) {
    const auto [newer, older] = links_[id];
    (newer == kNoObject ? newest_ : links_[newer].older) = older;
    (older == kNoObject ? oldest_ : links_[older].newer) = newer;
  }
  void link_newest(ObjectId id) {
    links_[id] = {.newer = kNoObject, .older = newest_};
    (newest_ == kNoObject ? oldest_ : links_[newest_].newer) = id;
    newest_ = id;
  }

  std::uint64_t capacity_blocks_;
  scheduler::BlockIds ids_;
  std::vector<Links> links_;  ///< By number.
  ObjectId newest_ = kNoObject;
  ObjectId oldest_ = kNoObject;
};

}  // namespace nearkv::traces
