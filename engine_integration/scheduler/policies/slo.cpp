#include <algorithm>
#include <set>
#include <utility>

#include "policies/arrival_queue.hpp"
#include "policies/policies.hpp"

namespace nearkv::scheduler {
namespace {

/// After this many times its promise, a late request goes before all others.
constexpr double kMostPatience = 10;

class Slo final : public SchedulingPolicy {
 public:
  explicit Slo(const SloOptions& options) : options_(options) {}

  [[nodiscard]] std::string_view name() const override { return "slo"; }

  void on_wait(RequestId id, const View& view) override { by_deadline_.insert(place(id, view)); }
  void on_leave(RequestId id, const View& view) override {
    by_deadline_.erase(place(id, view));
    late_.remove(id, view);
  }

  [[nodiscard]] std::optional<RequestId> next(const View& view) override {
    // Deadlines pass in their order, but for how long a prompt takes: the first is looked at.
    while (!by_deadline_.empty() && is_late(by_deadline_.begin()->second, view)) {
      late_.add(by_deadline_.begin()->second, view);
      by_deadline_.erase(by_deadline_.begin());
    }
    if (const auto oldest = late_.first()) {
      const RequestState& state = view[*oldest];
      const bool has_waited =
          view.now_s - state.arrived_s > kMostPatience * promise(state.request).ttft_s;
      if (has_waited || by_deadline_.empty()) return oldest;
    }
    if (by_deadline_.empty()) return std::nullopt;
    return by_deadline_.begin()->second;
  }

 private:
  [[nodiscard]] const ServiceClass& promise(const Request& request) const {
    return options_
        .classes[std::min<std::size_t>(request.service_class, options_.classes.size() - 1)];
  }
  [[nodiscard]] std::pair<Seconds, RequestId> place(RequestId id, const View& view) const {
    return {view[id].arrived_s + promise(view[id].request).ttft_s, id};
  }
  [[nodiscard]] bool is_late(RequestId id, const View& view) const {
    const RequestState& state = view[id];
    if (state.first_token_s >= 0) return false;  // Its promise is kept or broken already.
    const Seconds needs_s = options_.prefill_s_per_token * state.request.prompt_tokens;
    return view.now_s + needs_s > place(id, view).first;
  }

  SloOptions options_;
  std::set<std::pair<Seconds, RequestId>> by_deadline_;
  ArrivalQueue late_;
};

}  // namespace

std::unique_ptr<SchedulingPolicy> make_slo(const SloOptions& options) {
  return std::make_unique<Slo>(options);
}

}  // namespace nearkv::scheduler
