// What the router bench measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fleet.hpp"
#include "index/report.hpp"

namespace nearkv::bench {

struct RouterBenchOptions {
  FleetOptions fleet;
  double events_per_s = 100'000;  ///< Blocks that are stored or removed.
  std::size_t requests = 20'000;  ///< Of one repetition.
  unsigned repeats = 5;
};

/// Lookups and memory beside MapIndex, in turns; routing of each policy.
void bench_router(const RouterBenchOptions& options, Report* report);

}  // namespace nearkv::bench
