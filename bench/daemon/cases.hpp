// What is measured of a daemon.
#pragma once

#include <nlohmann/json.hpp>

#include "copy/rounds.hpp"
#include "stores.hpp"

namespace nearkv::bench {

/// Latencies of small batches: what the daemon adds to a store in this process. `where` stands in
/// the results' names.
void compare_latencies(const Options& options, const std::string& where, Contestant* local,
                       Contestant* daemon, nlohmann::json* results);

struct NamedContestant {
  std::string name;
  Contestant* contestant;
};

/// Rates of large objects beside memcpy; `name` begins the results' names.
void compare_rates(const Options& options, const std::string& name,
                   const std::vector<NamedContestant>& contestants, Report* report);

}  // namespace nearkv::bench
