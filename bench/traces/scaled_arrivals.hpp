// Requests that were drawn once, to come at any rate.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workload.hpp"

namespace nearkv::traces {

/// Arrivals of a workload, from 0 s on, and their rate.
struct RecordedArrivals {
  std::vector<Arrival> arrivals{};
  double rate_per_s = 0;  ///< Of the gaps between them.

  /// Draws all of a workload that comes of itself. kBadArgument with a `reason` for one whose
  /// arrivals wait for answers, come at once, or are fewer than two.
  static Status draw(const WorkloadConfig& config, RecordedArrivals* recorded,
                     std::string* reason) {
    if (config.kind != "poisson" && config.kind != "rag" && config.kind != "trace") {
      *reason = "a workload of kind " + config.kind +
                " has no rate that could be raised: take poisson, rag or trace";
      return Status::kBadArgument;
    }
    std::unique_ptr<Workload> workload;
    if (const Status status = make_workload(config, &workload, reason); status != Status::kOk) {
      return status;
    }
    while (auto arrival = workload->next()) recorded->arrivals.push_back(std::move(*arrival));
    std::vector<Arrival>& all = recorded->arrivals;
    if (all.size() < 2 || all.back().at_s <= all.front().at_s) {
      *reason = "a rate needs two requests that come at different times: more --requests";
      return Status::kBadArgument;
    }
    const Seconds begin_s = all.front().at_s;
    for (Arrival& arrival : all) arrival.at_s -= begin_s;
    recorded->rate_per_s = static_cast<double>(all.size() - 1) / all.back().at_s;
    return Status::kOk;
  }
};

/// Recorded arrivals at another rate: all gaps are stretched alike. `recorded` must outlive it.
class ScaledArrivals final : public Workload {
 public:
  ScaledArrivals(const RecordedArrivals& recorded, double rate_per_s)
      : recorded_(recorded), stretch_(recorded.rate_per_s / rate_per_s) {}

  [[nodiscard]] std::optional<Arrival> next() override {
    if (next_ == recorded_.arrivals.size()) return std::nullopt;
    Arrival arrival = recorded_.arrivals[next_++];
    arrival.at_s *= stretch_;
    return arrival;
  }

 private:
  const RecordedArrivals& recorded_;
  double stretch_;
  std::size_t next_ = 0;
};

}  // namespace nearkv::traces
