// The scheduling policies that ship.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent_step_graph.hpp"
#include "nearkv/status.hpp"
#include "scheduling_policy.hpp"

namespace nearkv::scheduler {

/// Orca (Yu et al., OSDI 2022): in the order of arrival, whole prompts, and a start reserves the
/// blocks of its longest output, so that nobody is ever preempted.
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_orca();

/// Sarathi-Serve (Agrawal et al., OSDI 2024): in the order of arrival, prompts in chunks that fill
/// what decodes leave of the token budget, so that no step takes longer than the budget's.
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_sarathi();

struct FairShareOptions {
  double output_weight = 2;  ///< What a generated token counts beside one of a prompt.
  /// A tenant that is this many tokens of service behind another may take its place.
  double quantum_tokens = 2000;
  Seconds least_run_s = 0.5;         ///< Nobody is preempted sooner after its start.
  std::vector<double> shares = {1};  ///< By tenant; those behind the last have the last one's.
};
/// Fair shares of tenants by service received (virtual token counters, Sheng et al., OSDI 2024),
/// and preemption for them as FastSwitch (Shen et al., 2024) makes it cheap: of the tenant that had
/// most, the request goes of which fewest blocks are to be copied. Copies in host memory stay
/// valid, so that a second switch copies what is new.
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_fair_share(const FairShareOptions& options);

struct CacheAwareOptions {
  std::uint32_t window = 64;        ///< Waiting requests that are looked at, the oldest ones.
  Seconds prefill_s_per_token = 0;  ///< What computing hides of loading; 0: all of it.
  Seconds longest_wait_s = 10;      ///< Who waits longer is next, whatever it costs.
};
/// Cache-aware scheduling as Strata's (2508.18572): a request whose prefix is on its way waits for
/// it; loads are begun beside as much computation as hides them; among the rest, who arrived first.
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_cache_aware(const CacheAwareOptions& options);

struct PrefixMatchOptions {
  std::uint32_t k = 8;        ///< Picks by longest match between picks by arrival, at least 1.
  std::uint32_t window = 64;  ///< Waiting requests that are looked at, the oldest ones.
};
/// k-LPM (2502.04677): k times the longest prefix match, then once the oldest. Who is p-th in the
/// order of arrival is started within (k + 1) p starts.
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_k_lpm(const PrefixMatchOptions& options);

/// KVFlow (2507.07400): in the order of arrival, but a request whose prefix is on its way waits for
/// it; tells `graph` which agents are at work. With make_step_graph_eviction() of the same graph,
/// which must outlive both.
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_agent_steps(AgentStepGraph* graph);

/// Evicts what is no agent's fixed prompt first, then the prompts of agents whose next step is
/// farthest, those that several agents share last; among equals the least recently used, tails
/// first. Takes the number of agents for a choice.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_step_graph_eviction(const AgentStepGraph* graph);

/// Rollouts of reinforcement learning: many samples of few prompts, done when the last is. A
/// group's prompt is computed once, by its first sample, whose siblings wait for it; first samples
/// go before all others and tell how long their group's outputs are; then the longest go first
/// (Graham's rule, within 4/3 of the shortest time on identical machines).
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_rollout();

/// What a class of requests is promised.
struct ServiceClass {
  Seconds ttft_s = 1;  ///< From arrival to the first token.
};
struct SloOptions {
  std::vector<ServiceClass> classes = {{.ttft_s = 1}};  ///< Those behind the last are as the last.
  Seconds prefill_s_per_token = 0;  ///< What a prompt needs at least, to know who is too late.
};
/// Earliest deadline first, of those who can still make it; who cannot comes after them, oldest
/// first, and before everyone else once it has waited ten times its promise.
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_slo(const SloOptions& options);

/// Settings of all policies, for make_policy().
struct PolicyOptions {
  FairShareOptions fair_share{};
  CacheAwareOptions cache_aware{};
  PrefixMatchOptions prefix_match{};
  SloOptions slo{};
  AgentStepGraph* graph = nullptr;  ///< For agent_steps.
};

/// orca, sarathi, fair_share, cache_aware, k_lpm, agent_steps, rollout, slo.
[[nodiscard]] std::vector<std::string_view> policy_names();

/// The policy of that name. kBadArgument, with a `reason` that lists the names, if there is none,
/// or if a setting is out of its range.
Status make_policy(std::string_view name, const PolicyOptions& options,
                   std::unique_ptr<SchedulingPolicy>* policy, std::string* reason);

}  // namespace nearkv::scheduler
