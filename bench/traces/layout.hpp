// How GPUs are split among replicas: what a planner chooses from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster.hpp"

namespace nearkv::traces {

/// Replicas of equal tensor parallelism that do all, or some that prefill and others that decode.
struct Layout {
  std::uint64_t prefill_replicas = 0;  ///< 0: all replicas do both.
  double prefill_gpus = 0;             ///< Of each of those: the degree of tensor parallelism.
  std::uint64_t replicas = 1;          ///< The others.
  double gpus = 1;
  std::uint64_t token_budget = 2048;

  [[nodiscard]] bool is_apart() const { return prefill_replicas > 0; }
  [[nodiscard]] double total_gpus() const {
    return static_cast<double>(prefill_replicas) * prefill_gpus +
           static_cast<double>(replicas) * gpus;
  }
  /// Such as "2 x TP1 prefill + 1 x TP4 decode, steps of 2048".
  [[nodiscard]] std::string name() const;
  /// The cluster with its GPUs in this layout; nothing fails, all else stays.
  [[nodiscard]] Cluster of(Cluster cluster) const;
};

struct LayoutLimits {
  double most_gpus = 8;
  std::vector<std::uint64_t> degrees{1, 2, 4, 8};  ///< Of tensor parallelism.
  std::vector<std::uint64_t> token_budgets{};      ///< Empty: the cluster's own.
  bool may_split = true;                           ///< Prefill from decode.
};

/// All layouts within the limits, those that do both first, then by GPUs. Degrees that do not
/// divide the model's query heads are left out.
[[nodiscard]] std::vector<Layout> layouts_of(const Cluster& cluster, const LayoutLimits& limits);

}  // namespace nearkv::traces
