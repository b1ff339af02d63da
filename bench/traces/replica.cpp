#include "replica.hpp"

#include <algorithm>
#include <utility>

namespace nearkv::traces {

Replica::Replica(const Cluster& cluster, double device_s_per_token,
                 std::vector<std::shared_ptr<Tier>> tiers,
                 std::unique_ptr<scheduler::AgentStepGraph> graph)
    : block_bytes_(cluster.block_bytes()),
      cost_(cluster, device_s_per_token),
      has_tiers_(!tiers.empty()),
      tiers_(std::move(tiers)),
      swap_link_(cluster.engine.swap_bytes_per_s, 0),
      graph_(std::move(graph)) {}

Status Replica::open(const Cluster& cluster, double device_s_per_token,
                     std::vector<std::shared_ptr<Tier>> tiers,
                     std::unique_ptr<scheduler::AgentStepGraph> graph,
                     std::unique_ptr<Replica>* replica, std::string* reason) {
  const Engine& engine = cluster.engine;
  replica->reset(new Replica(cluster, device_s_per_token, std::move(tiers), std::move(graph)));
  Replica& made = **replica;
  scheduler::PolicyOptions settings = engine.policies;
  settings.graph = made.graph_.get();
  settings.slo.classes = {{.ttft_s = cluster.promise.ttft_s}};
  std::unique_ptr<scheduler::SchedulingPolicy> policy;
  if (const Status status = make_policy(engine.policy, settings, &policy, reason);
      status != Status::kOk) {
    return status;
  }
  std::unique_ptr<EvictionPolicy> eviction;
  if (engine.eviction == "step_graph") {
    eviction = scheduler::make_step_graph_eviction(made.graph_.get());
  } else if (const Status status = make_eviction_policy(engine.eviction, cluster.pool_blocks(), {},
                                                        &eviction, reason);
             status != Status::kOk) {
    return status;
  }
  const auto swap_blocks = static_cast<std::uint32_t>(engine.swap_bytes / cluster.block_bytes());
  return scheduler::Scheduler::open(
      {.token_budget = static_cast<std::uint32_t>(engine.token_budget),
       .most_running = static_cast<std::uint32_t>(engine.most_running),
       .block_tokens = static_cast<std::uint32_t>(engine.block_tokens),
       .pool_blocks = cluster.pool_blocks(),
       .swap_blocks = swap_blocks},
      std::move(policy), std::move(eviction), made.has_tiers_ ? &made.tiers_ : nullptr,
      &made.scheduler_, reason);
}

Status Replica::add(Seconds now_s, scheduler::Request request, std::string* reason) {
  const std::uint64_t tokens = std::uint64_t{request.prompt_tokens} + request.most_output_tokens;
  scheduler::RequestId id = scheduler::kNoRequest;
  const Status status = scheduler_->add(now_s, std::move(request), &id, reason);
  if (status != Status::kOk) return status;
  load_tokens_ += tokens;
  may_prefetch_ = true;
  return Status::kOk;
}

std::optional<Seconds> Replica::begin_step(Seconds now_s, std::vector<LoadUnderWay>* loads) {
  if (is_stepping_) return std::nullopt;
  if (std::exchange(may_prefetch_, false)) prefetch(now_s);
  static_cast<void>(scheduler_->plan(now_s, &iteration_));
  Seconds begin_s = now_s;
  for (const scheduler::SwapOut& out : iteration_.swap_outs) {
    begin_s = std::max(begin_s, swap_link_.transfer(now_s, out.blocks_to_copy * block_bytes_));
  }
  for (const scheduler::Load& load : iteration_.loads) {
    loads->push_back(
        {.request = load.request, .blocks = load.blocks, .arrives_s = begin_load(load, now_s)});
  }
  if (!iteration_.has_work()) {
    std::vector<scheduler::Ended> none;
    static_cast<void>(scheduler_->complete(now_s, &none));
    return std::nullopt;
  }
  const StepCost::Cost cost = cost_.of(iteration_);
  hbm_bytes_ += cost.hbm_bytes;
  link_bytes_ += cost.link_bytes;
  device_bytes_ += cost.device_bytes;
  ++steps_;
  is_stepping_ = true;
  return begin_s + cost.duration_s;
}

Seconds Replica::begin_load(const scheduler::Load& load, Seconds now_s) {
  if (load.is_swap_in) return swap_link_.transfer(now_s, load.blocks * block_bytes_);
  const auto& hashes = scheduler_->requests()[load.request].request.block_hashes;
  return tiers_.load(std::span(hashes).subspan(load.first_block, load.blocks), now_s);
}

/// What the next agents need, at the cost of free blocks only.
void Replica::prefetch(Seconds now_s) {
  if (!has_tiers_ || scheduler_->policy().name() != "agent_steps") return;
  for (std::uint32_t agent = 0; agent < graph_->agents(); ++agent) {
    if (graph_->steps_to_next_use(agent) != 1) continue;
    static_cast<void>(scheduler_->prefetch(now_s, graph_->fixed_prompt(agent), agent));
  }
}

void Replica::end_step(Seconds now_s, std::vector<scheduler::Ended>* ended) {
  is_stepping_ = false;
  static_cast<void>(scheduler_->complete(now_s, ended));
  for (const scheduler::Ended& one : *ended) {
    load_tokens_ -= std::uint64_t{one.prompt_tokens} + one.generated_tokens;
  }
  may_prefetch_ = may_prefetch_ || !ended->empty();
}

void Replica::loaded(Seconds now_s, scheduler::RequestId request, std::uint32_t blocks) {
  static_cast<void>(scheduler_->loaded(now_s, request, blocks));
}

}  // namespace nearkv::traces
