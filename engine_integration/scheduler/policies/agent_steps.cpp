#include "policies/arrival_queue.hpp"
#include "policies/policies.hpp"
#include "policies/prefixes_in_flight.hpp"

namespace nearkv::scheduler {
namespace {

class AgentSteps final : public SchedulingPolicy {
 public:
  explicit AgentSteps(AgentStepGraph* graph) : graph_(graph) {}

  [[nodiscard]] std::string_view name() const override { return "agent_steps"; }

  void on_wait(RequestId id, const View& view) override {
    if (view[id].preemptions == 0) graph_->enter(view[id].request.agent);
    queue_.add(id, view);
  }
  void on_leave(RequestId id, const View& view) override { queue_.remove(id, view); }
  void on_start(RequestId id, const Residency& residency, const View& view) override {
    in_flight_.add(id, residency, view);
  }
  void on_prefilled(RequestId id, const View& /*view*/) override { in_flight_.remove(id); }
  void on_stop(RequestId id, const View& /*view*/) override { in_flight_.remove(id); }
  void on_end(RequestId id, const View& view) override { graph_->leave(view[id].request.agent); }

  [[nodiscard]] std::optional<RequestId> next(const View& view) override {
    for (const auto& [order, id] : queue_.places()) {
      if (!in_flight_.brings_for(id, view.residency(id), view)) return id;
    }
    return std::nullopt;
  }

 private:
  AgentStepGraph* graph_;
  ArrivalQueue queue_;
  PrefixesInFlight in_flight_;
};

}  // namespace

std::unique_ptr<SchedulingPolicy> make_agent_steps(AgentStepGraph* graph) {
  return std::make_unique<AgentSteps>(graph);
}

}  // namespace nearkv::scheduler
