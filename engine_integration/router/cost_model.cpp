#include "cost_model.hpp"

#include <cmath>

namespace nearkv::router {
namespace {

bool is_positive(double value) { return std::isfinite(value) && value > 0; }
bool is_not_negative(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

Status CostModel::check() const {
  bool is_good = block_tokens > 0 && is_positive(block_bytes) &&
                 is_positive(prefill_tokens_per_s) && is_positive(peer_bytes_per_s);
  for (const TierCost& tier : tiers) {
    is_good = is_good && is_not_negative(tier.weight) && tier.weight <= 1 &&
              is_not_negative(tier.bytes_per_s) && is_not_negative(tier.latency_s);
  }
  return is_good ? Status::kOk : Status::kBadArgument;
}

double CostModel::weighted_blocks(const WorkerPrefix& prefix) const {
  double sum = 0;
  for (std::size_t tier = 0; tier < kTiers; ++tier) {
    sum += tiers[tier].weight * prefix.blocks[tier];
  }
  return sum;
}

double CostModel::load_s(const WorkerPrefix& prefix) const {
  double sum = 0;
  for (std::size_t tier = 0; tier < kTiers; ++tier) {
    if (prefix.blocks[tier] == 0 || tiers[tier].bytes_per_s == 0) continue;
    sum += tiers[tier].latency_s + prefix.blocks[tier] * block_bytes / tiers[tier].bytes_per_s;
  }
  return sum;
}

double CostModel::prefill_s(double tokens, double worker_tokens_per_s) const {
  return tokens / (worker_tokens_per_s > 0 ? worker_tokens_per_s : prefill_tokens_per_s);
}

}  // namespace nearkv::router
