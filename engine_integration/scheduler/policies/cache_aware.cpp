#include "policies/arrival_queue.hpp"
#include "policies/policies.hpp"
#include "policies/prefixes_in_flight.hpp"

namespace nearkv::scheduler {
namespace {

class CacheAware final : public SchedulingPolicy {
 public:
  explicit CacheAware(const CacheAwareOptions& options) : options_(options) {}

  [[nodiscard]] std::string_view name() const override { return "cache_aware"; }
  void on_wait(RequestId id, const View& view) override { queue_.add(id, view); }
  void on_leave(RequestId id, const View& view) override { queue_.remove(id, view); }
  void on_start(RequestId id, const Residency& residency, const View& view) override {
    in_flight_.add(id, residency, view);
  }
  void on_prefilled(RequestId id, const View& /*view*/) override { in_flight_.remove(id); }
  void on_stop(RequestId id, const View& /*view*/) override { in_flight_.remove(id); }

  [[nodiscard]] std::optional<RequestId> next(const View& view) override {
    std::uint32_t looked_at = 0;
    std::optional<RequestId> load;
    for (const auto& [order, id] : queue_.places()) {
      if (view.now_s - view[id].arrived_s > options_.longest_wait_s) return id;
      if (++looked_at > options_.window) break;
      const Residency residency = view.residency(id);
      if (in_flight_.brings_for(id, residency, view)) continue;
      if (residency.lower_blocks == 0 || is_hidden(residency, view)) return id;
      if (!load) load = id;
    }
    // Nothing is there to hide a load behind: it begins, so that the link is not idle as well.
    return view.loading_s == 0 ? load : std::nullopt;
  }

 private:
  /// Whether the step is long enough, so far, for the loads that it would have begun. One link
  /// carries them all, so `load_s` counts those before it too.
  [[nodiscard]] bool is_hidden(const Residency& residency, const View& view) const {
    if (options_.prefill_s_per_token == 0) return true;
    std::uint64_t computing_tokens = 0;
    for (const RequestId id : view.running) {
      if (view[id].phase == Phase::kRunning) computing_tokens += view[id].tokens_to_compute();
    }
    return residency.load_s <= static_cast<double>(computing_tokens) * options_.prefill_s_per_token;
  }

  CacheAwareOptions options_;
  ArrivalQueue queue_;
  PrefixesInFlight in_flight_;
};

}  // namespace

std::unique_ptr<SchedulingPolicy> make_cache_aware(const CacheAwareOptions& options) {
  return std::make_unique<CacheAware>(options);
}

}  // namespace nearkv::scheduler
