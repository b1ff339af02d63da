// What a prefix index is compared with: a map of maps, read block by block.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "prefix_index.hpp"

namespace nearkv::test {

using router::fastest;
using router::Holder;
using router::mask_of;
using router::Tier;
using router::TierMask;
using router::WorkerId;
using router::WorkerPrefix;

struct IndexOracle {
  std::map<std::uint64_t, std::map<WorkerId, TierMask>> blocks;
  std::set<WorkerId> pools;

  void store(WorkerId worker, Tier tier, std::span<const std::uint64_t> hashes) {
    for (const std::uint64_t hash : hashes) blocks[hash][worker] |= mask_of(tier);
  }

  void remove(WorkerId worker, TierMask tiers, std::uint64_t hash) {
    const auto block = blocks.find(hash);
    if (block == blocks.end()) return;
    const auto holder = block->second.find(worker);
    if (holder == block->second.end()) return;
    holder->second = static_cast<TierMask>(holder->second & ~tiers);
    if (holder->second == 0) block->second.erase(holder);
    if (block->second.empty()) blocks.erase(block);
  }

  void clear(WorkerId worker, TierMask tiers) {
    std::vector<std::uint64_t> hashes;
    for (const auto& [hash, holders] : blocks) hashes.push_back(hash);
    for (const std::uint64_t hash : hashes) remove(worker, tiers, hash);
  }

  [[nodiscard]] std::map<WorkerId, TierMask> holders(std::uint64_t hash) const {
    const auto found = blocks.find(hash);
    return found == blocks.end() ? std::map<WorkerId, TierMask>() : found->second;
  }

  /// The leading blocks that a worker or a pool has.
  [[nodiscard]] WorkerPrefix prefix(WorkerId worker, std::span<const std::uint64_t> chain) const {
    WorkerPrefix prefix;
    for (const std::uint64_t hash : chain) {
      const std::map<WorkerId, TierMask> who = holders(hash);
      if (const auto own = who.find(worker); own != who.end() && !pools.contains(worker)) {
        ++prefix.blocks[static_cast<std::size_t>(fastest(own->second))];
        continue;
      }
      bool is_pooled = false;
      for (const WorkerId pool : pools) is_pooled |= who.contains(pool);
      if (!is_pooled) break;
      ++prefix.blocks[static_cast<std::size_t>(Tier::kShared)];
    }
    return prefix;
  }
};

}  // namespace nearkv::test
