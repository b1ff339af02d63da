// Latencies, bandwidths and near-data commands on simulated systems of hosts and cards.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "copy/rounds.hpp"
#include "fabric/link/parts.hpp"
#include "fabric/link/traffic.hpp"

namespace {

using namespace nearkv::fabric;  // NOLINT(google-build-using-namespace)
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<double> commands_ns;
  std::uint64_t lines = 100'000;
  std::uint64_t seed = 1;
  std::string json;
};

/// Cards and hosts that stand at one switch.
Json measure_scale(const Part& part, const Options& options) {
  Json rows = Json::array();
  for (const auto& [hosts, cards] : {std::pair{1U, 1U}, {1U, 4U}, {4U, 1U}, {4U, 4U}}) {
    Shape shape = part.shape;
    shape.hosts = hosts;
    shape.cards = cards;
    const Measured stream =
        measure(shape, {.outstanding = 256, .lines = options.lines / hosts, .seed = options.seed});
    rows.push_back({{"hosts", hosts},
                    {"cards", cards},
                    {"gigabytes_per_s", stream.gigabytes_per_s},
                    {"p50_ns", stream.p50_ns},
                    {"p99_ns", stream.p99_ns}});
  }
  return rows;
}

Json measure_part(const Part& part, const Options& options) {
  const Traffic chase{
      .outstanding = 1, .is_random = true, .lines = options.lines / 10, .seed = options.seed};
  Json bandwidths = Json::array();
  for (const unsigned write_percent : {0U, 33U, 50U}) {
    for (const bool is_random : {false, true}) {
      const Measured measured = measure(part.shape, {.outstanding = 256,
                                                     .write_percent = write_percent,
                                                     .is_random = is_random,
                                                     .lines = options.lines,
                                                     .seed = options.seed});
      bandwidths.push_back({{"write_percent", write_percent},
                            {"is_random", is_random},
                            {"gigabytes_per_s", measured.gigabytes_per_s}});
    }
  }
  Json commands = Json::array();
  for (const double engine_ns : options.commands_ns) {
    const auto engine = static_cast<Picoseconds>(engine_ns * kNanosecond);
    commands.push_back(static_cast<double>(time_command(part.shape, engine)) / kNanosecond);
  }
  return {{"name", part.name},
          {"what", part.what},
          {"idle_ns", measure(part.shape, chase).mean_ns},
          {"bandwidths", bandwidths},
          {"commands_ns", commands},
          {"scale", part.shape.fabric_switch ? measure_scale(part, options) : Json()}};
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Simulates CXL links, switches and DRAM between hosts and cards");
  app.add_option("--command", options.commands_ns, "nanoseconds that an engine takes; repeatable");
  app.add_option("--lines", options.lines, "that each measurement moves")
      ->check(CLI::Range(100U, 100'000'000U))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of all that is drawn")->capture_default_str();
  app.add_option("--json", options.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  Json rows = Json::array();
  for (const Part& part : parts()) {
    std::printf("%s\n", std::string(part.what).c_str());
    std::fflush(stdout);
    rows.push_back(measure_part(part, options));
  }
  if (options.json.empty()) {
    std::printf("%s\n", rows.dump(2).c_str());
    return 0;
  }
  return nearkv::bench::save_results(options.json, rows);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
