// Which worker a request goes to: the interface of policies, and those that ship.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "cost_model.hpp"
#include "nearkv/status.hpp"
#include "prefix_match.hpp"
#include "worker_table.hpp"

namespace nearkv::router {

/// A worker that may be chosen.
struct Candidate {
  WorkerId worker = 0;
  WorkerPrefix prefix;
  Load load;
  double prefill_tokens_per_s = 0;  ///< 0: the cost model's.
};

/// What is to be routed.
struct Prompt {
  std::uint32_t tokens = 0;
  std::uint32_t blocks = 0;  ///< Whole ones, of CostModel::block_tokens.
};

/// Tokens that a worker must compute. A prefix never exceeds the prompt.
[[nodiscard]] inline std::uint32_t uncached_tokens(const Prompt& prompt,
                                                   std::uint32_t cached_blocks,
                                                   std::uint32_t block_tokens) {
  const std::uint64_t cached = std::uint64_t{cached_blocks} * block_tokens;
  return prompt.tokens - static_cast<std::uint32_t>(std::min<std::uint64_t>(cached, prompt.tokens));
}

/// What a policy decided.
struct Choice {
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

  std::size_t candidate = 0;        ///< Its place among the candidates.
  double cost = 0;                  ///< Lower is better; in the policy's unit.
  std::string_view reason{};        ///< What tipped the scales, in a few static words.
  std::size_t copy_from = kNobody;  ///< Mooncake: whose longer prefix is to be copied first.
};

/// Thread safety: choose may be called from any thread.
class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  /// Chooses among candidates, of which there is at least one, in the order of their numbers.
  /// kBusy: the policy refuses the request, because no worker would be in time.
  virtual Status choose(const Prompt& prompt, std::span<const Candidate> candidates,
                        Choice* choice) = 0;
};

/// Dynamo's weights, by its names and with its defaults.
struct DynamoWeights {
  double overlap_score_credit = 1;
  double overlap_score_credit_decay = 0;
  double prefill_load_scale = 1;
  double host_cache_hit_weight = 0.75;
  double disk_cache_hit_weight = 0.25;
  double shared_cache_multiplier = 0;
  double decode_active_request_weight = 0;
  double temperature = 0;
};

/// Mooncake's thresholds, by the names in its paper.
struct MooncakeThresholds {
  double kvcache_balancing_threshold = 2;
  double ttft_slo_s = std::numeric_limits<double>::infinity();
};

struct PolicyOptions {
  CostModel cost;
  DynamoWeights dynamo;
  MooncakeThresholds mooncake;
  std::uint64_t seed = 1;  ///< Of what a temperature draws.
};

inline constexpr std::string_view kPolicyNames[] = {"round_robin", "least_load", "longest_prefix",
                                                    "dynamo",      "mooncake",   "least_ttft"};

/// A policy by its name. kNotFound: none of kPolicyNames. kBadArgument: options out of their range.
Status make_policy(std::string_view name, const PolicyOptions& options,
                   std::unique_ptr<Policy>* policy);

}  // namespace nearkv::router
