#include <algorithm>
#include <map>
#include <tuple>

#include "policies/arrival_queue.hpp"
#include "policies/policies.hpp"

namespace nearkv::scheduler {
namespace {

class FairShare final : public SchedulingPolicy {
 public:
  explicit FairShare(const FairShareOptions& options) : options_(options) {}

  [[nodiscard]] std::string_view name() const override { return "fair_share"; }

  void on_wait(RequestId id, const View& view) override {
    const std::uint32_t number = view[id].request.tenant;
    const bool is_new = !tenants_.contains(number);
    Tenant& tenant = tenants_[number];
    // Who was idle has no claim on the time when it asked for nothing.
    if (is_new || tenant.present == 0) tenant.served = std::max(tenant.served, least_served());
    if (view[id].preemptions == 0) ++tenant.present;
    tenant.queue.add(id, view);
  }
  void on_leave(RequestId id, const View& view) override {
    tenant_of(id, view).queue.remove(id, view);
  }
  void on_end(RequestId id, const View& view) override { --tenant_of(id, view).present; }

  void on_tokens(RequestId id, std::uint32_t computed, std::uint32_t generated,
                 const View& view) override {
    // A step that decodes computes the token that the last one was charged for.
    const bool decodes = computed == 1 && view[id].generated_tokens > 1;
    const double service = (decodes ? 0 : computed) + options_.output_weight * generated;
    tenant_of(id, view).served += service / share_of(view[id].request.tenant);
  }

  [[nodiscard]] std::optional<RequestId> next(const View& /*view*/) override {
    const Tenant* least = nullptr;
    for (const auto& [number, tenant] : tenants_) {
      if (tenant.queue.empty()) continue;
      if (least == nullptr || tenant.served < least->served) least = &tenant;
    }
    return least == nullptr ? std::nullopt : least->queue.first();
  }

  [[nodiscard]] std::optional<RequestId> makes_room(RequestId candidate,
                                                    const View& view) override {
    const double served = tenant_of(candidate, view).served + options_.quantum_tokens;
    return cheapest(view, [&](RequestId id) {
      return view.now_s - view[id].started_s >= options_.least_run_s &&
             tenant_of(id, view).served > served;
    });
  }

  [[nodiscard]] std::optional<RequestId> gives_way(const View& view) override {
    return cheapest(view, [](RequestId) { return true; });
  }

 private:
  struct Tenant {
    double served = 0;          ///< Weighted tokens by its share.
    std::uint32_t present = 0;  ///< Requests that wait or run.
    ArrivalQueue queue;
  };

  [[nodiscard]] Tenant& tenant_of(RequestId id, const View& view) {
    return tenants_.find(view[id].request.tenant)->second;
  }
  [[nodiscard]] double share_of(std::uint32_t tenant) const {
    return options_.shares[std::min<std::size_t>(tenant, options_.shares.size() - 1)];
  }
  [[nodiscard]] double least_served() const {
    double least = 0;
    bool is_first = true;
    for (const auto& [number, tenant] : tenants_) {
      if (tenant.present == 0) continue;
      least = is_first ? tenant.served : std::min(least, tenant.served);
      is_first = false;
    }
    return least;
  }

  /// Of the tenant that had most, the one of which fewest blocks have no copy yet.
  template <typename MayGo>
  [[nodiscard]] std::optional<RequestId> cheapest(const View& view, const MayGo& may_go) {
    std::optional<RequestId> best;
    std::tuple<double, std::int64_t, std::uint64_t> best_rank;
    for (const RequestId id : view.running) {
      const RequestState& state = view[id];
      if (state.phase != Phase::kRunning || !may_go(id)) continue;
      const auto uncopied =
          std::int64_t{state.computed_tokens / view.block_tokens} - state.host_blocks;
      const std::tuple rank(tenant_of(id, view).served, -uncopied, state.order);
      if (best && rank <= best_rank) continue;
      best = id;
      best_rank = rank;
    }
    return best;
  }

  FairShareOptions options_;
  std::map<std::uint32_t, Tenant> tenants_;
};

}  // namespace

std::unique_ptr<SchedulingPolicy> make_fair_share(const FairShareOptions& options) {
  return std::make_unique<FairShare>(options);
}

}  // namespace nearkv::scheduler
