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

/// Rates of large objects beside memcpy.
void compare_rates(const Options& options, Contestant* local, Contestant* daemon, Report* report);

}  // namespace nearkv::bench
