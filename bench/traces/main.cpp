// nearkv_traces_bench: a simulated cluster under a trace or a made-up workload.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "case_file.hpp"
#include "cluster.hpp"
#include "copy/rounds.hpp"
#include "report_json.hpp"
#include "simulation.hpp"
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
  double tbt_s = 0;
  std::uint64_t requests = 0;
  std::uint64_t users = 0;
  std::vector<std::string> tiers;
  bool has_tiers = true;
  std::string json;
};

int fail(int status, const std::string& message) {
  std::fprintf(stderr, "nearkv_traces_bench: %s\n", message.c_str());
  return status;
}

/// The report, and what it cost to find out.
Json to_json(const Report& report, const Cluster& cluster, double cpu_s) {
  Json all{{"cluster", cluster.name}, {"policy", cluster.engine.policy}};
  all.update(to_json(report));
  all["cpu_s"] = cpu_s;
  all["requests_per_cpu_minute"] =
      cpu_s > 0 ? 60 * static_cast<double>(report.requests) / cpu_s : 0;
  return all;
}

void apply(const Options& options, Cluster* cluster, WorkloadConfig* workload) {
  workload->names_all_blocks = cluster->engine.prefill_replicas > 0;
  workload->traces = options.traces;
  if (!options.policy.empty()) cluster->engine.policy = options.policy;
  if (options.tbt_s > 0) cluster->promise.tbt_s = options.tbt_s;
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

/// Keeps the tiers that are named. kBadArgument with a `reason` if one is none of the cluster's.
Status choose_tiers(const Options& options, Cluster* cluster, std::string* reason) {
  if (!options.has_tiers) cluster->tiers.clear();
  if (options.tiers.empty()) return Status::kOk;
  const auto is_named = [&](const TierConfig& tier) {
    return std::ranges::find(options.tiers, tier.name) != options.tiers.end();
  };
  for (const std::string& name : options.tiers) {
    if (std::ranges::find(cluster->tiers, name, &TierConfig::name) != cluster->tiers.end())
      continue;
    *reason = "--tiers: " + options.cluster + " has no tier '" + name + "'";
    return Status::kBadArgument;
  }
  std::erase_if(cluster->tiers, [&](const TierConfig& tier) { return !is_named(tier); });
  return Status::kOk;
}

int run(const Options& options) {
  Cluster cluster;
  WorkloadConfig config;
  std::string reason;
  double device_s_per_token = 0;
  if (read_case(options.cluster, options.baselines, &cluster, &config, &device_s_per_token,
                &reason) != Status::kOk ||
      choose_tiers(options, &cluster, &reason) != Status::kOk) {
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
  app.add_option("--tbt", options.tbt_s, "in place of promise.tbt_s");
  app.add_option("--requests", options.requests, "in place of workload.requests; the last counts")
      ->take_last();
  app.add_option("--users", options.users, "in place of workload.users");
  app.add_option("--tiers", options.tiers, "keep these of the cluster's tiers")->delimiter(',');
  app.add_flag("!--no-tiers", options.has_tiers, "keep none of them");
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
