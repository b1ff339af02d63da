// Starting, preempting, loading: who holds blocks.
#include <algorithm>
#include <utility>

#include "scheduler.hpp"

namespace nearkv::scheduler {

bool Scheduler::grow(Seconds now_s, RequestId id) {
  RequestState& state = requests_[id];
  if (blocks_of(state.known_tokens()) <= state.held_blocks()) return true;
  while (!pool_.take(1)) {
    const RequestId victim = policy_->gives_way(view(now_s)).value_or(id);
    preempt(now_s, victim);
    if (victim == id) return false;
  }
  ++state.private_blocks;
  return true;
}

bool Scheduler::take_for(Seconds now_s, RequestId id, std::uint32_t blocks) {
  while (!pool_.take(blocks)) {
    const auto victim = policy_->makes_room(id, view(now_s));
    if (!victim) return false;
    preempt(now_s, *victim);
    drop_preempted();
  }
  return true;
}

bool Scheduler::start(Seconds now_s, RequestId id) {
  RequestState& state = requests_[id];
  Residency found = view(now_s).residency(id);
  const Seconds computing_s =
      options_.prefill_s_per_token * found.lower_blocks * options_.block_tokens;
  const bool is_slower = options_.prefill_s_per_token > 0 && found.load_s > computing_s;
  if (state.swapped_tokens > 0 || is_slower) found.lower_blocks = 0;
  const std::uint32_t held_tokens = found.pool_blocks * options_.block_tokens;
  const bool swaps_in = state.swapped_tokens > held_tokens;
  const bool loads = swaps_in || found.lower_blocks > 0;
  const std::uint32_t known = state.known_tokens();
  if (!traits_.chunks_prefill && !loads && known - held_tokens > tokens_left_) return false;

  const std::uint32_t most_tokens =
      traits_.reserves_output ? state.request.prompt_tokens + state.request.most_output_tokens - 1
                              : known;
  const std::uint32_t blocks = blocks_of(most_tokens) - found.pool_blocks;
  pool_.pin(state.request.block_hashes, found.pool_blocks, &state.shared_blocks);
  if (!take_for(now_s, id, blocks)) {
    pool_.unpin(&state.shared_blocks);
    return false;
  }
  state.private_blocks = blocks;
  state.computed_tokens = held_tokens;
  state.started_s = now_s;
  if (state.preemptions == 0) {
    state.cached_tokens = held_tokens + found.lower_blocks * options_.block_tokens;
  }
  state.phase = Phase::kRunning;
  --waiting_;
  running_.push_back(id);
  policy_->on_leave(id, view(now_s));
  if (loads) {
    begin_load(id, found);
  } else {
    forget_swap(&state);
    const std::uint32_t tokens = std::min(state.tokens_to_compute(), tokens_left_);
    iteration_.prefills.push_back(
        {.request = id, .tokens = tokens, .context_tokens = state.computed_tokens});
    tokens_left_ -= tokens;
  }
  policy_->on_start(id, found, view(now_s));
  return true;
}

void Scheduler::begin_load(RequestId id, const Residency& found) {
  RequestState& state = requests_[id];
  const bool is_swap_in = found.lower_blocks == 0;
  state.phase = Phase::kLoading;
  state.loading_blocks =
      is_swap_in ? blocks_of(state.swapped_tokens) - found.pool_blocks : found.lower_blocks;
  if (!is_swap_in) loading_s_ = std::max(loading_s_, found.load_s);
  iteration_.loads.push_back({.request = id,
                              .first_block = found.pool_blocks,
                              .blocks = state.loading_blocks,
                              .is_swap_in = is_swap_in});
}

void Scheduler::forget_swap(RequestState* state) {
  const std::uint32_t full_blocks =
      std::min(state->host_blocks, state->swapped_tokens / options_.block_tokens);
  swapped_blocks_ -= state->host_blocks - full_blocks;
  state->host_blocks = full_blocks;
  state->swapped_tokens = 0;
}

void Scheduler::preempt(Seconds now_s, RequestId id) {
  RequestState& state = requests_[id];
  policy_->on_stop(id, view(now_s));
  const std::uint32_t computed_blocks = blocks_of(state.computed_tokens);
  const std::uint32_t to_copy = computed_blocks - std::min(state.host_blocks, computed_blocks);
  if (swapped_blocks_ + to_copy <= options_.swap_blocks) {
    swapped_blocks_ += to_copy;
    state.host_blocks = std::max(state.host_blocks, computed_blocks);
    state.swapped_tokens = state.computed_tokens;
    if (to_copy > 0) iteration_.swap_outs.push_back({.request = id, .blocks_to_copy = to_copy});
  } else {
    swapped_blocks_ -= std::exchange(state.host_blocks, 0);
    state.swapped_tokens = 0;
  }
  release_blocks(id);
  ++state.preemptions;
  ++waiting_;
  has_preempted_ = true;
  policy_->on_wait(id, view(now_s));
}

void Scheduler::release_blocks(RequestId id) {
  RequestState& state = requests_[id];
  pool_.unpin(&state.shared_blocks);
  pool_.give_back(std::exchange(state.private_blocks, 0));
  state.loading_blocks = 0;
  state.computed_tokens = 0;
  state.phase = Phase::kWaiting;
}

Status Scheduler::prefetch(Seconds now_s, std::span<const BlockHash> hashes, std::uint32_t agent) {
  if (is_planned_) return Status::kBusy;
  const std::uint32_t held = pool_.match(hashes);
  const Loadable loadable = lower_ == nullptr || held == hashes.size()
                                ? Loadable()
                                : lower_->find(hashes.subspan(held), now_s);
  if (loadable.blocks == 0) return Status::kNotFound;
  if (pool_.free_blocks() < loadable.blocks || !pool_.take(loadable.blocks)) {
    return Status::kPoolFull;
  }
  const auto wanted = hashes.first(held + loadable.blocks);
  RequestState state{.request = {.prompt_tokens = held * options_.block_tokens,
                                 .block_hashes = {wanted.begin(), wanted.end()},
                                 .agent = agent},
                     .phase = Phase::kLoading,
                     .is_prefetch = true,
                     .arrived_s = now_s,
                     .private_blocks = loadable.blocks,
                     .loading_blocks = loadable.blocks};
  state.computed_tokens = held * options_.block_tokens;
  pool_.pin(hashes, held, &state.shared_blocks);
  const RequestId id = requests_.add(std::move(state));
  prefetches_.push_back({.request = id, .first_block = held, .blocks = loadable.blocks});
  return Status::kOk;
}

}  // namespace nearkv::scheduler
