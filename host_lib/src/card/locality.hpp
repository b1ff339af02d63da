// How far a card's memory is from processors: what firmware tables (SLIT, HMAT) and the module
// (CDAT) say, as the kernel has put it together.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace nearkv {

/// Nothing stands for what the kernel does not say.
struct CardLocality {
  std::optional<int> node;       ///< That the region is, or would be if it were system RAM.
  std::map<int, int> distances;  ///< From it to each node; 10 is local. Empty while it is none.
  std::optional<int> qos_class;  ///< Of the module's volatile memory.
  // Between the region and the nearest that accesses it ("access0").
  std::optional<std::uint64_t> read_latency_ns;
  std::optional<std::uint64_t> write_latency_ns;
  std::optional<std::uint64_t> read_megabytes_per_s;
  std::optional<std::uint64_t> write_megabytes_per_s;
};

/// `module` as "mem0"; `region` as "region0", or "" if there is none.
[[nodiscard]] CardLocality read_locality(const std::string& module, const std::string& region);

}  // namespace nearkv
