// The tiers below the engine's memory, as a scheduler asks for them.
#pragma once

#include <cstdint>
#include <span>

#include "request.hpp"

namespace nearkv::scheduler {

/// Blocks that can be loaded instead of computed.
struct Loadable {
  std::uint32_t blocks = 0;  ///< From the first of those asked for, without a gap.
  Seconds duration_s = 0;    ///< If the load began now, what is queued before it included.
};

/// A store of KV blocks below the engine: host memory, CXL, NVMe, another machine. Implemented live
/// by an object store with its measured costs, and by the simulator's tiers.
///
/// Thread safety: called by the scheduler's thread only.
class LowerTiers {
 public:
  LowerTiers() = default;
  LowerTiers(const LowerTiers&) = delete;
  LowerTiers& operator=(const LowerTiers&) = delete;
  virtual ~LowerTiers() = default;

  /// What is held of `hashes`, at this moment. Changes nothing: it is asked before choosing.
  [[nodiscard]] virtual Loadable find(std::span<const BlockHash> hashes, Seconds now_s) = 0;

  /// The engine has computed these blocks, which follow one another; they may be kept.
  virtual void store(std::span<const BlockHash> hashes, Seconds now_s) = 0;
};

}  // namespace nearkv::scheduler
