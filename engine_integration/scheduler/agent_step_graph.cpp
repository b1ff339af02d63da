#include "agent_step_graph.hpp"

#include <algorithm>

namespace nearkv::scheduler {

std::uint32_t AgentStepGraph::add_agent(Join join) {
  is_counted_ = false;
  agents_.push_back({.join = join});
  return agents() - 1;
}

void AgentStepGraph::add_edge(std::uint32_t from, std::uint32_t to) {
  is_counted_ = false;
  agents_[to].before.push_back(from);
}

void AgentStepGraph::set_fixed_prompt(std::uint32_t agent, std::span<const BlockHash> hashes) {
  agents_[agent].prompt.assign(hashes.begin(), hashes.end());
  for (const BlockHash hash : hashes) {
    const ObjectId id = fixed_blocks_.find(hash);
    if (id == kNoObject) {
      fixed_blocks_.add(hash);
      owners_.push_back(agent);
    } else if (owners_[id] != agent) {
      owners_[id] = kSeveral;
    }
  }
}

void AgentStepGraph::enter(std::uint32_t agent) {
  if (agent >= agents_.size()) return;
  if (agents_[agent].at_work++ == 0) is_counted_ = false;
}

void AgentStepGraph::leave(std::uint32_t agent) {
  if (agent >= agents_.size() || agents_[agent].at_work == 0) return;
  if (--agents_[agent].at_work == 0) is_counted_ = false;
}

std::uint32_t AgentStepGraph::steps_to_next_use(std::uint32_t agent) const {
  if (!is_counted_) count_steps();
  return steps_[agent];
}

void AgentStepGraph::count_steps() const {
  steps_.assign(agents_.size(), kNever);
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    if (agents_[i].at_work > 0) steps_[i] = 0;
  }
  // Steps only shrink, and a path passes no agent twice.
  bool has_changed = true;
  for (std::size_t round = 0; has_changed && round < agents_.size(); ++round) {
    has_changed = false;
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      const Agent& agent = agents_[i];
      if (agent.at_work > 0 || agent.before.empty()) continue;
      const auto farther = [this](std::uint32_t a, std::uint32_t b) {
        return steps_[a] < steps_[b];
      };
      const std::uint32_t from = agent.join == Join::kAll
                                     ? *std::ranges::max_element(agent.before, farther)
                                     : *std::ranges::min_element(agent.before, farther);
      if (steps_[from] == kNever || steps_[from] + 1 == steps_[i]) continue;
      steps_[i] = steps_[from] + 1;
      has_changed = true;
    }
  }
  is_counted_ = true;
}

std::uint32_t AgentStepGraph::owner(BlockHash hash) const {
  const ObjectId id = fixed_blocks_.find(hash);
  if (id == kNoObject) return kNoAgent;
  return owners_[id] == kSeveral ? agents() : owners_[id];
}

}  // namespace nearkv::scheduler
