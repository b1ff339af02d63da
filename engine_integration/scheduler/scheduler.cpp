#include "scheduler.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace nearkv::scheduler {
namespace {

Status refuse(Status status, std::string text, std::string* reason) {
  *reason = std::move(text);
  return status;
}

}  // namespace

Scheduler::Scheduler(const Options& options, std::unique_ptr<SchedulingPolicy> policy,
                     std::unique_ptr<EvictionPolicy> eviction, LowerTiers* lower)
    : options_(options),
      policy_(std::move(policy)),
      traits_(policy_->traits()),
      pool_(options.pool_blocks, std::move(eviction)),
      lower_(lower),
      residencies_(pool_, lower) {}

Status Scheduler::open(const Options& options, std::unique_ptr<SchedulingPolicy> policy,
                       std::unique_ptr<EvictionPolicy> eviction, LowerTiers* lower,
                       std::unique_ptr<Scheduler>* scheduler, std::string* reason) {
  if (policy == nullptr || eviction == nullptr) {
    return refuse(Status::kBadArgument, "a scheduling and an eviction policy are needed", reason);
  }
  if (options.block_tokens == 0 || options.pool_blocks == 0 || options.most_running == 0 ||
      !(options.prefill_s_per_token >= 0)) {
    return refuse(Status::kBadArgument,
                  "block_tokens, pool_blocks and most_running must be at least 1, and "
                  "prefill_s_per_token at least 0",
                  reason);
  }
  if (options.token_budget < options.most_running) {
    return refuse(Status::kBadArgument,
                  "token_budget " + std::to_string(options.token_budget) +
                      " is less than most_running " + std::to_string(options.most_running) +
                      ", so that decodes would wait: raise one or lower the other",
                  reason);
  }
  scheduler->reset(new (std::nothrow)
                       Scheduler(options, std::move(policy), std::move(eviction), lower));
  return *scheduler ? Status::kOk : Status::kOutOfMemory;
}

View Scheduler::view(Seconds now_s) const {
  return {.now_s = now_s,
          .requests = &requests_,
          .residencies = &residencies_,
          .running = running_,
          .block_tokens = options_.block_tokens,
          .tokens_left = tokens_left_,
          .loading_s = loading_s_};
}

std::uint32_t Scheduler::blocks_of(std::uint64_t tokens) const {
  return static_cast<std::uint32_t>((tokens + options_.block_tokens - 1) / options_.block_tokens);
}

Status Scheduler::add(Seconds now_s, Request request, RequestId* id, std::string* reason) {
  if (request.prompt_tokens == 0 || request.most_output_tokens == 0) {
    return refuse(Status::kBadArgument, "a request has a prompt and an output of 1 token or more",
                  reason);
  }
  const std::uint64_t tokens = std::uint64_t{request.prompt_tokens} + request.most_output_tokens;
  const std::uint64_t blocks = (tokens - 1 + options_.block_tokens - 1) / options_.block_tokens;
  if (blocks > options_.pool_blocks) {
    return refuse(Status::kPoolFull,
                  "a prompt of " + std::to_string(request.prompt_tokens) + " tokens and " +
                      std::to_string(request.most_output_tokens) + " of output need " +
                      std::to_string(blocks) + " blocks, and the pool has " +
                      std::to_string(options_.pool_blocks) +
                      ": enlarge the pool, or shorten the request",
                  reason);
  }
  if (!traits_.chunks_prefill && tokens + options_.most_running > options_.token_budget) {
    return refuse(Status::kBadArgument,
                  "a prompt of " + std::to_string(request.prompt_tokens) +
                      " tokens is computed in one step by policy " + std::string(policy_->name()) +
                      ", and with its output and most_running exceeds token_budget " +
                      std::to_string(options_.token_budget) +
                      ": raise it, or take a policy that cuts prompts, such as sarathi",
                  reason);
  }
  *id = requests_.add({.request = std::move(request), .arrived_s = now_s});
  ++waiting_;
  policy_->on_wait(*id, view(now_s));
  return Status::kOk;
}

Status Scheduler::plan(Seconds now_s, Iteration* iteration) {
  if (is_planned_) return Status::kBusy;
  iteration_.decodes.clear();
  iteration_.prefills.clear();
  iteration_.swap_outs.clear();
  iteration_.loads.clear();
  std::swap(iteration_.loads, prefetches_);
  tokens_left_ = options_.token_budget;
  loading_s_ = 0;
  has_preempted_ = false;
  plan_decodes(now_s);
  plan_prefills();
  // Whoever lost its blocks now would only take them back.
  if (!has_preempted_) plan_starts(now_s);
  is_planned_ = true;
  *iteration = iteration_;
  return Status::kOk;
}

void Scheduler::plan_decodes(Seconds now_s) {
  for (const RequestId id : running_) {
    const RequestState& state = requests_[id];
    if (state.phase != Phase::kRunning || !state.is_decoding() || !grow(now_s, id)) continue;
    iteration_.decodes.push_back(
        {.request = id, .tokens = 1, .context_tokens = state.computed_tokens});
    --tokens_left_;
  }
  if (has_preempted_) drop_preempted();
}

void Scheduler::plan_prefills() {
  for (const RequestId id : running_) {
    if (tokens_left_ == 0) return;
    const RequestState& state = requests_[id];
    if (state.phase != Phase::kRunning || state.is_decoding()) continue;
    const std::uint32_t left = state.tokens_to_compute();
    if (!traits_.chunks_prefill && left > tokens_left_) continue;
    const std::uint32_t tokens = std::min(left, tokens_left_);
    iteration_.prefills.push_back(
        {.request = id, .tokens = tokens, .context_tokens = state.computed_tokens});
    tokens_left_ -= tokens;
  }
}

void Scheduler::plan_starts(Seconds now_s) {
  // A policy that lets two requests push each other out costs a step, not the engine.
  for (std::uint32_t tries = 0; tokens_left_ > 0 && tries < 2 * options_.most_running; ++tries) {
    const auto candidate = policy_->next(view(now_s));
    if (!candidate) return;
    if (running_.size() >= options_.most_running) {
      const auto victim = policy_->makes_room(*candidate, view(now_s));
      if (!victim) return;
      preempt(now_s, *victim);
      drop_preempted();
    } else if (!start(now_s, *candidate)) {
      return;
    }
  }
}

void Scheduler::drop_preempted() {
  const auto has_stopped = [this](RequestId id) { return requests_[id].phase == Phase::kWaiting; };
  std::erase_if(running_, has_stopped);
  for (std::vector<Work>* works : {&iteration_.decodes, &iteration_.prefills}) {
    std::erase_if(*works, [&](const Work& work) {
      if (!has_stopped(work.request)) return false;
      tokens_left_ += work.tokens;
      return true;
    });
  }
}

}  // namespace nearkv::scheduler
