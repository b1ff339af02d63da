
#include "policies/policies.hpp"
#include "policy/listed_policy.hpp"

namespace nearkv::scheduler {
namespace {

constexpr std::uint8_t kNobody = 0;
constexpr std::uint8_t kSeveral = 1;
constexpr std::uint8_t kFirstAgent = 2;

/// A list for each agent's fixed prompt: steps change often, and lists need not follow them.
class StepGraphEviction final : public ListedPolicy {
 public:
  explicit StepGraphEviction(const AgentStepGraph* graph)
      : ListedPolicy(kFirstAgent + AgentStepGraph::kMostAgents), graph_(graph) {}

 private:
  void on_insert(ObjectId id) override { place(id, list_of(object(id).fingerprint)); }
  void on_hit(ObjectId id) override { place(id, object(id).list); }
  void on_erase(const Object& /*gone*/, Removal /*removal*/) override {}

  ObjectId candidate() override {
    if (const ObjectId id = oldest(kNobody); id != kNoObject) return id;
    ObjectId farthest = kNoObject;
    std::uint32_t most_steps = 0;
    for (std::uint32_t agent = 0; agent < graph_->agents(); ++agent) {
      const ObjectId id = oldest(static_cast<std::uint8_t>(kFirstAgent + agent));
      if (id == kNoObject) continue;
      const std::uint32_t steps = graph_->steps_to_next_use(agent);
      if (farthest != kNoObject && steps <= most_steps) continue;
      farthest = id;
      most_steps = steps;
    }
    return farthest != kNoObject ? farthest : oldest(kSeveral);
  }

  [[nodiscard]] std::uint8_t list_of(BlockHash hash) const {
    const std::uint32_t owner = graph_->owner(hash);
    if (owner == kNoAgent) return kNobody;
    return static_cast<std::uint8_t>(owner == graph_->agents() ? kSeveral : kFirstAgent + owner);
  }

  const AgentStepGraph* graph_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_step_graph_eviction(const AgentStepGraph* graph) {
  return std::make_unique<StepGraphEviction>(graph);
}

}  // namespace nearkv::scheduler
