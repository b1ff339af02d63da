#include "report.hpp"

#include <malloc.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace nearkv::bench {

void Report::add(const Figure& figure) {
  figures_.push_back(figure);
  std::printf("%-44s %12.4g %-8s", figure.name.c_str(), figure.value, figure.unit.c_str());
  if (!figure.peer.empty()) {
    std::printf("  %5.2f x  %12.4g  %s", figure.value / figure.peer_value, figure.peer_value,
                figure.peer.c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

bool Report::write_json(const std::string& path) const {
  nlohmann::json results = nlohmann::json::array();
  for (const Figure& figure : figures_) {
    const bool alone = figure.peer.empty();
    results.push_back(
        {{"name", figure.name},
         {"value", figure.value},
         {"unit", figure.unit},
         {"peer", alone ? nlohmann::json() : nlohmann::json(figure.peer)},
         {"peer_value", alone ? nlohmann::json() : nlohmann::json(figure.peer_value)}});
  }
  std::ofstream file(path);
  file << nlohmann::json{{"results", results}}.dump(1) << '\n';
  return file.good();
}

std::size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace nearkv::bench
