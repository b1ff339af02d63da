// The policies that ship, each for a tier of `capacity_bytes`, at least 1.
#pragma once

#include <cstdint>
#include <memory>

#include "policy/eviction_policy.hpp"

namespace nearkv {

/// Least recently used, tails of chains before their heads.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_lru(std::uint64_t capacity_bytes);

/// Least hit density (Beckmann et al., NSDI 2018) over classes taken from the prefix chain, learned
/// from ghosts too: evicts what promises the fewest hits per byte and time.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_chain_lhd(std::uint64_t capacity_bytes);

}  // namespace nearkv
