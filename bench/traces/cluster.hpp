// A cluster: what serves, and what it costs. Read from a TOML file; clusters/ has examples.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "nearkv/status.hpp"
#include "policies/policies.hpp"

namespace nearkv::traces {

using scheduler::Seconds;

/// The shape of a model, as far as it decides bytes and operations.
struct Model {
  double parameters = 8.03e9;
  double active_parameters = 0;  ///< That one token uses; 0: all.
  double bytes_per_parameter = 2;
  double layers = 32;
  double query_heads = 32;
  double kv_heads = 8;
  double head_dim = 128;
  double kv_bytes_per_token = 131072;  ///< All layers.
  double window_layers_share = 0;      ///< Of its layers, those that attend to a window only,
  double window_tokens = 0;            ///< of this length.
};

/// The GPUs of one replica, which split each layer among them.
struct Gpu {
  double count = 1;
  double flops = 989e12;  ///< Of one GPU, in the weights' type, dense.
  double hbm_bytes_per_s = 3.35e12;
  double hbm_bytes = 80e9;
  double flops_share = 0.55;  ///< Of the peak, that large products of matrices reach.
  double hbm_share = 0.8;
  Seconds step_overhead_s = 0.5e-3;     ///< Launches, sampling, the scheduler itself.
  double exchange_bytes_per_s = 450e9;  ///< NVLink, one way; used if count > 1,
  Seconds exchange_latency_s = 0;       ///< as is this, for each of the ring's steps.
  /// Measured, by tokens of prompts and by sequences that decode; empty: the roofline.
  std::vector<std::pair<double, double>> prefill_s_by_tokens{};
  std::vector<std::pair<double, double>> decode_s_by_sequences{};
};

/// Where decodes find the KV that is not in HBM, and who attends to it.
struct FarAttention {
  bool is_used = false;
  double resident_tokens = 0;  ///< Of each sequence, the newest: in HBM.
  double resident_bytes = 0;   ///< Of all that run, in HBM, if more than that.
  double pulled_tokens = 0;    ///< Of each sequence and step, over the link; the most.
  double pulled_share = 0;     ///< The same as a share of what is not resident; the larger counts.
  double pulled_bytes_share = 1;  ///< Bytes over the link for each byte of KV: compression.
  double device_bytes_share = 0;  ///< Bytes that the device reads, for each that is far.
  double device_bytes_per_s = 1;  ///< All modules.
  std::string device_command{};   ///< Or: seconds by the cycles of the RTL's command,
  double device_engines = 1;      ///< on as many engines.
  double exchange_bytes = 0;      ///< A sequence's queries and results, a step.
  double link_bytes_per_s = 64e9;
  Seconds layer_latency_s = 0;  ///< Each layer, that nothing overlaps.
  bool overlaps = false;        ///< The far part and the GPU's work at the same time.
};

/// A tier of KV blocks below the pool.
struct TierConfig {
  std::string name;
  double capacity_bytes = 0;
  double bytes_per_s = 64e9;
  Seconds latency_s = 1e-6;
  Seconds block_s = 0;           ///< Beside its bytes: pieces, descriptors, copies.
  double write_bytes_per_s = 0;  ///< Beside what is read; 0: what is written is there at once.
  bool is_shared = false;        ///< By all replicas, link and contents; else each has its own.
};

struct Engine {
  std::uint64_t replicas = 1;
  std::uint64_t prefill_replicas = 0;  ///< Of them; the others only decode. 0: all do both.
  double prefill_gpu_count = 0;        ///< GPUs of each of those; 0: gpu.count.
  /// Who prefills hands over whole blocks alone: the other computes the rest, and the first token.
  bool hands_over_blocks = false;
  std::uint64_t token_budget = 2048;
  std::uint64_t most_running = 256;
  std::uint64_t block_tokens = 16;
  double pool_bytes = 0;  ///< For KV, of a replica; 0: what weights leave of 90 % of HBM.
  double swap_bytes = 0;  ///< Host memory for preempted requests.
  double swap_bytes_per_s = 25e9;
  bool balances_load = true;  ///< To whom fewest tokens are left; else to each in turn.
  std::string policy = "sarathi";
  std::string eviction = "lru";  ///< Or step_graph, or any of host_lib's.
  scheduler::PolicyOptions policies{};
};

/// A replica's machine goes, and comes back with nothing in its memory.
struct Failure {
  Seconds at_s = 0;
  std::uint64_t replica = 0;  ///< By number; those that only prefill come first.
  Seconds down_s = 0;
};

struct Promise {
  Seconds ttft_s = 1;
  Seconds tpot_s = 0.1;
  /// Between any two tokens of a request, where that is promised beside their mean.
  Seconds tbt_s = std::numeric_limits<Seconds>::infinity();
};

struct Prices {
  double gpu_hour = 0;       ///< In dollars.
  double gigabyte_hour = 0;  ///< Of tiers.
};

struct Cluster {
  std::string name;
  Model model;
  Gpu gpu;
  Engine engine;
  FarAttention far;
  std::vector<TierConfig> tiers;
  std::vector<Failure> failures;
  Promise promise;
  Prices prices;

  [[nodiscard]] double block_bytes() const {
    return model.kv_bytes_per_token * static_cast<double>(engine.block_tokens);
  }
  /// Blocks of a replica's pool.
  [[nodiscard]] std::uint32_t pool_blocks() const;
  /// All GPUs.
  [[nodiscard]] double gpus() const;
  /// The cluster as one of its replicas sees it: gpu.count is that replica's.
  [[nodiscard]] Cluster as_seen_by(std::uint64_t replica) const;
};

/// What is wrong where a model leaves no room for a block beside it, and what mends it.
inline constexpr const char* kNoRoom =
    "the pool has no room for one block beside the model's weights: "
    "more gpu.count or gpu.hbm_bytes, or engine.pool_bytes";

/// Reads a TOML text over the defaults. kBadArgument, with a reason that names file, line and key
/// and says what is allowed, for anything that is not a setting, or for a model that does not fit.
Status parse_cluster(const std::string& text, const std::string& file, Cluster* cluster,
                     std::string* reason);

/// parse_cluster() of a file; kIoError if it cannot be read.
Status read_cluster(const std::string& file, Cluster* cluster, std::string* reason);

}  // namespace nearkv::traces
