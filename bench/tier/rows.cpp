#include "rows.hpp"

#include <cstdio>
#include <fstream>

#include "index/report.hpp"

namespace nearkv::tier_bench {

void Rows::add(const Row& row) {
  const double median = bench::median(row.readings);
  std::printf("%-44s %12.4g %-9s", row.name.c_str(), median, row.unit.c_str());
  nlohmann::json document = {
      {"name", row.name}, {"unit", row.unit}, {"readings", row.readings}, {"extra", row.extra}};
  if (!row.peer.empty()) {
    const double peer = bench::median(row.peer_readings);
    std::printf(" %5.3f x %12.4g  %s", median / peer, peer, row.peer.c_str());
    document["peer"] = row.peer;
    document["peer_readings"] = row.peer_readings;
  }
  std::printf("\n");
  std::fflush(stdout);
  rows_.push_back(std::move(document));
}

bool Rows::write_json(const std::string& path) const {
  std::ofstream file(path);
  file << nlohmann::json{{"rows", rows_}}.dump(1) << '\n';
  file.close();
  return file.good();
}

}  // namespace nearkv::tier_bench
