#include "card/locality.hpp"

#include <filesystem>
#include <fstream>

namespace nearkv {
namespace {

namespace fs = std::filesystem;

fs::path cxl_folder(const std::string& name) { return fs::path("/sys/bus/cxl/devices") / name; }
fs::path node_folder() { return "/sys/devices/system/node"; }

template <typename Number>
std::optional<Number> read_number(const fs::path& path) {
  std::ifstream file(path);
  Number number{};
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The node of a region, by its DAX device: dax_region0/dax0.0.
std::optional<int> find_node(const fs::path& region) {
  std::error_code ignored;
  for (const fs::directory_entry& folder : fs::directory_iterator(region, ignored)) {
    if (!folder.path().filename().string().starts_with("dax_region")) continue;
    for (const fs::directory_entry& dax : fs::directory_iterator(folder.path(), ignored)) {
      const auto node = read_number<int>(dax.path() / "target_node");
      if (node && *node >= 0) return node;
    }
  }
  return std::nullopt;
}

/// A node's distances stand in the order of nodes that are online: "0-1,3".
std::map<int, int> read_distances(int node) {
  std::map<int, int> distances;
  std::ifstream online(node_folder() / "online");
  std::ifstream file(node_folder() / ("node" + std::to_string(node)) / "distance");
  for (int first = 0; online >> first; online.get()) {
    int last = first;
    if (online.peek() == '-') {
      online.get();
      online >> last;
    }
    for (int distance = 0; first <= last && file >> distance; ++first) distances[first] = distance;
  }
  return distances;
}

}  // namespace

CardLocality read_locality(const std::string& module, const std::string& region) {
  CardLocality locality;
  locality.qos_class = read_number<int>(cxl_folder(module) / "ram" / "qos_class");
  if (locality.qos_class && *locality.qos_class < 0) locality.qos_class.reset();
  if (region.empty()) return locality;
  locality.node = find_node(cxl_folder(region));
  if (locality.node) locality.distances = read_distances(*locality.node);
  const fs::path access = cxl_folder(region) / "access0";
  locality.read_latency_ns = read_number<std::uint64_t>(access / "read_latency");
  locality.write_latency_ns = read_number<std::uint64_t>(access / "write_latency");
  locality.read_megabytes_per_s = read_number<std::uint64_t>(access / "read_bandwidth");
  locality.write_megabytes_per_s = read_number<std::uint64_t>(access / "write_bandwidth");
  return locality;
}

}  // namespace nearkv
