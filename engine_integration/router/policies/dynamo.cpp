// Dynamo's cost, in blocks (ai-dynamo/dynamo, lib/kv-router/src/scheduling/selector.rs, of 2026):
//
//   scale * max(0, prefill - (credit * decay * device + host + disk + shared)) + decode + requests
//
// prefill counts what the worker has still to compute and all of this prompt; decode what it holds,
// and this prompt. Tiers by the names under which Dynamo takes them: CXL is its disk (CPU_TIER2).
#include <cmath>
#include <mutex>
#include <random>
#include <vector>

#include "policies.hpp"

namespace nearkv::router {
namespace {

class Dynamo : public Policy {
 public:
  explicit Dynamo(const PolicyOptions& options)
      : weights_(options.dynamo), block_tokens_(options.cost.block_tokens), random_(options.seed) {}

  Status choose(const Prompt& prompt, std::span<const Candidate> candidates,
                Choice* choice) override {
    std::uint64_t least_prefill = candidates[0].load.prefill_tokens;
    for (const Candidate& each : candidates) {
      least_prefill = std::min(least_prefill, each.load.prefill_tokens);
    }
    std::vector<double> costs;
    costs.reserve(candidates.size());
    for (const Candidate& each : candidates) costs.push_back(cost(prompt, each, least_prefill));
    const std::size_t chosen = weights_.temperature > 0 ? draw(costs) : lowest(costs);
    *choice = {.candidate = chosen,
               .cost = costs[chosen],
               .reason = weights_.temperature > 0 ? "drawn by cost" : "the lowest cost in blocks"};
    return Status::kOk;
  }

 private:
  [[nodiscard]] double cost(const Prompt& prompt, const Candidate& candidate,
                            std::uint64_t least_prefill) const {
    const double block = block_tokens_;
    const auto& [device, host, disk, shared] = candidate.prefix.blocks;
    const double prefill =
        static_cast<double>(candidate.load.prefill_tokens + prompt.tokens) / block;
    const double request_blocks = std::max(1.0, std::ceil(prompt.tokens / block));
    const double excess =
        static_cast<double>(candidate.load.prefill_tokens - least_prefill) / block;
    const double decay = 1 / (1 + weights_.overlap_score_credit_decay * excess / request_blocks);
    const double credit =
        weights_.overlap_score_credit * decay * device + weights_.host_cache_hit_weight * host +
        weights_.disk_cache_hit_weight * disk + weights_.shared_cache_multiplier * shared;
    return weights_.prefill_load_scale * std::max(0.0, prefill - credit) +
           static_cast<double>(candidate.load.blocks) + request_blocks +
           weights_.decode_active_request_weight * static_cast<double>(candidate.load.requests);
  }

  [[nodiscard]] static std::size_t lowest(const std::vector<double>& costs) {
    return static_cast<std::size_t>(std::ranges::min_element(costs) - costs.begin());
  }

  /// Softmax of the negated costs, which are first brought to a range of 1.
  [[nodiscard]] std::size_t draw(const std::vector<double>& costs) {
    const auto [low, high] = std::ranges::minmax(costs);
    std::vector<double> chances;
    chances.reserve(costs.size());
    for (const double cost : costs) {
      const double scaled = high > low ? (cost - low) / (high - low) : 0;
      chances.push_back(std::exp(-scaled / weights_.temperature));
    }
    const std::lock_guard lock(mutex_);
    return std::discrete_distribution<std::size_t>(chances.begin(), chances.end())(random_);
  }

  DynamoWeights weights_;
  std::uint32_t block_tokens_;
  std::mutex mutex_;
  std::mt19937_64 random_;
};

}  // namespace

std::unique_ptr<Policy> make_dynamo(const PolicyOptions& options) {
  return std::make_unique<Dynamo>(options);
}

}  // namespace nearkv::router
