// Tiers of KV blocks below the engines' pools, simulated.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster.hpp"
#include "link.hpp"
#include "lower_tiers.hpp"
#include "policy/eviction_policy.hpp"

namespace nearkv::traces {

using scheduler::BlockHash;

/// One tier: which blocks it holds, and the link to it. What is least recently used leaves.
class Tier {
 public:
  Tier(TierConfig config, double block_bytes);

  [[nodiscard]] bool holds(BlockHash hash) const { return ids_.contains(hash); }
  /// Keeps a block, or notes that it is used.
  void store(BlockHash hash);

  /// What loading takes, and loading itself: when all has arrived.
  [[nodiscard]] Seconds duration_s(Seconds now_s, std::uint32_t blocks) const;
  Seconds load(Seconds now_s, std::uint32_t blocks);

  [[nodiscard]] const TierConfig& config() const { return config_; }
  [[nodiscard]] double bytes_loaded() const { return link_.bytes(); }
  [[nodiscard]] double bytes_stored() const { return stored_blocks_ * block_bytes_; }

 private:
  TierConfig config_;
  double block_bytes_;
  std::uint64_t capacity_blocks_;
  std::unique_ptr<EvictionPolicy> eviction_;
  std::unordered_map<BlockHash, ObjectId> ids_;
  std::vector<BlockHash> hashes_;
  Link link_;
  double stored_blocks_ = 0;
};

/// The tiers that one replica sees, the fastest first; those that are shared it has in common.
/// Whatever is computed is written to all of them, at no cost to the engine.
class TierStack final : public scheduler::LowerTiers {
 public:
  explicit TierStack(std::vector<std::shared_ptr<Tier>> tiers) : tiers_(std::move(tiers)) {}

  [[nodiscard]] scheduler::Loadable find(std::span<const BlockHash> hashes, Seconds now_s) override;
  void store(std::span<const BlockHash> hashes, Seconds now_s) override;

  /// Begins to load what is held of `hashes`, each block from the fastest tier that has it; when
  /// all of them are there.
  Seconds load(std::span<const BlockHash> hashes, Seconds now_s);

 private:
  /// Blocks by tier, until one is held nowhere.
  [[nodiscard]] std::vector<std::uint32_t> places(std::span<const BlockHash> hashes) const;

  std::vector<std::shared_ptr<Tier>> tiers_;
};

}  // namespace nearkv::traces
