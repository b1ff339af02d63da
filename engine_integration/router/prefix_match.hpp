// How far each worker has a request's blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "residency.hpp"

namespace nearkv::router {

/// The leading blocks of a request that a worker can use without computing them, by where they lie.
/// A block that it has in several tiers counts in the fastest.
struct WorkerPrefix {
  std::array<std::uint32_t, kTiers> blocks{};

  [[nodiscard]] std::uint32_t total() const {
    return blocks[0] + blocks[1] + blocks[2] + blocks[3];
  }
  friend bool operator==(const WorkerPrefix&, const WorkerPrefix&) = default;
};

/// Follows one request's blocks, head to tail, and keeps for each worker how far it has come. A
/// block in a pool is one that every worker has in Tier::kShared; that is counted for a worker only
/// when it matters, so that a block costs as much as it has holders.
///
/// Thread safety: one thread at a time.
class PrefixMatch {
 public:
  /// Begins a request of which `blocks` blocks are asked about, for workers below `workers`.
  void begin(std::size_t workers, std::size_t blocks) {
    reached_.assign(workers, 0);
    prefixes_.assign(workers, WorkerPrefix{});
    pooled_.assign(blocks, false);
    block_ = 0;
    last_unpooled_ = kNone;
    has_pooled_ = false;
  }

  /// A holder of the block at hand, once per worker.
  void add(Holder holder) {
    if (holder.worker >= reached_.size() || !is_unbroken(holder.worker)) return;
    WorkerPrefix& prefix = prefixes_[holder.worker];
    std::uint32_t& reached = reached_[holder.worker];
    prefix.blocks[static_cast<std::size_t>(Tier::kShared)] += block_ - reached;
    ++prefix.blocks[static_cast<std::size_t>(fastest(holder.tiers))];
    reached = block_ + 1;
    is_extended_ = true;
  }
  /// The block at hand lies in a pool.
  void add_pooled() { is_pooled_ = true; }

  /// Goes on to the next block. False: no worker has all blocks up to here, so that no block from
  /// here on matters.
  [[nodiscard]] bool next() {
    const bool goes_on = is_extended_ || is_pooled_;
    pooled_[block_] = is_pooled_;
    has_pooled_ |= is_pooled_;
    if (!is_pooled_) last_unpooled_ = block_;
    is_extended_ = is_pooled_ = false;
    ++block_;
    return goes_on;
  }

  /// Counts what lies in pools behind each worker's own blocks. After it, prefixes() is complete.
  void end();

  /// By worker; workers that have nothing are there with zeros.
  [[nodiscard]] const std::vector<WorkerPrefix>& prefixes() const { return prefixes_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Whether all blocks before this one are the worker's or a pool's.
  [[nodiscard]] bool is_unbroken(WorkerId worker) const {
    return last_unpooled_ == kNone || last_unpooled_ < reached_[worker];
  }

  std::vector<std::uint32_t> reached_;  ///< Of each worker, the block after its last own one.
  std::vector<WorkerPrefix> prefixes_;
  std::vector<bool> pooled_;
  std::uint32_t block_ = 0;
  std::uint32_t last_unpooled_ = kNone;
  bool is_extended_ = false;
  bool is_pooled_ = false;
  bool has_pooled_ = false;
};

}  // namespace nearkv::router
