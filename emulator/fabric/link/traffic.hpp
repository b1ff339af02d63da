// What cores do with a system: streams and random accesses, and near-data commands.
#pragma once

#include <cstdint>

#include "fabric/link/system.hpp"

namespace nearkv::fabric {

/// Of each host. Its core or cores keep so many lines under way.
struct Traffic {
  unsigned outstanding = 1;
  unsigned write_percent = 0;
  bool is_random = false;  ///< Else a sequence of lines, each host its own.
  std::uint64_t lines = 20'000;
  std::uint64_t seed = 1;
};

struct Measured {
  double gigabytes_per_s = 0;  ///< Of all hosts, both directions together.
  double mean_ns = 0;          ///< From core to core.
  double p50_ns = 0;
  double p99_ns = 0;
};

Measured measure(const Shape& shape, const Traffic& traffic);

/// A command to the engine of a card that does nothing else: from the store to its doorbell until a
/// core that polls sees its completion. `engine`: from doorbell to the completion's write, on the
/// card.
Picoseconds time_command(const Shape& shape, Picoseconds engine);

}  // namespace nearkv::fabric
