// Tiers of KV blocks below the engines' pools, simulated.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "link.hpp"
#include "lower_tiers.hpp"
#include "lru_blocks.hpp"

namespace nearkv::traces {

/// One tier: which blocks it holds, and the link to it. What is least recently used leaves.
class Tier {
 public:
  Tier(TierConfig config, double block_bytes);

  [[nodiscard]] bool holds(BlockHash hash) const { return blocks_.holds(hash); }
  /// Asks for the memory that holds() begins in.
  void prefetch(BlockHash hash) const { blocks_.prefetch(hash); }
  /// Keeps blocks, or notes that they are used, at once.
  void store(std::span<const BlockHash> hashes);
  /// Begins to write blocks; those that are held are used. When the others are there: until then
  /// they are not held.
  Seconds write(std::span<const BlockHash> hashes, Seconds now_s);
  /// Holds what has been written by now; times never go back.
  void settle(Seconds now_s);

  /// Blocks that have come, in the place of others or not.
  [[nodiscard]] std::uint64_t stored_blocks() const { return stored_blocks_; }

  /// What loading takes, and loading itself: when all has arrived.
  [[nodiscard]] Seconds duration_s(Seconds now_s, std::uint32_t blocks) const;
  Seconds load(Seconds now_s, std::uint32_t blocks);

  [[nodiscard]] const TierConfig& config() const { return config_; }
  [[nodiscard]] double bytes_loaded() const { return link_.bytes(); }
  [[nodiscard]] double bytes_stored() const {
    return static_cast<double>(stored_blocks_) * block_bytes_;
  }

 private:
  TierConfig config_;
  double block_bytes_;
  struct Write {
    Seconds arrives_s = 0;
    std::vector<BlockHash> hashes{};
  };

  LruBlocks blocks_;
  Link link_;
  Link write_link_;
  std::deque<Write> writes_;  ///< Under way, in the order in which they arrive.
  std::uint64_t stored_blocks_ = 0;
};

/// The tiers that one replica sees, the fastest first; those that are shared it has in common.
/// Whatever is computed is written to all of them, while the engine goes on.
class TierStack final : public scheduler::LowerTiers {
 public:
  explicit TierStack(std::vector<std::shared_ptr<Tier>> tiers)
      : tiers_(std::move(tiers)), places_{.blocks = std::vector<std::uint32_t>(tiers_.size())} {}

  [[nodiscard]] scheduler::Loadable find(std::span<const BlockHash> hashes, Seconds now_s) override;
  void store(std::span<const BlockHash> hashes, Seconds now_s) override;

  /// When what was stored last has been written to all tiers that are shared.
  [[nodiscard]] Seconds written_s() const { return written_s_; }

  /// Begins to load what is held of `hashes`, each block from the fastest tier that has it; when
  /// all of them are there.
  Seconds load(std::span<const BlockHash> hashes, Seconds now_s);

 private:
  /// Blocks by tier, until one is held nowhere. Holds until the next call.
  [[nodiscard]] std::span<const std::uint32_t> places(std::span<const BlockHash> hashes,
                                                      Seconds now_s);

  /// What places() found last. The head of a queue is asked for at each step, and most steps change
  /// no tier. A chain's last hash and its length name all of it.
  struct Places {
    BlockHash last = 0;
    std::size_t length = 0;
    std::uint64_t stored_blocks = 0;  ///< Of all tiers, by then.
    std::vector<std::uint32_t> blocks;
  };

  std::vector<std::shared_ptr<Tier>> tiers_;
  Places places_;
  Seconds written_s_ = 0;
};

}  // namespace nearkv::traces
