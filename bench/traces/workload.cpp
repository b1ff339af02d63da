#include "workload.hpp"

#include "daemon/server/config_table.hpp"
#include "workloads/kinds.hpp"

namespace nearkv::traces {
namespace {

constexpr double kMost = 1e12;
constexpr std::uint64_t kMany = 1'000'000'000'000;

void take_spread(ConfigTable* table, std::string_view key, Spread* spread) {
  auto index = static_cast<std::size_t>(*spread);
  table->take_choice(key, {"constant", "exponential", "lognormal"}, &index);
  *spread = static_cast<Spread>(index);
}

void read(ConfigTable table, WorkloadConfig* config) {
  const std::vector<std::string_view> kinds{"poisson", "closed",  "agents",
                                            "rag",     "rollout", "trace"};
  std::size_t kind = 0;
  table.take_choice("kind", kinds, &kind);
  config->kind = kinds[kind];
  table.take("seed", &config->seed, 0, kMany);
  table.take("requests", &config->requests, 1, kMany);
  table.take("rate_per_s", &config->rate_per_s, 1e-9, kMost);
  table.take("prompt_tokens", &config->prompt_tokens, 1, kMost);
  table.take("output_tokens", &config->output_tokens, 1, kMost);
  take_spread(&table, "prompt_spread", &config->prompt_spread);
  take_spread(&table, "output_spread", &config->output_spread);
  table.take("lognormal_sigma", &config->lognormal_sigma, 0, 10);
  table.take("prefix_tokens", &config->prefix_tokens, 0, kMost);
  table.take("prefixes", &config->prefixes, 1, kMany);
  table.take("users", &config->users, 1, 1'000'000);
  table.take("think_s", &config->think_s, 0, kMost);
  table.take("agents", &config->agents, 1, scheduler::AgentStepGraph::kMostAgents);
  table.take("fixed_tokens", &config->fixed_tokens, 0, kMost);
  table.take("documents", &config->documents, 1, 10'000'000);
  table.take("document_tokens", &config->document_tokens, 1, kMost);
  table.take("zipf_exponent", &config->zipf_exponent, 0, 10);
  table.take("documents_per_prompt", &config->documents_per_prompt, 1, 1000);
  table.take("samples", &config->samples, 1, 1'000'000);
  table.take("trace_speed", &config->trace_speed, 1e-6, 1e9);
  table.take("trace_block_tokens", &config->trace_block_tokens, 1, 1'000'000);
  table.done();
}

}  // namespace

Status parse_workload(const std::string& text, const std::string& file, WorkloadConfig* config,
                      std::string* reason) {
  try {
    const toml::table document = toml::parse(text, file);
    ConfigTable table(file, "", document);
    if (auto part = table.table("workload")) read(*part, config);
    return Status::kOk;
  } catch (const ConfigError& error) {
    *reason = error.what();
  } catch (const toml::parse_error& error) {
    *reason = file + ":" + std::to_string(error.source().begin.line) + ": " +
              std::string(error.description());
  }
  return Status::kBadArgument;
}

Status make_workload(const WorkloadConfig& config, std::unique_ptr<Workload>* workload,
                     std::string* reason) {
  if (config.kind == "trace") return make_trace(config, workload, reason);
  if (config.kind == "closed") *workload = make_closed(config);
  if (config.kind == "agents") *workload = make_agents(config);
  if (config.kind == "rag") *workload = make_rag(config);
  if (config.kind == "rollout") *workload = make_rollouts(config);
  if (config.kind == "poisson") *workload = make_poisson(config);
  return Status::kOk;
}

}  // namespace nearkv::traces
