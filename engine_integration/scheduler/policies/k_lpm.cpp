#include "policies/arrival_queue.hpp"
#include "policies/policies.hpp"

namespace nearkv::scheduler {
namespace {

class KLpm final : public SchedulingPolicy {
 public:
  explicit KLpm(const PrefixMatchOptions& options) : options_(options) {}

  [[nodiscard]] std::string_view name() const override { return "k_lpm"; }
  void on_wait(RequestId id, const View& view) override { queue_.add(id, view); }
  void on_leave(RequestId id, const View& view) override { queue_.remove(id, view); }
  void on_start(RequestId /*id*/, const Residency& /*residency*/, const View& /*view*/) override {
    picks_ = picks_ == options_.k ? 0 : picks_ + 1;
  }

  [[nodiscard]] std::optional<RequestId> next(const View& view) override {
    if (picks_ == options_.k) return queue_.first();
    std::optional<RequestId> best;
    std::uint32_t best_tokens = 0;
    std::uint32_t looked_at = 0;
    for (const auto& [order, id] : queue_.places()) {
      if (++looked_at > options_.window) break;
      const Residency residency = view.residency(id);
      const std::uint32_t tokens =
          (residency.pool_blocks + residency.lower_blocks) * view.block_tokens;
      if (best && tokens <= best_tokens) continue;
      best = id;
      best_tokens = tokens;
    }
    return best;
  }

 private:
  PrefixMatchOptions options_;
  ArrivalQueue queue_;
  std::uint32_t picks_ = 0;  ///< By longest match, since the last by arrival.
};

}  // namespace

std::unique_ptr<SchedulingPolicy> make_k_lpm(const PrefixMatchOptions& options) {
  return std::make_unique<KLpm>(options);
}

}  // namespace nearkv::scheduler
