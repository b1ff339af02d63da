// Which layout of a cluster's GPUs serves most as promised.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layout.hpp"
#include "metrics.hpp"
#include "workload.hpp"

namespace nearkv::traces {

struct PlanOptions {
  LayoutLimits limits{};
  double share = 0.9;             ///< Of requests, whose TTFT and TPOT must both be as promised.
  double device_s_per_token = 0;  ///< As Simulation's.
  unsigned threads = 1;
};

/// What a layout can do.
struct Planned {
  Layout layout;
  /// The most requests a second, to 1 %, of which the share is served as promised; 0: not even
  /// one at a time, or `refused`.
  double goodput_per_s = 0;
  Report report{};     ///< At that rate; of one at a time where there is none.
  Seconds ttft_s = 0;  ///< That the share of requests keeps, in that report.
  Seconds tpot_s = 0;
  Seconds arriving_s = 0;  ///< From the first arrival to the last, at that rate.
  std::string refused{};   ///< Why it cannot run at all: a model or a request that does not fit.

  [[nodiscard]] double per_gpu() const { return goodput_per_s / layout.total_gpus(); }
};

/// Called with how many layouts are done, and of how many.
using PlanProgress = std::function<void(std::size_t done, std::size_t all)>;

/// DistServe's search (Zhong et al., OSDI 2024, algorithms 1 and 2) with whole clusters instead of
/// phases alone: each layout is simulated under the workload's requests, whose times between
/// arrivals are stretched until the share is just kept, by halving a geometric interval. The best
/// comes first: most goodput a GPU, then fewest GPUs. The search compares each rate with the
/// promise and nothing else, so a looser promise never yields less; the same seed and files yield
/// the same plan, whatever the threads.
///
/// kBadArgument with a `reason`: a workload whose arrivals have no rate, a share outside (0, 1],
/// no layout that the model fits, a promise that no layout keeps even for one request at a time
/// (`reason` says which, and how far it is).
Status plan(const Cluster& cluster, const WorkloadConfig& workload, const PlanOptions& options,
            const PlanProgress& progress, std::vector<Planned>* planned, std::string* reason);

}  // namespace nearkv::traces
