#include "advisor.hpp"

#include <algorithm>
#include <utility>

namespace nearkv::scheduler {

Status Advisor::open(std::string_view policy, const PolicyOptions& options,
                     std::uint32_t block_tokens, std::unique_ptr<Advisor>* advisor,
                     std::string* reason) {
  std::unique_ptr<SchedulingPolicy> made;
  const Status status = make_policy(policy, options, &made, reason);
  if (status != Status::kOk) return status;
  const Traits traits = made->traits();
  if (!traits.chunks_prefill || traits.reserves_output) {
    *reason =
        std::string(policy) +
        " needs steps of its own, which this engine does not leave to it: take sarathi, whose "
        "order is the same";
    return Status::kBadArgument;
  }
  if (block_tokens == 0) {
    *reason = "block_tokens is at least 1";
    return Status::kBadArgument;
  }
  advisor->reset(new Advisor(std::move(made), block_tokens));
  return Status::kOk;
}

View Advisor::view(Seconds now_s) const {
  return {.now_s = now_s,
          .requests = &requests_,
          .residencies = &engine_,
          .running = running_,
          .block_tokens = block_tokens_};
}

Status Advisor::check(RequestId id, Phase phase) const {
  if (!requests_.has(id)) return Status::kNotFound;
  return requests_[id].phase == phase ? Status::kOk : Status::kBadArgument;
}

RequestId Advisor::add(Seconds now_s, Request request) {
  const RequestId id = requests_.add({.request = std::move(request), .arrived_s = now_s});
  policy_->on_wait(id, view(now_s));
  return id;
}

Status Advisor::set_aside(Seconds now_s, RequestId id) {
  const Status status = check(id, Phase::kWaiting);
  if (status != Status::kOk) return status;
  policy_->on_leave(id, view(now_s));
  requests_[id].phase = Phase::kLoading;
  return Status::kOk;
}

Status Advisor::wait(Seconds now_s, RequestId id) {
  if (!requests_.has(id)) return Status::kNotFound;
  RequestState& state = requests_[id];
  if (state.phase == Phase::kWaiting) return Status::kBadArgument;
  if (state.phase == Phase::kRunning) stop(now_s, id);
  state.computed_tokens = 0;
  state.phase = Phase::kWaiting;
  // Policies count who waits for the first time.
  ++state.preemptions;
  policy_->on_wait(id, view(now_s));
  return Status::kOk;
}

Status Advisor::start(Seconds now_s, RequestId id, const Residency& found) {
  if (!requests_.has(id)) return Status::kNotFound;
  RequestState& state = requests_[id];
  if (state.phase == Phase::kRunning) return Status::kBadArgument;
  if (state.phase == Phase::kWaiting) policy_->on_leave(id, view(now_s));
  state.phase = Phase::kRunning;
  state.started_s = now_s;
  state.computed_tokens =
      std::min((found.pool_blocks + found.lower_blocks) * block_tokens_, state.known_tokens() - 1);
  running_.push_back(id);
  policy_->on_start(id, found, view(now_s));
  return Status::kOk;
}

Status Advisor::advance(Seconds now_s, RequestId id, std::uint32_t computed,
                        std::uint32_t generated) {
  const Status status = check(id, Phase::kRunning);
  if (status != Status::kOk) return status;
  RequestState& state = requests_[id];
  const bool was_decoding = state.is_decoding();
  // What an engine computed and then rejected, it has not computed.
  state.computed_tokens =
      std::min(state.computed_tokens + computed, state.known_tokens() + generated - 1);
  state.generated_tokens += generated;
  if (generated > 0 && state.first_token_s < 0) state.first_token_s = now_s;
  policy_->on_tokens(id, computed, generated, view(now_s));
  if (generated > 0 && !was_decoding) policy_->on_prefilled(id, view(now_s));
  return Status::kOk;
}

Status Advisor::end(Seconds now_s, RequestId id) {
  if (!requests_.has(id)) return Status::kNotFound;
  const Phase phase = requests_[id].phase;
  if (phase == Phase::kWaiting) policy_->on_leave(id, view(now_s));
  if (phase == Phase::kRunning) stop(now_s, id);
  policy_->on_end(id, view(now_s));
  requests_.remove(id);
  return Status::kOk;
}

std::optional<RequestId> Advisor::next(Seconds now_s, const Find& find) {
  engine_.find = &find;
  const auto id = policy_->next(view(now_s));
  engine_.find = nullptr;
  return id;
}

std::optional<RequestId> Advisor::makes_room(Seconds now_s, RequestId candidate) {
  if (check(candidate, Phase::kWaiting) != Status::kOk) return std::nullopt;
  return policy_->makes_room(candidate, view(now_s));
}

std::vector<RequestId> Advisor::order_of_giving_way(Seconds now_s) {
  std::vector<RequestId> left = running_;
  std::vector<RequestId> order;
  order.reserve(left.size());
  View among = view(now_s);
  while (!left.empty()) {
    among.running = left;
    const auto victim = policy_->gives_way(among);
    if (!victim) break;
    order.push_back(*victim);
    std::erase(left, *victim);
  }
  return order;
}

void Advisor::stop(Seconds now_s, RequestId id) {
  policy_->on_stop(id, view(now_s));
  std::erase(running_, id);
}

}  // namespace nearkv::scheduler
