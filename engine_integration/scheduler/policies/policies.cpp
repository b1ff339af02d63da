#include "policies/policies.hpp"

#include <algorithm>
#include <array>

namespace nearkv::scheduler {
namespace {

bool are_in_range(const PolicyOptions& options, std::string* reason) {
  const auto is_positive = [](double value) { return value > 0; };
  const FairShareOptions& fair = options.fair_share;
  if (fair.shares.empty() || !std::ranges::all_of(fair.shares, is_positive)) {
    *reason = "shares are at least one, and each more than 0";
  } else if (!(fair.output_weight > 0) || !(fair.quantum_tokens >= 0)) {
    *reason = "output_weight is more than 0, quantum_tokens at least 0";
  } else if (options.prefix_match.k == 0 || options.prefix_match.window == 0 ||
             options.cache_aware.window == 0) {
    *reason = "k and windows are at least 1";
  } else if (options.slo.classes.empty()) {
    *reason = "there is at least one class";
  } else {
    return true;
  }
  return false;
}

struct Shipped {
  std::string_view name;
  std::unique_ptr<SchedulingPolicy> (*make)(const PolicyOptions& options);
};

constexpr std::array kShipped{
    Shipped{"orca", [](const PolicyOptions&) { return make_orca(); }},
    Shipped{"sarathi", [](const PolicyOptions&) { return make_sarathi(); }},
    Shipped{"fair_share", [](const PolicyOptions& all) { return make_fair_share(all.fair_share); }},
    Shipped{"cache_aware",
            [](const PolicyOptions& all) { return make_cache_aware(all.cache_aware); }},
    Shipped{"k_lpm", [](const PolicyOptions& all) { return make_k_lpm(all.prefix_match); }},
    Shipped{"agent_steps", [](const PolicyOptions& all) { return make_agent_steps(all.graph); }},
    Shipped{"rollout", [](const PolicyOptions&) { return make_rollout(); }},
    Shipped{"slo", [](const PolicyOptions& all) { return make_slo(all.slo); }},
};

}  // namespace

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  names.reserve(kShipped.size());
  for (const Shipped& shipped : kShipped) names.push_back(shipped.name);
  return names;
}

Status make_policy(std::string_view name, const PolicyOptions& options,
                   std::unique_ptr<SchedulingPolicy>* policy, std::string* reason) {
  if (!are_in_range(options, reason)) return Status::kBadArgument;
  if (name == "agent_steps" && options.graph == nullptr) {
    *reason = "agent_steps needs a graph of agents";
    return Status::kBadArgument;
  }
  const auto found = std::ranges::find(kShipped, name, &Shipped::name);
  if (found == kShipped.end()) {
    *reason = "no policy '" + std::string(name) + "'; there are";
    for (const std::string_view known : policy_names()) reason->append(" ").append(known);
    return Status::kBadArgument;
  }
  *policy = found->make(options);
  return Status::kOk;
}

}  // namespace nearkv::scheduler
