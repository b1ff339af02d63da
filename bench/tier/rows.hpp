// What was measured: printed at once, and kept as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace nearkv::tier_bench {

/// One thing measured several times, and what it stands beside, in the same unit and rounds.
struct Row {
  std::string name;  ///< Words joined by slashes, the group first.
  std::string unit;
  std::vector<double> readings;
  std::string peer{};
  std::vector<double> peer_readings{};
  nlohmann::json extra = nlohmann::json::object();
};

class Rows {
 public:
  /// Prints the medians.
  void add(const Row& row);
  /// False: the file cannot be written.
  [[nodiscard]] bool write_json(const std::string& path) const;

 private:
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace nearkv::tier_bench
