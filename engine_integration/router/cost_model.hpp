// What it costs a worker to have a prompt's KV: by waiting, loading and computing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "nearkv/status.hpp"
#include "prefix_match.hpp"
#include "residency.hpp"

namespace nearkv::router {

/// One tier, seen from the GPU that needs its blocks.
struct TierCost {
  double weight = 1;       ///< What a block there is worth, of one on the GPU: 0 to 1.
  double bytes_per_s = 0;  ///< At which blocks are loaded. 0: they need not be.
  double latency_s = 0;    ///< Before the first of them arrives.
};

/// Linear in all that it counts: attention's quadratic part is left out, as it is in Dynamo's and
/// Mooncake's estimates, and loading is not overlapped with computing. The numbers are for a model
/// of 8 billion parameters in bf16 with grouped queries on one GPU; measure your own.
///
/// Thread safety: read by many, changed by nobody.
struct CostModel {
  std::uint32_t block_tokens = 16;
  double block_bytes = 2 << 20;         ///< 128 KiB a token.
  double prefill_tokens_per_s = 10000;  ///< Of a worker that says nothing else.
  double peer_bytes_per_s = 12.5e9;     ///< From one worker's memory to another's: 100 Gbit/s.
  std::array<TierCost, kTiers> tiers{{
      {1.0, 0, 0},         // GPU
      {0.8, 25e9, 20e-6},  // DRAM, over PCIe 4
      {0.7, 20e9, 30e-6},  // CXL
      {0.5, 5e9, 1e-3},    // shared
  }};

  /// kBadArgument: a size or rate that is not positive, a weight outside 0 to 1, or no number.
  [[nodiscard]] Status check() const;

  /// A prefix in blocks of the GPU's, by the tiers' weights.
  [[nodiscard]] double weighted_blocks(const WorkerPrefix& prefix) const;
  /// Seconds until a prefix is on the GPU, one tier after the other.
  [[nodiscard]] double load_s(const WorkerPrefix& prefix) const;
  /// Seconds to compute tokens; `worker_tokens_per_s` 0: the model's rate.
  [[nodiscard]] double prefill_s(double tokens, double worker_tokens_per_s) const;
  /// Seconds to copy blocks from another worker.
  [[nodiscard]] double transfer_s(double blocks) const {
    return blocks * block_bytes / peer_bytes_per_s;
  }
};

}  // namespace nearkv::router
