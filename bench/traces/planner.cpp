#include "planner.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <thread>
#include <tuple>

#include "scaled_arrivals.hpp"
#include "simulation.hpp"

namespace nearkv::traces {
namespace {

constexpr double kLeastRate = 0x1p-13;  ///< One request at a time, in all that is worth planning.
constexpr double kFirstRate = 64;
constexpr double kMostRate = 0x1p20;
constexpr double kPrecision = 1.01;

/// One layout under the workload at any rate.
class Trial {
 public:
  Trial(const Cluster& cluster, const PlanOptions& options, const RecordedArrivals& arrivals,
        Planned* planned)
      : cluster_(cluster), options_(options), arrivals_(arrivals), planned_(planned) {}

  void run() {
    if (cluster_.as_seen_by(0).pool_blocks() == 0 || cluster_.pool_blocks() == 0) {
      planned_->refused = kNoRoom;
      return;
    }
    // From above: a cluster that has too much to do takes few steps, and little time to simulate.
    double low = kFirstRate;
    double high = 2 * kFirstRate;
    if (is_kept_at(low)) {
      while (high <= kMostRate && is_kept_at(high)) {
        low = high;
        high *= 2;
      }
    } else {
      do {
        high = low;
        low /= 2;
        if (high <= kLeastRate || !planned_->refused.empty()) return;
      } while (!is_kept_at(low));
    }
    while (high / low > kPrecision) {
      const double rate_per_s = std::sqrt(low * high);
      (is_kept_at(rate_per_s) ? low : high) = rate_per_s;
    }
    if (planned_->refused.empty()) planned_->goodput_per_s = low;
  }

 private:
  /// Whether the share is served as promised; what came of it then stays in the plan.
  bool is_kept_at(double rate_per_s) {
    ScaledArrivals workload(arrivals_, rate_per_s);
    std::unique_ptr<Simulation> simulation;
    std::string& reason = planned_->refused;
    if (Simulation::open(cluster_, options_.device_s_per_token, &workload, &simulation, &reason) !=
            Status::kOk ||
        simulation->run(&reason) != Status::kOk) {
      return false;
    }
    const Report report = simulation->report();
    const bool is_kept = report.kept >= options_.share;
    if (is_kept || rate_per_s == kLeastRate) {
      planned_->report = report;
      planned_->arriving_s = static_cast<double>(arrivals_.arrivals.size() - 1) / rate_per_s;
      std::tie(planned_->ttft_s, planned_->tpot_s) =
          kept_times(simulation->served(), options_.share);
    }
    return is_kept;
  }

  static std::pair<Seconds, Seconds> kept_times(const std::vector<Served>& served, double share) {
    std::vector<double> ttft;
    std::vector<double> tpot;
    for (const Served& one : served) {
      ttft.push_back(one.ttft_s());
      if (one.output_tokens > 1) tpot.push_back(one.tpot_s());
    }
    return {quantile(std::move(ttft), share), quantile(std::move(tpot), share)};
  }

  Cluster cluster_;
  const PlanOptions& options_;
  const RecordedArrivals& arrivals_;
  Planned* planned_;
};

/// Why there is no plan, of layouts none of which keeps the promise.
std::string why_none(const Cluster& cluster, const PlanOptions& options,
                     const std::vector<Planned>& planned) {
  const auto runs = [](const Planned& one) { return one.refused.empty(); };
  if (std::ranges::none_of(planned, runs)) {
    const auto widest =
        std::ranges::max_element(planned, {}, [](const Planned& one) { return one.layout.gpus; });
    return "no layout of at most " + std::to_string(static_cast<int>(options.limits.most_gpus)) +
           " GPUs can serve this; " + widest->layout.name() + ": " + widest->refused;
  }
  std::vector<Planned> able;
  std::ranges::copy_if(planned, std::back_inserter(able), runs);
  const auto ttft = std::ranges::min_element(able, {}, &Planned::ttft_s);
  const auto tpot = std::ranges::min_element(able, {}, &Planned::tpot_s);
  char text[400];
  const auto say = [&](const char* what, Seconds best_s, const Planned& by, Seconds promised_s) {
    std::snprintf(text, sizeof text,
                  "no layout keeps the promised %s of %g s for %g %% of requests, even one at a "
                  "time: %g s is the best, of %s",
                  what, promised_s, 100 * options.share, best_s, by.layout.name().c_str());
    return std::string(text);
  };
  if (ttft->ttft_s > cluster.promise.ttft_s) {
    return say("TTFT", ttft->ttft_s, *ttft, cluster.promise.ttft_s);
  }
  if (tpot->tpot_s > cluster.promise.tpot_s) {
    return say("TPOT", tpot->tpot_s, *tpot, cluster.promise.tpot_s);
  }
  return "layouts keep the promised TTFT or the promised TPOT, but none keeps both for that share "
         "of requests, even one at a time: loosen one of them";
}

}  // namespace

Status plan(const Cluster& cluster, const WorkloadConfig& workload, const PlanOptions& options,
            const PlanProgress& progress, std::vector<Planned>* planned, std::string* reason) {
  planned->clear();
  if (!(options.share > 0 && options.share <= 1)) {
    *reason = "the share of requests to be served as promised is more than 0, and at most 1";
    return Status::kBadArgument;
  }
  // Where prefill is apart, blocks that nobody shares change hands too: they need names.
  RecordedArrivals arrivals[2];
  for (const bool is_apart : {false, true}) {
    WorkloadConfig config = workload;
    config.names_all_blocks = is_apart;
    if (const Status status = RecordedArrivals::draw(config, &arrivals[is_apart], reason);
        status != Status::kOk) {
      return status;
    }
  }
  for (const Layout& layout : layouts_of(cluster, options.limits)) {
    planned->push_back({.layout = layout});
  }
  if (planned->empty()) {
    *reason =
        "no degree of tensor parallelism both divides the model's query heads and is within "
        "the GPUs";
    return Status::kBadArgument;
  }
  std::atomic<std::size_t> next = 0;
  std::mutex telling;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < planned->size(); i = next++) {
      Planned& one = (*planned)[i];
      Trial(one.layout.of(cluster), options, arrivals[one.layout.is_apart()], &one).run();
      const std::lock_guard lock(telling);
      if (progress) progress(++done, planned->size());
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < options.threads; ++i) others.emplace_back(work);
    work();
  }
  std::ranges::stable_sort(*planned, [](const Planned& a, const Planned& b) {
    if (a.per_gpu() != b.per_gpu()) return a.per_gpu() > b.per_gpu();
    return a.layout.total_gpus() < b.layout.total_gpus();
  });
  if (planned->front().goodput_per_s > 0) return Status::kOk;
  *reason = why_none(cluster, options, *planned);
  return Status::kBadArgument;
}

}  // namespace nearkv::traces
