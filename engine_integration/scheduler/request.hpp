// What a serving engine asks for, and what the scheduler knows of it.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "object/object_id.hpp"

namespace nearkv::scheduler {

/// Moments and durations. The clock is the caller's, real or simulated, and never goes back.
using Seconds = double;

/// A request in one scheduler, from add() until it ends; then the number is used again.
using RequestId = std::uint32_t;
inline constexpr RequestId kNoRequest = std::numeric_limits<RequestId>::max();

/// The hash of a block of tokens and of all that precede it: equal hashes are equal prefixes.
using BlockHash = std::uint64_t;

inline constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint32_t kNoAgent = std::numeric_limits<std::uint32_t>::max();

/// One prompt to be continued.
struct Request {
  std::uint64_t tag = 0;  ///< The caller's own name for it.
  std::uint32_t prompt_tokens = 1;
  std::uint32_t most_output_tokens = 1;  ///< Where it ends if end() does not come before.
  /// Of its full blocks, in order: of the prompt, and then, as far as known, of what it generates.
  std::vector<BlockHash> block_hashes{};
  std::uint32_t tenant = 0;         ///< Whom its service is charged to.
  std::uint32_t service_class = 0;  ///< Which of the policy's classes.
  std::uint32_t group = kNoGroup;   ///< Samples of one prompt have one group.
  std::uint32_t agent = kNoAgent;   ///< Whose step it is.
};

/// kWaiting: holds no blocks. kLoading: its blocks are being filled from below. kRunning: takes
/// part in iterations.
enum class Phase : std::uint8_t { kWaiting, kLoading, kRunning };

/// A request on its way. `computed` and `known` count from the prompt's first token on: what is
/// known but not computed is what iterations still have to do, and when none is left, a token is
/// generated, which is known from then on.
struct RequestState {
  Request request;
  Phase phase = Phase::kWaiting;
  bool is_prefetch = false;  ///< Ends when it is loaded; of no interest to policies.
  bool ends_early = false;   ///< end() was called during an iteration.
  std::uint64_t order = 0;   ///< Of arrival.
  Seconds arrived_s = 0;
  Seconds started_s = 0;              ///< When it was admitted last.
  Seconds first_token_s = -1;         ///< Negative: there is none yet.
  std::uint32_t computed_tokens = 0;  ///< Whose keys and values lie in the pool.
  std::uint32_t generated_tokens = 0;
  std::uint32_t cached_tokens = 0;        ///< Of its first start: found in the pool or below.
  std::vector<ObjectId> shared_blocks{};  ///< Its first blocks: those that others may use too.
  std::uint32_t private_blocks = 0;       ///< Those behind them.
  std::uint32_t loading_blocks = 0;       ///< Of the private ones: being filled from below.
  std::uint32_t host_blocks = 0;          ///< Its first blocks of which host memory has a copy.
  std::uint32_t swapped_tokens = 0;  ///< Computed, and now in host memory; 0 when not swapped out.
  std::uint32_t preemptions = 0;

  [[nodiscard]] std::uint32_t known_tokens() const {
    return request.prompt_tokens + generated_tokens;
  }
  [[nodiscard]] std::uint32_t tokens_to_compute() const { return known_tokens() - computed_tokens; }
  [[nodiscard]] bool is_decoding() const {
    return generated_tokens > 0 && tokens_to_compute() == 1;
  }
  [[nodiscard]] std::uint32_t held_blocks() const {
    return static_cast<std::uint32_t>(shared_blocks.size()) + private_blocks;
  }
};

}  // namespace nearkv::scheduler
