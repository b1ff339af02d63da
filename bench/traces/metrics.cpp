#include "metrics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nearkv::traces {

namespace {

double ranked(const std::vector<double>& sorted, double share) {
  const auto rank = std::max(std::ceil(share * static_cast<double>(sorted.size())), 1.0);
  return sorted[static_cast<std::size_t>(rank) - 1];
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return ranked(values, share);
}

Spreading spreading_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  return {.mean = std::accumulate(values.begin(), values.end(), 0.0) / count,
          .p50 = ranked(values, 0.5),
          .p90 = ranked(values, 0.9),
          .p99 = ranked(values, 0.99)};
}

Report Metrics::report() const {
  Report report{.requests = served_.size()};
  if (served_.empty()) return report;
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> longest_tbt;
  std::vector<double> latency;
  Seconds begin_s = served_.front().arrived_s;
  Seconds end_s = 0;
  double prompt_tokens = 0;
  double output_tokens = 0;
  double cached_tokens = 0;
  double kept = 0;
  for (const Served& one : served_) {
    begin_s = std::min(begin_s, one.arrived_s);
    end_s = std::max(end_s, one.ended_s);
    prompt_tokens += one.prompt_tokens;
    output_tokens += one.output_tokens;
    cached_tokens += one.cached_tokens;
    ttft.push_back(one.ttft_s());
    latency.push_back(one.ended_s - one.arrived_s);
    bool is_kept = ttft.back() <= cluster_.promise.ttft_s;
    if (one.output_tokens > 1) {
      tpot.push_back(one.tpot_s());
      is_kept = is_kept && tpot.back() <= cluster_.promise.tpot_s;
      if (std::isfinite(cluster_.promise.tbt_s)) {
        longest_tbt.push_back(one.longest_tbt_s);
        is_kept = is_kept && one.longest_tbt_s <= cluster_.promise.tbt_s;
      }
    }
    kept += is_kept ? 1 : 0;
  }
  const auto requests = static_cast<double>(served_.size());
  report.duration_s = end_s - begin_s;
  report.ttft_s = spreading_of(std::move(ttft));
  report.tpot_s = spreading_of(std::move(tpot));
  report.longest_tbt_s = spreading_of(std::move(longest_tbt));
  report.latency_s = spreading_of(std::move(latency));
  report.requests_per_s = requests / report.duration_s;
  report.output_tokens_per_s = output_tokens / report.duration_s;
  report.kept = kept / requests;
  report.goodput_per_s = kept / report.duration_s;
  report.cached_share = cached_tokens / prompt_tokens;

  constexpr double kHourSeconds = 3600;
  const auto replicas = static_cast<double>(cluster_.engine.replicas);
  double per_hour = cluster_.prices.gpu_hour * cluster_.gpus();
  for (const TierConfig& tier : cluster_.tiers) {
    const double copies = tier.is_shared ? 1 : replicas;
    per_hour += cluster_.prices.gigabyte_hour * tier.capacity_bytes / 1e9 * copies;
  }
  report.dollars = per_hour * report.duration_s / kHourSeconds;
  report.dollars_per_million_tokens = report.dollars / output_tokens * 1e6;
  return report;
}

}  // namespace nearkv::traces
