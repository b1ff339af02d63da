// Which agent of a workflow is how many steps away.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "block_ids.hpp"
#include "request.hpp"

namespace nearkv::scheduler {

/// KVFlow's agent step graph (2507.07400): an agent's steps to its next use are one more than its
/// predecessors': the most of them if it waits for all, the fewest if any of them calls it. Agents
/// at work, or waiting to be, are 0 steps away. Loops are allowed.
///
/// Thread safety: one thread at a time.
class AgentStepGraph {
 public:
  enum class Join : std::uint8_t { kAny, kAll };
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kMostAgents = 250;

  /// Agents are numbered from 0 on, kMostAgents at the most.
  std::uint32_t add_agent(Join join);

  /// `to` may run after `from`. Both are agents.
  void add_edge(std::uint32_t from, std::uint32_t to);

  /// The blocks of the prompt that each of an agent's steps begins with.
  void set_fixed_prompt(std::uint32_t agent, std::span<const BlockHash> hashes);
  [[nodiscard]] std::span<const BlockHash> fixed_prompt(std::uint32_t agent) const {
    return agents_[agent].prompt;
  }

  /// A step of the agent has come, or has ended. Numbers that are no agent are ignored.
  void enter(std::uint32_t agent);
  void leave(std::uint32_t agent);

  [[nodiscard]] std::uint32_t agents() const { return static_cast<std::uint32_t>(agents_.size()); }

  /// kNever if no agent at work leads to it. Computed anew after something changed: agents x edges.
  [[nodiscard]] std::uint32_t steps_to_next_use(std::uint32_t agent) const;

  /// Whose fixed prompt a block belongs to: an agent, agents() if it is several's, kNoAgent if
  /// none.
  [[nodiscard]] std::uint32_t owner(BlockHash hash) const;

 private:
  struct Agent {
    Join join = Join::kAny;
    std::vector<std::uint32_t> before{};
    std::vector<BlockHash> prompt{};
    std::uint32_t at_work = 0;
  };
  static constexpr std::uint32_t kSeveral = kNoAgent - 1;

  void count_steps() const;

  std::vector<Agent> agents_;
  BlockIds fixed_blocks_;
  std::vector<std::uint32_t> owners_;  ///< By the blocks' numbers.
  mutable std::vector<std::uint32_t> steps_;
  mutable bool is_counted_ = false;
};

}  // namespace nearkv::scheduler
