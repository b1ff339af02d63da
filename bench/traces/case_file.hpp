// A cluster's file with all that programs read of it.
#pragma once

#include <string>

#include "cluster.hpp"
#include "workload.hpp"

namespace nearkv::traces {

/// Reads the cluster and its [workload] from a TOML file. `device_s_per_token` is what an engine of
/// its far device needs for a token, by the cycles of `baselines`, a file like
/// bench/baselines/rtl.json; 0 where the cluster names no command of it. kIoError or kBadArgument
/// with a `reason` that names file, line and mend.
Status read_case(const std::string& file, const std::string& baselines, Cluster* cluster,
                 WorkloadConfig* workload, double* device_s_per_token, std::string* reason);

}  // namespace nearkv::traces
