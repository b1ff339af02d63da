// The kinds of workloads, one file each.
#pragma once

#include <memory>
#include <string>

#include "workload.hpp"

namespace nearkv::traces {

/// Independent requests at a constant rate: chats, and what queueing theory knows.
[[nodiscard]] std::unique_ptr<Workload> make_poisson(const WorkloadConfig& config);

/// Users who each ask again when they are answered: as many requests in flight as users.
[[nodiscard]] std::unique_ptr<Workload> make_closed(const WorkloadConfig& config);

/// Workflows of agents in a ring, one for each user: a step's prompt is the agent's fixed prompt
/// and the output of the step before.
[[nodiscard]] std::unique_ptr<Workload> make_agents(const WorkloadConfig& config);

/// Questions about documents of unlike fame: the prompt is the documents, then the question.
[[nodiscard]] std::unique_ptr<Workload> make_rag(const WorkloadConfig& config);

/// All at once: `requests` prompts, each sampled `samples` times; its samples' outputs have a
/// common scale, drawn as `output_spread` says, and spread by a fifth of it about that.
[[nodiscard]] std::unique_ptr<Workload> make_rollouts(const WorkloadConfig& config);

/// Mooncake's format, several files one after the other by time. The engine's blocks must divide
/// the trace's 512 tokens. What a request generates has no hashes.
Status make_trace(const WorkloadConfig& config, std::unique_ptr<Workload>* workload,
                  std::string* reason);

}  // namespace nearkv::traces
