// The policies that ship, each for a tier of `capacity_bytes`, at least 1.
#pragma once

#include <cstdint>
#include <memory>

#include "policy/eviction_policy.hpp"

namespace nearkv {

/// Least recently used, tails of chains before their heads.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_lru(std::uint64_t capacity_bytes);

/// Least frequently used with dynamic aging: an object's rank is its uses plus the rank of what
/// left last when it was last used, so that old fame fades. LRU among equals.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_lfu(std::uint64_t capacity_bytes);

/// Least hit density (Beckmann et al., NSDI 2018) over classes taken from the prefix chain, learned
/// from ghosts too: evicts what promises the fewest hits per byte and time.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_chain_lhd(std::uint64_t capacity_bytes);

}  // namespace nearkv
