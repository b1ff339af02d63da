// A fleet's caches, as one router sees them: chains, and who has which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "index/chains.hpp"
#include "residency.hpp"

namespace nearkv::bench {

struct FleetOptions {
  std::size_t blocks = 10'000'000;  ///< In all caches, each counted once.
  std::uint32_t workers = 64;
  std::uint64_t seed = 1;
  std::string trace;  ///< A file of requests with hash_ids; empty: made-up chains.
};

/// One request's blocks in the cache of the worker that computed them.
struct CachedChain {
  Chain hashes;
  router::WorkerId worker = 0;
  router::Tier tier = router::Tier::kGpu;
};

/// Requests were spread over the workers as they came. Of ten, seven lie on GPUs, two in DRAM, one
/// in CXL memory.
std::vector<CachedChain> make_fleet(const FleetOptions& options);

}  // namespace nearkv::bench
