// Numbers for block hashes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "object/fingerprint_table.hpp"
#include "request.hpp"

namespace nearkv::scheduler {

/// Gives each hash that it knows a dense number, the one freed last first.
///
/// Thread safety: several readers or one writer.
class BlockIds {
 public:
  /// kNoObject if it is not known.
  [[nodiscard]] ObjectId find(BlockHash hash) const {
    const std::uint32_t* const found =
        table_.find(tag(hash), [&](ObjectId id) { return hashes_[id] == hash; });
    return found == nullptr ? kNoObject : *found;
  }

  /// `hash` must not be known.
  ObjectId add(BlockHash hash) {
    if (free_.empty()) {
      free_.push_back(static_cast<ObjectId>(hashes_.size()));
      hashes_.push_back(hash);
    }
    if (2 * table_.size() >= roomy_) table_.reserve(roomy_ = 2 * roomy_);
    const ObjectId id = free_.back();
    table_.insert(tag(hash), id);
    free_.pop_back();
    hashes_[id] = hash;
    return id;
  }

  void remove(ObjectId id) {
    table_.erase(table_.find(tag(hashes_[id]), [id](ObjectId other) { return other == id; }));
    free_.push_back(id);
  }

  /// Address space for as many, which costs memory only as they come: growing then copies nothing.
  void reserve(std::size_t count) { hashes_.reserve(count); }

  [[nodiscard]] std::size_t size() const { return table_.size(); }

  /// Asks for the memory that find() of this hash begins in.
  void prefetch(BlockHash hash) const { table_.prefetch(tag(hash)); }

 private:
  /// Hashes may be numbers in a row; tags must be spread.
  [[nodiscard]] static std::uint32_t tag(BlockHash hash) {
    return FingerprintTable::tag((hash ^ hash >> 32) * 0x9e3779b97f4a7c15 >> 32);
  }

  FingerprintTable table_;
  std::size_t roomy_ = 64;  ///< Half of it is used at the most: searches end at once.
  std::vector<BlockHash> hashes_;
  std::vector<ObjectId> free_;
};

/// Calls visit(hash) for each of `hashes` until it returns false, and prefetch(hash) some blocks
/// ahead of it: where tables are larger than caches, a chain waits for memory once, not per block.
template <typename Prefetch, typename Visit>
void visit_ahead(std::span<const BlockHash> hashes, Prefetch&& prefetch, Visit&& visit) {
  constexpr std::size_t kAhead = 8;
  for (const BlockHash hash : hashes.first(std::min(kAhead, hashes.size()))) prefetch(hash);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (i + kAhead < hashes.size()) prefetch(hashes[i + kAhead]);
    if (!visit(hashes[i])) return;
  }
}

}  // namespace nearkv::scheduler
