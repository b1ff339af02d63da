#include "policy.hpp"

#include <cmath>

#include "edge.hpp"
#include "policies/policies.hpp"

namespace nearkv::router {
namespace {

bool is_in(double value, double low, double high) { return value >= low && value <= high; }

bool is_good(const DynamoWeights& weights) {
  const double most = std::numeric_limits<double>::max();
  return is_in(weights.overlap_score_credit, 0, 1) &&
         is_in(weights.overlap_score_credit_decay, 0, most) &&
         is_in(weights.prefill_load_scale, 0, most) &&
         is_in(weights.host_cache_hit_weight, 0, most) &&
         is_in(weights.disk_cache_hit_weight, 0, most) &&
         is_in(weights.shared_cache_multiplier, 0, 1) &&
         is_in(weights.decode_active_request_weight, 0, most) &&
         is_in(weights.temperature, 0, most);
}

bool is_good(const MooncakeThresholds& thresholds) {
  return thresholds.kvcache_balancing_threshold >= 1 && thresholds.ttft_slo_s > 0;
}

}  // namespace

Status make_policy(std::string_view name, const PolicyOptions& options,
                   std::unique_ptr<Policy>* policy) {
  if (const Status status = options.cost.check(); status != Status::kOk) return status;
  if (!is_good(options.dynamo) || !is_good(options.mooncake)) return Status::kBadArgument;
  return at_edge([&] {
    if (name == "round_robin")
      *policy = make_round_robin();
    else if (name == "least_load")
      *policy = make_least_load();
    else if (name == "longest_prefix")
      *policy = make_longest_prefix(options.cost);
    else if (name == "dynamo")
      *policy = make_dynamo(options);
    else if (name == "mooncake")
      *policy = make_mooncake(options);
    else if (name == "least_ttft")
      *policy = make_least_ttft(options.cost);
    else
      return Status::kNotFound;
    return Status::kOk;
  });
}

}  // namespace nearkv::router
