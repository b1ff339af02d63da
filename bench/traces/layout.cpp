#include "layout.hpp"

#include <algorithm>
#include <cmath>

namespace nearkv::traces {
namespace {

std::string group(std::uint64_t replicas, double gpus) {
  return std::to_string(replicas) + " x TP" + std::to_string(static_cast<std::uint64_t>(gpus));
}

}  // namespace

std::string Layout::name() const {
  const std::string rest = group(replicas, gpus);
  const std::string steps = ", steps of " + std::to_string(token_budget);
  if (!is_apart()) return rest + steps;
  return group(prefill_replicas, prefill_gpus) + " prefill + " + rest + " decode" + steps;
}

Cluster Layout::of(Cluster cluster) const {
  cluster.engine.prefill_replicas = prefill_replicas;
  cluster.engine.prefill_gpu_count = prefill_gpus;
  cluster.engine.replicas = prefill_replicas + replicas;
  cluster.engine.token_budget = token_budget;
  cluster.gpu.count = gpus;
  cluster.failures.clear();
  return cluster;
}

std::vector<Layout> layouts_of(const Cluster& cluster, const LayoutLimits& limits) {
  std::vector<Layout> groups;  // Of one kind of replica.
  for (const std::uint64_t degree : limits.degrees) {
    const auto gpus = static_cast<double>(degree);
    if (std::fmod(cluster.model.query_heads, gpus) != 0) continue;
    const auto most = static_cast<std::uint64_t>(limits.most_gpus / gpus);
    for (std::uint64_t replicas = 1; replicas <= most; ++replicas) {
      groups.push_back({.replicas = replicas, .gpus = gpus});
    }
  }
  std::vector<Layout> layouts = groups;
  for (const Layout& prefill : limits.may_split ? groups : std::vector<Layout>()) {
    for (const Layout& decode : groups) {
      const Layout both{.prefill_replicas = prefill.replicas,
                        .prefill_gpus = prefill.gpus,
                        .replicas = decode.replicas,
                        .gpus = decode.gpus};
      if (both.total_gpus() <= limits.most_gpus) layouts.push_back(both);
    }
  }
  std::ranges::stable_sort(layouts, {}, [](const Layout& layout) {
    return std::pair(layout.is_apart(), layout.total_gpus());
  });
  std::vector<std::uint64_t> budgets = limits.token_budgets;
  if (budgets.empty()) budgets.push_back(cluster.engine.token_budget);
  std::vector<Layout> all;
  for (const Layout& layout : layouts) {
    for (const std::uint64_t budget : budgets) {
      all.push_back(layout);
      all.back().token_budget = budget;
    }
  }
  return all;
}

}  // namespace nearkv::traces
