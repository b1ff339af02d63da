// What has been computed or loaded, and who has ended.
#include <algorithm>
#include <utility>

#include "scheduler.hpp"

namespace nearkv::scheduler {

Status Scheduler::complete(Seconds now_s, std::vector<Ended>* ended) {
  ended->clear();
  if (!std::exchange(is_planned_, false)) return Status::kBadArgument;
  for (const Work& work : iteration_.decodes) compute(now_s, work, ended);
  for (const Work& work : iteration_.prefills) compute(now_s, work, ended);
  if (std::exchange(has_cancelled_, false)) {
    for (const RequestId id : running_) {
      const RequestState& state = requests_[id];
      if (state.ends_early && state.phase == Phase::kRunning) finish(now_s, id, ended);
    }
  }
  if (ended->empty()) return Status::kOk;
  std::erase_if(running_, [this](RequestId id) { return requests_[id].phase == Phase::kWaiting; });
  for (const Ended& one : *ended) requests_.remove(one.id);
  return Status::kOk;
}

void Scheduler::compute(Seconds now_s, const Work& work, std::vector<Ended>* ended) {
  RequestState& state = requests_[work.request];
  const bool was_decoding = state.is_decoding();
  state.computed_tokens += work.tokens;
  const bool generates = state.tokens_to_compute() == 0;
  if (generates) {
    ++state.generated_tokens;
    if (state.first_token_s < 0) state.first_token_s = now_s;
  }
  policy_->on_tokens(work.request, work.tokens, generates ? 1 : 0, view(now_s));
  if (generates && !was_decoding) {
    publish(work.request, now_s, /*stores=*/true);
    policy_->on_prefilled(work.request, view(now_s));
  }
  if (state.generated_tokens >= state.request.most_output_tokens || state.ends_early) {
    finish(now_s, work.request, ended);
  }
}

void Scheduler::publish(RequestId id, Seconds now_s, bool stores) {
  RequestState& state = requests_[id];
  const std::span<const BlockHash> hashes(state.request.block_hashes);
  const std::size_t begin = state.shared_blocks.size();
  const std::size_t end = std::max(
      begin, std::min<std::size_t>(state.computed_tokens / options_.block_tokens, hashes.size()));
  if (begin == end) return;
  const auto computed = hashes.subspan(begin, end - begin);
  pool_.publish(computed, &state.shared_blocks);
  state.private_blocks -= static_cast<std::uint32_t>(computed.size());
  if (stores && lower_ != nullptr) lower_->store(computed, now_s);
}

void Scheduler::finish(Seconds now_s, RequestId id, std::vector<Ended>* ended) {
  RequestState& state = requests_[id];
  publish(id, now_s, /*stores=*/true);
  ended->push_back({.tag = state.request.tag,
                    .id = id,
                    .arrived_s = state.arrived_s,
                    .first_token_s = state.first_token_s,
                    .prompt_tokens = state.request.prompt_tokens,
                    .generated_tokens = state.generated_tokens,
                    .cached_tokens = state.cached_tokens,
                    .preemptions = state.preemptions});
  policy_->on_stop(id, view(now_s));
  policy_->on_end(id, view(now_s));
  release_blocks(id);
  swapped_blocks_ -= std::exchange(state.host_blocks, 0);
}

Status Scheduler::end(Seconds now_s, RequestId id) {
  if (!requests_.has(id) || requests_[id].is_prefetch) return Status::kNotFound;
  RequestState& state = requests_[id];
  if (state.phase == Phase::kLoading || (state.phase == Phase::kRunning && is_planned_)) {
    // Something still writes to its blocks.
    state.ends_early = true;
    has_cancelled_ = true;
    return Status::kOk;
  }
  if (state.phase == Phase::kWaiting) {
    --waiting_;
    policy_->on_leave(id, view(now_s));
    policy_->on_end(id, view(now_s));
    swapped_blocks_ -= state.host_blocks;
  } else {
    std::vector<Ended> unused;
    finish(now_s, id, &unused);
    std::erase(running_, id);
  }
  requests_.remove(id);
  return Status::kOk;
}

Status Scheduler::loaded(Seconds now_s, RequestId id, std::uint32_t blocks) {
  if (!requests_.has(id) || requests_[id].phase != Phase::kLoading) return Status::kNotFound;
  RequestState& state = requests_[id];
  if (blocks > state.loading_blocks) return Status::kBadArgument;
  const bool has_all = blocks == state.loading_blocks;
  const auto loaded_tokens =
      static_cast<std::uint32_t>((state.shared_blocks.size() + blocks) * options_.block_tokens);
  if (state.swapped_tokens > 0) {
    state.computed_tokens =
        has_all ? state.swapped_tokens : std::min(loaded_tokens, state.swapped_tokens);
    forget_swap(&state);
  } else {
    state.computed_tokens = loaded_tokens;
    publish(id, now_s, /*stores=*/false);
  }
  state.loading_blocks = 0;
  state.phase = Phase::kRunning;
  if (!state.is_prefetch && !state.ends_early) return Status::kOk;
  if (state.is_prefetch) {
    release_blocks(id);
    requests_.remove(id);
    return Status::kOk;
  }
  return end(now_s, id);
}

}  // namespace nearkv::scheduler
