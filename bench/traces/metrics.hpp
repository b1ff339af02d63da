// What a simulated cluster did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster.hpp"

namespace nearkv::traces {

/// One request that was answered.
struct Served {
  Seconds arrived_s = 0;
  Seconds first_token_s = 0;
  Seconds ended_s = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t cached_tokens = 0;
  Seconds longest_tbt_s = 0;  ///< Between two of its tokens; 0 where nothing is promised of it.

  [[nodiscard]] Seconds ttft_s() const { return first_token_s - arrived_s; }
  /// The mean of all tokens but the first; of two tokens or more.
  [[nodiscard]] Seconds tpot_s() const { return (ended_s - first_token_s) / (output_tokens - 1); }
};

/// The value of the nearest rank that `share` of them are at or below; 0 of none.
[[nodiscard]] double quantile(std::vector<double> values, double share);

/// Of one quantity. Percentiles are of the nearest rank.
struct Spreading {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};
[[nodiscard]] Spreading spreading_of(std::vector<double> values);

/// Bytes that a tier or a medium has moved.
struct Moved {
  std::string name;
  double read_bytes = 0;
  double written_bytes = 0;
};

struct Report {
  std::uint64_t requests = 0;
  Seconds duration_s = 0;  ///< From the first arrival to the last end.
  Spreading ttft_s{};
  Spreading tpot_s{};         ///< Of requests with two tokens or more.
  Spreading longest_tbt_s{};  ///< Of those too, where a time between tokens is promised.
  Spreading latency_s{};
  double requests_per_s = 0;
  double output_tokens_per_s = 0;
  double kept = 0;           ///< The share of requests that were served as promised.
  double goodput_per_s = 0;  ///< Those a second.
  double cached_share = 0;   ///< Of the prompts' tokens: not computed.
  std::uint64_t preemptions = 0;
  std::uint64_t steps = 0;
  std::vector<Moved> moved{};
  double dollars = 0;
  double dollars_per_million_tokens = 0;  ///< Of output.
};

/// Collects what was served. Memory: 48 bytes a request.
class Metrics {
 public:
  explicit Metrics(const Cluster& cluster) : cluster_(cluster) {}

  void add(const Served& served) { served_.push_back(served); }
  [[nodiscard]] const std::vector<Served>& served() const { return served_; }

  /// All but steps, preemptions and what was moved, which is the simulation's to add.
  [[nodiscard]] Report report() const;

 private:
  Cluster cluster_;
  std::vector<Served> served_;
};

}  // namespace nearkv::traces
