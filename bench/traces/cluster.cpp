#include "cluster.hpp"

#include <fstream>
#include <set>
#include <sstream>

#include "daemon/server/config_table.hpp"

namespace nearkv::traces {
namespace {

constexpr double kMost = 1e18;
constexpr double kLeast = 1e-12;
constexpr double kMostBlocks = 1U << 30;

void read_model(ConfigTable table, Model* model) {
  table.take("parameters", &model->parameters, 1, kMost);
  table.take("active_parameters", &model->active_parameters, 0, kMost);
  table.take("bytes_per_parameter", &model->bytes_per_parameter, 0.01, 8);
  table.take("layers", &model->layers, 1, 10'000);
  table.take("query_heads", &model->query_heads, 1, 10'000);
  table.take("kv_heads", &model->kv_heads, 1, 10'000);
  table.take("head_dim", &model->head_dim, 1, 10'000);
  table.take("kv_bytes_per_token", &model->kv_bytes_per_token, 1, kMost);
  table.take("window_layers_share", &model->window_layers_share, 0, 1);
  table.take("window_tokens", &model->window_tokens, 0, kMost);
  table.done();
}

/// Points of a curve, in rising order.
std::vector<std::pair<double, double>> read_measured(ConfigTable* table, std::string_view name,
                                                     const std::string& of) {
  std::vector<std::pair<double, double>> points;
  for (ConfigTable point : table->tables(name)) {
    double at = 0;
    double seconds = 0;
    point.take(of, &at, 1, kMost);
    point.take("seconds", &seconds, kLeast, kMost);
    if (!point.has(of) || !point.has("seconds") || (!points.empty() && at <= points.back().first)) {
      std::ostringstream why;
      why << "each point has " << of << " and seconds, and more " << of << " than the last";
      point.refuse(of, why.str());
    }
    point.done();
    points.emplace_back(at, seconds);
  }
  return points;
}

void read_gpu(ConfigTable table, Gpu* gpu) {
  table.take("count", &gpu->count, 1, 10'000);
  table.take("flops", &gpu->flops, 1, kMost);
  table.take("hbm_bytes_per_s", &gpu->hbm_bytes_per_s, 1, kMost);
  table.take("hbm_bytes", &gpu->hbm_bytes, 1, kMost);
  table.take("flops_share", &gpu->flops_share, 0.001, 1);
  table.take("hbm_share", &gpu->hbm_share, 0.001, 1);
  table.take("step_overhead_s", &gpu->step_overhead_s, 0, 10);
  table.take("exchange_bytes_per_s", &gpu->exchange_bytes_per_s, 1, kMost);
  table.take("exchange_latency_s", &gpu->exchange_latency_s, 0, 10);
  gpu->prefill_s_by_tokens = read_measured(&table, "measured_prefill", "tokens");
  gpu->decode_s_by_sequences = read_measured(&table, "measured_decode", "sequences");
  table.done();
}

void read_engine(ConfigTable table, Engine* engine) {
  constexpr std::uint64_t kMany = 1'000'000;
  table.take("replicas", &engine->replicas, 1, 10'000);
  table.take("prefill_replicas", &engine->prefill_replicas, 0, 10'000);
  table.take("prefill_gpu_count", &engine->prefill_gpu_count, 0, 10'000);
  table.take("token_budget", &engine->token_budget, 1, 1U << 30);
  table.take("most_running", &engine->most_running, 1, kMany);
  table.take("block_tokens", &engine->block_tokens, 1, kMany);
  table.take("pool_bytes", &engine->pool_bytes, 0, kMost);
  table.take("swap_bytes", &engine->swap_bytes, 0, kMost);
  table.take("swap_bytes_per_s", &engine->swap_bytes_per_s, 1, kMost);
  table.take("balances_load", &engine->balances_load);
  table.take("hands_over_blocks", &engine->hands_over_blocks);
  if (engine->prefill_replicas >= engine->replicas && engine->prefill_replicas > 0) {
    table.refuse("prefill_replicas", "fewer than replicas are allowed: the others decode");
  }
  const std::vector<std::string_view> names = scheduler::policy_names();
  std::size_t policy = 1;
  table.take_choice("policy", names, &policy);
  engine->policy = names[policy];
  std::vector<std::string_view> evictions{"step_graph"};
  const auto shipped = shipped_eviction_policies();
  for (const auto& one : shipped) evictions.push_back(one.name);
  std::size_t eviction = 1;
  table.take_choice("eviction", evictions, &eviction);
  engine->eviction = evictions[eviction];
  std::uint64_t k = engine->policies.prefix_match.k;
  table.take("k", &k, 1, kMany);
  engine->policies.prefix_match.k = static_cast<std::uint32_t>(k);
  table.done();
}

void read_far(ConfigTable table, FarAttention* far) {
  far->is_used = true;
  table.take("resident_tokens", &far->resident_tokens, 0, kMost);
  table.take("resident_bytes", &far->resident_bytes, 0, kMost);
  table.take("pulled_tokens", &far->pulled_tokens, 0, kMost);
  table.take("pulled_share", &far->pulled_share, 0, 1);
  table.take("pulled_bytes_share", &far->pulled_bytes_share, 0, 10);
  table.take("device_bytes_share", &far->device_bytes_share, 0, 10);
  table.take("device_bytes_per_s", &far->device_bytes_per_s, 1, kMost);
  table.take("device_command", &far->device_command, "a name of bench/baselines/rtl.json");
  table.take("device_engines", &far->device_engines, 1, 1e6);
  table.take("exchange_bytes", &far->exchange_bytes, 0, kMost);
  table.take("link_bytes_per_s", &far->link_bytes_per_s, 1, kMost);
  table.take("layer_latency_s", &far->layer_latency_s, 0, 10);
  table.take("overlaps", &far->overlaps);
  table.done();
}

void read_tiers(std::vector<ConfigTable> tables, std::vector<TierConfig>* tiers) {
  std::set<std::string> names;
  for (ConfigTable& table : tables) {
    TierConfig tier;
    table.take("name", &tier.name, "a name, such as \"cxl\",");
    table.take("capacity_bytes", &tier.capacity_bytes, 1, kMost);
    table.take("bytes_per_s", &tier.bytes_per_s, 1, kMost);
    table.take("latency_s", &tier.latency_s, 0, 100);
    table.take("block_s", &tier.block_s, 0, 100);
    table.take("write_bytes_per_s", &tier.write_bytes_per_s, 0, kMost);
    table.take("is_shared", &tier.is_shared);
    if (tier.name.empty() || !names.insert(tier.name).second) {
      table.refuse("name", "each tier has a name of its own");
    }
    if (tier.capacity_bytes == 0) table.refuse("capacity_bytes", "it is missing");
    table.done();
    tiers->push_back(tier);
  }
}

void read_failures(std::vector<ConfigTable> tables, const Engine& engine,
                   std::vector<Failure>* failures) {
  for (ConfigTable& table : tables) {
    Failure failure;
    table.take("at_s", &failure.at_s, 0, kMost);
    table.take("replica", &failure.replica, 0, engine.replicas - 1);
    table.take("down_s", &failure.down_s, 0, kMost);
    table.done();
    failures->push_back(failure);
  }
}

void read(const toml::table& document, const std::string& file, Cluster* cluster) {
  ConfigTable table(file, "", document);
  table.take("name", &cluster->name, "a name");
  if (auto part = table.table("model")) read_model(*part, &cluster->model);
  if (auto part = table.table("gpu")) read_gpu(*part, &cluster->gpu);
  if (auto part = table.table("engine")) read_engine(*part, &cluster->engine);
  if (auto part = table.table("far")) read_far(*part, &cluster->far);
  read_tiers(table.tables("tiers"), &cluster->tiers);
  read_failures(table.tables("failures"), cluster->engine, &cluster->failures);
  if (auto part = table.table("promise")) {
    part->take("ttft_s", &cluster->promise.ttft_s, kLeast, kMost);
    part->take("tpot_s", &cluster->promise.tpot_s, kLeast, kMost);
    part->take("tbt_s", &cluster->promise.tbt_s, kLeast, kMost);
    part->done();
  }
  if (auto part = table.table("prices")) {
    part->take("gpu_hour", &cluster->prices.gpu_hour, 0, kMost);
    part->take("gigabyte_hour", &cluster->prices.gigabyte_hour, 0, kMost);
    part->done();
  }
  static_cast<void>(table.table("workload"));  // parse_workload() reads it
  table.done();
  // The first replica is of those that prefill where there are any, the last is not.
  if (cluster->as_seen_by(0).pool_blocks() == 0 || cluster->pool_blocks() == 0) {
    throw ConfigError(file + ": " + kNoRoom);
  }
}

}  // namespace

std::uint32_t Cluster::pool_blocks() const {
  const double weights = model.parameters * model.bytes_per_parameter;
  const double left = 0.9 * gpu.hbm_bytes * gpu.count - weights;
  const double bytes = engine.pool_bytes > 0 ? engine.pool_bytes : std::max(left, 0.0);
  return static_cast<std::uint32_t>(std::min(bytes / block_bytes(), kMostBlocks));
}

double Cluster::gpus() const {
  const auto prefilling = static_cast<double>(engine.prefill_replicas);
  const double own = engine.prefill_gpu_count > 0 ? engine.prefill_gpu_count : gpu.count;
  return prefilling * own + (static_cast<double>(engine.replicas) - prefilling) * gpu.count;
}

Cluster Cluster::as_seen_by(std::uint64_t replica) const {
  Cluster seen = *this;
  if (replica < engine.prefill_replicas && engine.prefill_gpu_count > 0) {
    seen.gpu.count = engine.prefill_gpu_count;
  }
  return seen;
}

Status parse_cluster(const std::string& text, const std::string& file, Cluster* cluster,
                     std::string* reason) {
  *cluster = {};
  try {
    read(toml::parse(text, file), file, cluster);
    return Status::kOk;
  } catch (const ConfigError& error) {
    *reason = error.what();
  } catch (const toml::parse_error& error) {
    std::ostringstream out;
    out << file << ":" << error.source().begin.line << ": not TOML: " << error.description();
    *reason = out.str();
  }
  return Status::kBadArgument;
}

Status read_cluster(const std::string& file, Cluster* cluster, std::string* reason) {
  std::ifstream input(file);
  std::ostringstream text;
  if (input) text << input.rdbuf();
  if (!input) {
    *reason = "cannot read " + file;
    return Status::kIoError;
  }
  return parse_cluster(text.str(), file, cluster, reason);
}

}  // namespace nearkv::traces
