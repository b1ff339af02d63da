// What a tier of a given size would have served of a trace.
#pragma once

#include <cstdint>
#include <memory>

#include "policy/eviction_policy.hpp"
#include "trace.hpp"

namespace nearkv::replay {

/// A request looks up its longest prefix in the tier, whose blocks are hits; then all its blocks
/// are stored. A block that follows a missing one is no hit, but is used like one if it is there.
struct Outcome {
  std::uint64_t prefix_hits = 0;
  std::uint64_t evictions = 0;
  double ns_per_block = 0;  ///< Spent on each of the trace's blocks, its evictions included.
};

/// Replays against a policy made for capacity_blocks * block_bytes.
[[nodiscard]] Outcome replay(const Trace& trace, EvictionPolicy* policy,
                             std::uint64_t capacity_blocks, std::uint32_t block_bytes);

/// Hits of a tier that never evicts: no policy has more.
[[nodiscard]] std::uint64_t infinite_hits(const Trace& trace);

/// Hits of Belady's choice, which knows the future: it evicts what is used again last, the new
/// block itself if need be. Blocks being of one size, no policy has more at that capacity.
[[nodiscard]] Outcome belady(const Trace& trace, std::uint64_t capacity_blocks);

}  // namespace nearkv::replay
