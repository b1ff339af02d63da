// Which cores a device's threads work on.
#pragma once

#include <vector>

namespace nearkv {

/// Cores that any thread of this process may use now, in ascending order; with `node` 0 or more,
/// those of that NUMA node, or all if it has none of them. Never empty.
///
/// The calling thread alone is no measure: an OpenMP runtime that binds its team binds the thread
/// that calls it to one core, and the others of the team to the rest.
[[nodiscard]] std::vector<int> process_cores(int node);

}  // namespace nearkv
