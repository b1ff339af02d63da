#include "policies/arrival_queue.hpp"
#include "policies/policies.hpp"

namespace nearkv::scheduler {
namespace {

class Sarathi final : public SchedulingPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "sarathi"; }
  void on_wait(RequestId id, const View& view) override { queue_.add(id, view); }
  void on_leave(RequestId id, const View& view) override { queue_.remove(id, view); }
  [[nodiscard]] std::optional<RequestId> next(const View& /*view*/) override {
    return queue_.first();
  }

 private:
  ArrivalQueue queue_;
};

}  // namespace

std::unique_ptr<SchedulingPolicy> make_sarathi() { return std::make_unique<Sarathi>(); }

}  // namespace nearkv::scheduler
