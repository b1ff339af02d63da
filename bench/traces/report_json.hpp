// A report as JSON, the same in each program.
#pragma once

#include <nlohmann/json.hpp>

#include "metrics.hpp"

namespace nearkv::traces {

inline nlohmann::ordered_json to_json(const Spreading& one) {
  return {{"mean", one.mean}, {"p50", one.p50}, {"p90", one.p90}, {"p99", one.p99}};
}

inline nlohmann::ordered_json to_json(const Report& report) {
  nlohmann::ordered_json moved = nlohmann::ordered_json::object();
  for (const Moved& one : report.moved) {
    moved[one.name] = {{"read_bytes", one.read_bytes}, {"written_bytes", one.written_bytes}};
  }
  return {{"requests", report.requests},
          {"duration_s", report.duration_s},
          {"ttft_s", to_json(report.ttft_s)},
          {"tpot_s", to_json(report.tpot_s)},
          {"longest_tbt_s", to_json(report.longest_tbt_s)},
          {"latency_s", to_json(report.latency_s)},
          {"requests_per_s", report.requests_per_s},
          {"output_tokens_per_s", report.output_tokens_per_s},
          {"kept", report.kept},
          {"goodput_per_s", report.goodput_per_s},
          {"cached_share", report.cached_share},
          {"preemptions", report.preemptions},
          {"steps", report.steps},
          {"moved", moved},
          {"dollars", report.dollars},
          {"dollars_per_million_tokens", report.dollars_per_million_tokens}};
}

}  // namespace nearkv::traces
