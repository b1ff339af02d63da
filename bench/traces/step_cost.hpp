// How long a step of an engine takes.
#pragma once

#include "cluster.hpp"
#include "iteration.hpp"

namespace nearkv::traces {

/// A roofline of the replica's GPUs: the larger of operations and of bytes of HBM, at the shares of
/// the peaks that the cluster's file gives, and what GPUs exchange at each layer; then what decodes
/// need of KV that lies elsewhere. Where prompts were measured, theirs is the measured time, and so
/// for tokens.
///
// clang-format off
/// | part | operations, bytes | source |
/// |---|---|---|
/// | linear layers | 2 a parameter and token; the weights are read once | Kaplan et al. 2001.08361 |
/// | attention | 4 · layers · heads · head_dim a token and token attended to | the same |
/// | its KV | read once a step by who decodes, once a chunk by who prefills | FlashAttention |
/// | a mixture of experts | as many weights as its tokens activate, at most all | |
/// | exchange | 2 all-reduces a layer of 2-byte activations, 2 (n - 1) / n of them a GPU in 2 (n - 1) hops | ring |
/// | far attention | bytes over the link; bytes or RTL cycles of the device, in parallel | the file |
// clang-format on
class StepCost {
 public:
  /// `device_s_per_token`: what one engine of the far device needs for a token of one sequence,
  /// all layers and KV heads; 0 where the file gives bytes instead.
  StepCost(const Cluster& cluster, double device_s_per_token)
      : cluster_(cluster), device_s_per_token_(device_s_per_token) {}

  struct Cost {
    Seconds duration_s = 0;
    double hbm_bytes = 0;
    double link_bytes = 0;
    double device_bytes = 0;
  };
  [[nodiscard]] Cost of(const scheduler::Iteration& iteration) const;

 private:
  struct Work {
    double tokens = 0;
    double prefill_tokens = 0;
    double attended_tokens = 0;  ///< Pairs.
    double read_tokens = 0;      ///< Whose KV is read from HBM.
    double pulled_tokens = 0;
    double far_tokens = 0;
  };

  [[nodiscard]] Work work_of(const scheduler::Iteration& iteration) const;
  [[nodiscard]] double seen(double context_tokens) const;
  [[nodiscard]] Seconds gpu_s(const Work& work, double hbm_bytes) const;

  Cluster cluster_;
  double device_s_per_token_;
};

/// Seconds of one engine for a token of all layers and KV heads, from the cycles of a command over
/// 32,768 tokens of one KV head of `bench/baselines/rtl.json`, at 400 MHz.
[[nodiscard]] double seconds_per_token(double command_cycles, const Model& model);

}  // namespace nearkv::traces
