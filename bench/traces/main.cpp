// nearkv_traces_bench: a simulated cluster under a trace or a made-up workload.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "copy/rounds.hpp"
#include "simulation.hpp"
#include "step_cost.hpp"
#include "workload.hpp"

namespace nearkv::traces {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDescription =
    R"(Simulates a cluster that serves a model: schedulers, GPUs by roofline or measured
table, links and tiers of KV, near-data attention by the cycles of the RTL.

CLUSTER is a TOML file with the cluster and its [workload]; options override it.)";

struct Options {
  std::string cluster;
  std::vector<std::string> traces;
  std::string baselines;
  std::string policy;
  double rate_per_s = 0;
  double trace_speed = 0;
  std::uint64_t requests = 0;
  std::uint64_t users = 0;
  std::string json;
};

int fail(int status, const std::string& message) {
  std::fprintf(stderr, "nearkv_traces_bench: %s\n", message.c_str());
  return status;
}

Json to_json(const Spreading& one) {
  return {{"mean", one.mean}, {"p50", one.p50}, {"p90", one.p90}, {"p99", one.p99}};
}

Json to_json(const Report& report, const Cluster& cluster, double cpu_s) {
  Json moved = Json::object();
  for (const Moved& one : report.moved) {
    moved[one.name] = {{"read_bytes", one.read_bytes}, {"written_bytes", one.written_bytes}};
  }
  const auto requests = static_cast<double>(report.requests);
  return {{"cluster", cluster.name},
          {"policy", cluster.engine.policy},
          {"requests", report.requests},
          {"duration_s", report.duration_s},
          {"ttft_s", to_json(report.ttft_s)},
          {"tpot_s", to_json(report.tpot_s)},
          {"latency_s", to_json(report.latency_s)},
          {"requests_per_s", report.requests_per_s},
          {"output_tokens_per_s", report.output_tokens_per_s},
          {"kept", report.kept},
          {"goodput_per_s", report.goodput_per_s},
          {"cached_share", report.cached_share},
          {"preemptions", report.preemptions},
          {"steps", report.steps},
          {"moved", moved},
          {"dollars", report.dollars},
          {"dollars_per_million_tokens", report.dollars_per_million_tokens},
          {"cpu_s", cpu_s},
          {"requests_per_cpu_minute", cpu_s > 0 ? 60 * requests / cpu_s : 0}};
}

/// Seconds that an engine of the cluster's device needs for a token; 0 where it names no command.
Status device_cost(const Cluster& cluster, const std::string& baselines, double* seconds,
                   std::string* reason) {
  *seconds = 0;
  const std::string& command = cluster.far.device_command;
  if (command.empty()) return Status::kOk;
  std::ifstream input(baselines);
  const auto cycles = Json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (!cycles.is_object()) {
    *reason = "far.device_command needs --baselines, a file like bench/baselines/rtl.json; '" +
              baselines + "' is none";
    return Status::kIoError;
  }
  const auto found = cycles.find(command);
  if (found == cycles.end() || !found->is_number()) {
    *reason = "far.device_command: " + baselines + " has no '" + command +
              "'; it has commands like ddr4/attend_dense";
    return Status::kBadArgument;
  }
  *seconds = seconds_per_token(found->get<double>(), cluster.model);
  return Status::kOk;
}

void apply(const Options& options, Cluster* cluster, WorkloadConfig* workload) {
  workload->block_tokens = cluster->engine.block_tokens;
  workload->names_all_blocks = cluster->engine.prefill_replicas > 0;
  workload->traces = options.traces;
  if (!options.policy.empty()) cluster->engine.policy = options.policy;
  if (options.rate_per_s > 0) workload->rate_per_s = options.rate_per_s;
  if (options.trace_speed > 0) workload->trace_speed = options.trace_speed;
  if (options.requests > 0) workload->requests = options.requests;
  if (options.users > 0) workload->users = options.users;
}

void print(const Report& report, const Cluster& cluster, double cpu_s) {
  std::printf("%s, %s: %lu requests in %.1f s simulated, %.2f s of CPU\n", cluster.name.c_str(),
              cluster.engine.policy.c_str(), report.requests, report.duration_s, cpu_s);
  for (const auto& [name, one] :
       {std::pair("TTFT", report.ttft_s), {"TPOT", report.tpot_s}, {"latency", report.latency_s}}) {
    std::printf("  %-8s mean %10.4f s  p50 %10.4f  p90 %10.4f  p99 %10.4f\n", name, one.mean,
                one.p50, one.p90, one.p99);
  }
  std::printf("  %.3f requests/s, %.1f tokens/s, promise kept %.1f %%, %.1f %% of prompts cached\n",
              report.requests_per_s, report.output_tokens_per_s, 100 * report.kept,
              100 * report.cached_share);
  for (const Moved& one : report.moved) {
    if (one.read_bytes + one.written_bytes == 0) continue;
    std::printf("  %-10s %12.3f GB read %12.3f GB written\n", one.name.c_str(),
                one.read_bytes / 1e9, one.written_bytes / 1e9);
  }
}

int run(const Options& options) {
  Cluster cluster;
  WorkloadConfig config;
  std::string reason;
  std::ifstream input(options.cluster);
  std::ostringstream text;
  if (input) text << input.rdbuf();
  if (!input) return fail(1, "cannot read " + options.cluster);
  double device_s_per_token = 0;
  if (parse_cluster(text.str(), options.cluster, &cluster, &reason) != Status::kOk ||
      parse_workload(text.str(), options.cluster, &config, &reason) != Status::kOk ||
      device_cost(cluster, options.baselines, &device_s_per_token, &reason) != Status::kOk) {
    return fail(2, reason);
  }
  apply(options, &cluster, &config);
  const std::clock_t begin = std::clock();
  std::unique_ptr<Workload> workload;
  std::unique_ptr<Simulation> simulation;
  if (make_workload(config, &workload, &reason) != Status::kOk ||
      Simulation::open(cluster, device_s_per_token, workload.get(), &simulation, &reason) !=
          Status::kOk ||
      simulation->run(&reason) != Status::kOk) {
    return fail(2, reason);
  }
  const double cpu_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const Report report = simulation->report();
  print(report, cluster, cpu_s);
  if (options.json.empty()) return 0;
  return bench::save_results(options.json, to_json(report, cluster, cpu_s));
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app(kDescription, "nearkv_traces_bench");
  app.add_option("CLUSTER", options.cluster, "a TOML file")->required();
  app.add_option("--trace", options.traces, "files of requests, for a workload of kind trace");
  app.add_option("--baselines", options.baselines, "cycles of the RTL's commands, JSON");
  app.add_option("--policy", options.policy, "in place of engine.policy");
  app.add_option("--rate", options.rate_per_s, "in place of workload.rate_per_s");
  app.add_option("--trace-speed", options.trace_speed, "in place of workload.trace_speed");
  app.add_option("--requests", options.requests, "in place of workload.requests; the last counts")
      ->take_last();
  app.add_option("--users", options.users, "in place of workload.users");
  app.add_option("--json", options.json, "write the figures to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(options);
}

}  // namespace
}  // namespace nearkv::traces

int main(int argc, char** argv) {
  try {
    return nearkv::traces::parse_and_run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "nearkv_traces_bench: %s\n", failure.what());
    return 1;
  }
}
