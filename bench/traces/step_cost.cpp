#include "step_cost.hpp"

#include <algorithm>

namespace nearkv::traces {

namespace {

/// Between points by lines; beyond the first and the last in proportion.
Seconds measured_s(const std::vector<std::pair<double, double>>& points, double at) {
  const auto above =
      std::ranges::find_if(points, [at](const auto& point) { return point.first >= at; });
  if (above == points.begin()) return points.front().second * at / points.front().first;
  if (above == points.end()) return points.back().second * at / points.back().first;
  const auto& below = *std::prev(above);
  const double share = (at - below.first) / (above->first - below.first);
  return below.second + share * (above->second - below.second);
}

}  // namespace

double seconds_per_token(double command_cycles, const Model& model) {
  constexpr double kCycleSeconds = 2.5e-9;
  constexpr double kCommandTokens = 32'768;
  return command_cycles * kCycleSeconds / kCommandTokens * model.layers * model.kv_heads;
}

/// Layers with a window see no more than that.
double StepCost::seen(double context_tokens) const {
  const Model& model = cluster_.model;
  if (model.window_layers_share == 0) return context_tokens;
  return (1 - model.window_layers_share) * context_tokens +
         model.window_layers_share * std::min(context_tokens, model.window_tokens);
}

StepCost::Work StepCost::work_of(const scheduler::Iteration& iteration) const {
  Work work;
  for (const scheduler::Work& prefill : iteration.prefills) {
    work.prefill_tokens += prefill.tokens;
    work.attended_tokens += prefill.tokens * (seen(prefill.context_tokens) + prefill.tokens / 2.0);
    work.read_tokens += seen(prefill.context_tokens);
  }
  work.tokens = work.prefill_tokens + static_cast<double>(iteration.decodes.size());
  double context_tokens = 0;
  for (const scheduler::Work& decode : iteration.decodes) context_tokens += decode.context_tokens;
  const FarAttention& far = cluster_.far;
  if (!far.is_used) {
    if (cluster_.model.window_layers_share == 0) {
      work.attended_tokens += context_tokens;
      work.read_tokens += context_tokens;
      return work;
    }
    for (const scheduler::Work& decode : iteration.decodes) {
      work.attended_tokens += seen(decode.context_tokens);
      work.read_tokens += seen(decode.context_tokens);
    }
    return work;
  }
  const double kv_bytes = context_tokens * cluster_.model.kv_bytes_per_token;
  const double share = kv_bytes == 0 ? 0 : std::min(1.0, far.resident_bytes / kv_bytes);
  for (const scheduler::Work& decode : iteration.decodes) {
    const double tokens = seen(decode.context_tokens);
    const double resident = std::max(std::min(tokens, far.resident_tokens), tokens * share);
    const double elsewhere = tokens - resident;
    const double pulled =
        std::max(std::min(elsewhere, far.pulled_tokens), elsewhere * far.pulled_share);
    work.attended_tokens += resident + pulled;
    work.read_tokens += resident + pulled;
    work.pulled_tokens += pulled;
    work.far_tokens += elsewhere;
  }
  return work;
}

Seconds StepCost::gpu_s(const Work& work, double hbm_bytes) const {
  const Model& model = cluster_.model;
  const Gpu& gpu = cluster_.gpu;
  const double active = model.active_parameters > 0 ? model.active_parameters : model.parameters;
  const double heads_dim = model.query_heads * model.head_dim;
  const double operations =
      2 * active * work.tokens + 4 * model.layers * heads_dim * work.attended_tokens;
  const double weight_bytes =
      std::min(model.parameters, active * work.tokens) * model.bytes_per_parameter;
  const Seconds computing_s = operations / (gpu.flops * gpu.flops_share * gpu.count);
  const Seconds reading_s =
      (weight_bytes + hbm_bytes) / (gpu.hbm_bytes_per_s * gpu.hbm_share * gpu.count);
  const double exchanged_bytes =
      2 * model.layers * work.tokens * heads_dim * 2 * 2 * (gpu.count - 1) / gpu.count;
  const Seconds hops_s = 2 * model.layers * 2 * (gpu.count - 1) * gpu.exchange_latency_s;
  return gpu.step_overhead_s + std::max(computing_s, reading_s) +
         exchanged_bytes / gpu.exchange_bytes_per_s + hops_s;
}

StepCost::Cost StepCost::of(const scheduler::Iteration& iteration) const {
  const FarAttention& far = cluster_.far;
  const double kv_bytes = cluster_.model.kv_bytes_per_token;
  Work work = work_of(iteration);
  Cost cost{.hbm_bytes = work.read_tokens * kv_bytes};
  const Gpu& gpu = cluster_.gpu;
  if (!gpu.prefill_s_by_tokens.empty() && work.prefill_tokens > 0) {
    cost.duration_s += measured_s(gpu.prefill_s_by_tokens, work.prefill_tokens);
    work.tokens -= work.prefill_tokens;
    if (work.tokens == 0) return cost;
  }
  if (!gpu.decode_s_by_sequences.empty() && !iteration.decodes.empty()) {
    const auto sequences = static_cast<double>(iteration.decodes.size());
    cost.duration_s += measured_s(gpu.decode_s_by_sequences, sequences);
    if (work.tokens == sequences) return cost;
    work = work_of({.decodes = {}, .prefills = iteration.prefills, .swap_outs = {}, .loads = {}});
    cost.duration_s += gpu_s(work, work.read_tokens * kv_bytes);
    return cost;
  }
  cost.duration_s += gpu_s(work, cost.hbm_bytes);
  if (!far.is_used || iteration.decodes.empty()) return cost;
  const auto sequences = static_cast<double>(iteration.decodes.size());
  cost.link_bytes = work.pulled_tokens * kv_bytes * far.pulled_bytes_share +
                    (work.far_tokens > 0 ? sequences * far.exchange_bytes : 0);
  cost.device_bytes = work.far_tokens * kv_bytes * far.device_bytes_share;
  const Seconds device_s = device_s_per_token_ > 0
                               ? work.far_tokens * device_s_per_token_ / far.device_engines
                               : cost.device_bytes / far.device_bytes_per_s;
  const Seconds latency_s = work.far_tokens > 0 ? cluster_.model.layers * far.layer_latency_s : 0;
  const Seconds far_s = std::max(cost.link_bytes / far.link_bytes_per_s, device_s) + latency_s;
  cost.duration_s = far.overlaps ? std::max(cost.duration_s, far_s) : cost.duration_s + far_s;
  return cost;
}

}  // namespace nearkv::traces
