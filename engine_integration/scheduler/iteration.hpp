// What an engine does in one step, and what came of it.
#pragma once

#include <cstdint>
#include <vector>

#include "request.hpp"

namespace nearkv::scheduler {

/// Tokens of one request that a step computes, behind `context_tokens` whose KV is in the pool.
struct Work {
  RequestId request = kNoRequest;
  std::uint32_t tokens = 0;
  std::uint32_t context_tokens = 0;
};

/// A preempted request's blocks. The engine copies them to host memory before the step writes
/// anything; none are to be copied where host memory has them already, or keeps nothing.
struct SwapOut {
  RequestId request = kNoRequest;
  std::uint32_t blocks_to_copy = 0;
};

/// Blocks to be filled while steps go on; loaded() tells the scheduler when they are there.
struct Load {
  RequestId request = kNoRequest;
  std::uint32_t first_block = 0;  ///< Of the request's.
  std::uint32_t blocks = 0;
  bool is_swap_in = false;  ///< From its copy in host memory; else from the lower tiers.
};

/// One step. `decodes` have one token each; all tokens together are within the budget.
struct Iteration {
  std::vector<Work> decodes;
  std::vector<Work> prefills;
  std::vector<SwapOut> swap_outs;
  std::vector<Load> loads;

  /// Whether there is anything to compute.
  [[nodiscard]] bool has_work() const { return !decodes.empty() || !prefills.empty(); }
};

/// A request that has ended, which the scheduler knows no more.
struct Ended {
  std::uint64_t tag = 0;
  RequestId id = kNoRequest;
  Seconds arrived_s = 0;
  Seconds first_token_s = -1;  ///< Negative: it ended before.
  std::uint32_t prompt_tokens = 0;
  std::uint32_t generated_tokens = 0;
  std::uint32_t cached_tokens = 0;  ///< Found in the pool or below when it first started.
  std::uint32_t preemptions = 0;
};

}  // namespace nearkv::scheduler
