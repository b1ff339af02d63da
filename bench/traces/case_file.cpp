#include "case_file.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "step_cost.hpp"

namespace nearkv::traces {
namespace {

Status device_cost(const Cluster& cluster, const std::string& baselines, double* seconds,
                   std::string* reason) {
  *seconds = 0;
  const std::string& command = cluster.far.device_command;
  if (command.empty()) return Status::kOk;
  std::ifstream input(baselines);
  const auto cycles = nlohmann::json::parse(input, nullptr, /*allow_exceptions=*/false);
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

}  // namespace

Status read_case(const std::string& file, const std::string& baselines, Cluster* cluster,
                 WorkloadConfig* workload, double* device_s_per_token, std::string* reason) {
  std::ifstream input(file);
  std::ostringstream text;
  if (input) text << input.rdbuf();
  if (!input) {
    *reason = "cannot read " + file;
    return Status::kIoError;
  }
  Status status = parse_cluster(text.str(), file, cluster, reason);
  if (status == Status::kOk) status = parse_workload(text.str(), file, workload, reason);
  if (status == Status::kOk) status = device_cost(*cluster, baselines, device_s_per_token, reason);
  if (status == Status::kOk) workload->block_tokens = cluster->engine.block_tokens;
  return status;
}

}  // namespace nearkv::traces
