// The blocks of the engine's own memory: whose they are, and which prefixes they hold.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "block_ids.hpp"
#include "policy/eviction_policy.hpp"
#include "request.hpp"

namespace nearkv::scheduler {

/// A block is free, private to one request, or shared: found by its hash, pinned by those who use
/// it, and kept unpinned until its place is wanted (PagedAttention, Kwon et al., SOSP 2023). Which
/// unpinned block goes first is the eviction policy's to say.
///
/// Thread safety: one thread at a time.
class BlockPool {
 public:
  BlockPool(std::uint32_t capacity_blocks, std::unique_ptr<EvictionPolicy> eviction);

  [[nodiscard]] std::uint32_t capacity_blocks() const { return capacity_blocks_; }
  /// Blocks that take() can have: free ones, and shared ones that nobody pins.
  [[nodiscard]] std::uint32_t available_blocks() const {
    return capacity_blocks_ - private_blocks_ - pinned_blocks_;
  }
  [[nodiscard]] std::uint32_t free_blocks() const {
    return capacity_blocks_ - private_blocks_ - static_cast<std::uint32_t>(shared_.size());
  }

  /// How many of `hashes`, from the first on without a gap, are held.
  [[nodiscard]] std::uint32_t match(std::span<const BlockHash> hashes) const;

  /// Pins the first `count` of `hashes`, which are held, and adds them to `blocks`.
  void pin(std::span<const BlockHash> hashes, std::uint32_t count, std::vector<ObjectId>* blocks);

  /// Unpins all of `blocks`, the head of a chain first, and clears them.
  void unpin(std::vector<ObjectId>* blocks);

  /// Takes private blocks, evicting as many shared ones as that needs. False, with nothing taken,
  /// if fewer than `count` are available.
  [[nodiscard]] bool take(std::uint32_t count);

  /// Private blocks that are free from now on.
  void give_back(std::uint32_t count) { private_blocks_ -= count; }

  /// Private blocks have become those of `hashes`, behind the last of `blocks`: they are added to
  /// them, pinned. Where a hash is held already, that block is taken and the private one is freed.
  void publish(std::span<const BlockHash> hashes, std::vector<ObjectId>* blocks);

  [[nodiscard]] EvictionPolicy& eviction() { return *eviction_; }

 private:
  void pin_one(ObjectId id);
  [[nodiscard]] ObjectId share(BlockHash hash, ObjectId parent);

  std::uint32_t capacity_blocks_;
  std::uint32_t private_blocks_ = 0;
  std::uint32_t pinned_blocks_ = 0;  ///< Shared ones.
  std::unique_ptr<EvictionPolicy> eviction_;
  BlockIds shared_;
  std::vector<std::uint32_t> pins_;  ///< By number.
};

}  // namespace nearkv::scheduler
