// What a policy may look at.
#pragma once

#include <cstdint>
#include <span>

#include "block_pool.hpp"
#include "lower_tiers.hpp"
#include "request_table.hpp"

namespace nearkv::scheduler {

/// Where the beginning of a waiting request's tokens lies now.
struct Residency {
  std::uint32_t pool_blocks = 0;   ///< In the engine's memory: nothing to do.
  std::uint32_t lower_blocks = 0;  ///< Behind those: to be loaded from below.
  Seconds load_s = 0;              ///< What loading them takes.
};

struct View;

/// Knows where the beginnings of requests lie: in a scheduler's own blocks, or in an engine's.
class Residencies {
 public:
  Residencies() = default;
  Residencies(const Residencies&) = delete;
  Residencies& operator=(const Residencies&) = delete;
  virtual ~Residencies() = default;

  /// Of a request that waits, now. Changes nothing.
  [[nodiscard]] virtual Residency of(RequestId id, const View& view) const = 0;
};

/// A scheduler's state between two decisions. Holds for the call that it is given to.
struct View {
  Seconds now_s = 0;
  const RequestTable* requests = nullptr;
  const Residencies* residencies = nullptr;
  std::span<const RequestId> running{};  ///< And loading, in the order in which they started.
  std::uint32_t block_tokens = 1;
  std::uint32_t tokens_left = 0;  ///< Of this iteration's budget.
  Seconds loading_s = 0;          ///< Of the longest load that this iteration has begun.

  [[nodiscard]] const RequestState& operator[](RequestId id) const { return (*requests)[id]; }

  /// The hashes of the blocks that a start could take over. The last known token is always
  /// computed: the next one comes out of it.
  [[nodiscard]] std::span<const BlockHash> reusable_hashes(RequestId id) const;

  /// Costs a look at each block; policies ask for few requests at a time.
  [[nodiscard]] Residency residency(RequestId id) const { return residencies->of(id, *this); }
};

/// A pool's blocks, and behind them what `lower`, which may be none, can load.
class PoolAndTiers final : public Residencies {
 public:
  PoolAndTiers(const BlockPool& pool, LowerTiers* lower) : pool_(pool), lower_(lower) {}
  [[nodiscard]] Residency of(RequestId id, const View& view) const override;

 private:
  const BlockPool& pool_;
  LowerTiers* lower_;
};

}  // namespace nearkv::scheduler
