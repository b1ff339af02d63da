// nearkv_daemon_bench: what it costs that a pool is another process's.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cases.hpp"

int main(int argc, char** argv) try {
  CLI::App app("Latencies and rates through a daemon, beside a store in this process and memcpy.");
  nearkv::bench::Options options;
  std::string json_path;
  std::size_t working_set_mib = options.working_set_bytes >> 20;
  app.add_option("--json", json_path, "Write the results to this file");
  app.add_option("--rounds", options.rounds, "Measured runs of each contender")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--calls", options.calls, "Calls of a round of latencies")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--working-set-mib", working_set_mib, "Objects together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.working_set_bytes = working_set_mib << 20;
  const std::uint64_t pool_bytes = 2 * options.working_set_bytes + (128ULL << 20);

  nearkv::bench::ChildDaemon child(pool_bytes);
  nearkv::bench::Contestant local =
      nearkv::bench::local_contestant(pool_bytes, options.window_bytes);
  nearkv::bench::Contestant daemon =
      nearkv::bench::daemon_contestant(child.socket(), options.window_bytes);
  nlohmann::json results = nlohmann::json::array();
  {
    const nearkv::bench::OwnCores apart(child.process());
    nearkv::bench::compare_latencies(options, "own_cores", &local, &daemon, &results);
  }
  nearkv::bench::compare_latencies(options, "any_core", &local, &daemon, &results);
  nearkv::bench::Report report(options.rounds);
  nearkv::bench::compare_rates(options, "daemon", {{"in process", &local}, {"daemon", &daemon}},
                               &report);
  for (const auto& result : report.results()) results.push_back(result);
  return nearkv::bench::save_results(json_path, results);
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
