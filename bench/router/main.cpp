// Speed and memory of the router's index, and its decisions, while events come in.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "rates.hpp"

int main(int argc, char** argv) try {
  nearkv::bench::RouterBenchOptions options;
  std::string json;
  CLI::App app("Measures lookups and routing beside std::unordered_map, while events come in");
  app.add_option("--blocks", options.fleet.blocks, "in all caches")->capture_default_str();
  app.add_option("--workers", options.fleet.workers, "with caches")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--seed", options.fleet.seed, "of all that is drawn")->capture_default_str();
  app.add_option("--trace", options.fleet.trace, "requests with hash_ids, one JSON object a line")
      ->check(CLI::ExistingFile);
  app.add_option("--events", options.events_per_s, "blocks stored or removed each second")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--requests", options.requests, "of one repetition")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--repeats", options.repeats, "of which medians are taken")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--json", json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  nearkv::bench::Report report;
  nearkv::bench::bench_router(options, &report);
  if (json.empty() || report.write_json(json)) return 0;
  std::fprintf(stderr, "cannot write %s\n", json.c_str());
  return 1;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
