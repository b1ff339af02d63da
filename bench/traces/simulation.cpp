#include "simulation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace nearkv::traces {

Simulation::Simulation(const Cluster& cluster, Workload* workload)
    : cluster_(cluster), workload_(workload), metrics_(cluster) {}

Status Simulation::open(const Cluster& cluster, double device_s_per_token, Workload* workload,
                        std::unique_ptr<Simulation>* simulation, std::string* reason) {
  simulation->reset(new Simulation(cluster, workload));
  Simulation& made = **simulation;
  if (cluster.engine.prefill_replicas > 0 && cluster.tiers.empty()) {
    *reason = "engine.prefill_replicas needs a shared tier, over which KV goes to who decodes";
    return Status::kBadArgument;
  }
  made.device_s_per_token_ = device_s_per_token;
  made.shared_tiers_.resize(cluster.tiers.size());
  made.places_.resize(cluster.engine.replicas);
  for (std::uint32_t i = 0; i < made.places_.size(); ++i) {
    if (const Status status = made.open_replica(i, reason); status != Status::kOk) return status;
  }
  for (std::uint32_t i = 0; i < cluster.failures.size(); ++i) {
    const Failure& failure = cluster.failures[i];
    if (failure.replica >= made.places_.size()) {
      *reason = "failures: there is no replica " + std::to_string(failure.replica);
      return Status::kBadArgument;
    }
    const auto replica = static_cast<std::uint32_t>(failure.replica);
    made.events_.add(failure.at_s, {.kind = Kind::kFail, .replica = replica});
    made.events_.add(failure.at_s + failure.down_s, {.kind = Kind::kRepair, .replica = replica});
  }
  return Status::kOk;
}

/// With empty memory, and tiers of its own.
Status Simulation::open_replica(std::uint32_t index, std::string* reason) {
  std::vector<std::shared_ptr<Tier>> seen;
  for (std::size_t t = 0; t < cluster_.tiers.size(); ++t) {
    std::shared_ptr<Tier> tier = shared_tiers_[t];
    if (tier == nullptr) {
      tier = std::make_shared<Tier>(cluster_.tiers[t], cluster_.block_bytes());
      tiers_.push_back(tier);
      if (cluster_.tiers[t].is_shared) shared_tiers_[t] = tier;
    }
    seen.push_back(std::move(tier));
  }
  auto graph = std::make_unique<scheduler::AgentStepGraph>();
  workload_->describe(graph.get());
  return Replica::open(cluster_.as_seen_by(index), device_s_per_token_, std::move(seen),
                       std::move(graph), &places_[index].replica, reason);
}

Status Simulation::run(std::string* reason) {
  plan_next_arrival();
  while (!events_.empty()) {
    const Seconds now_s = events_.next_s();
    const Event event = events_.take();
    Status status = Status::kOk;
    switch (event.kind) {
      case Kind::kArrival:
        status = arrive(now_s, std::move(arrivals_[event.request]), reason);
        free_arrivals_.push_back(event.request);
        if (event.is_stream) plan_next_arrival();
        break;
      case Kind::kStep:
        if (event.life != places_[event.replica].life) break;
        if (std::isfinite(cluster_.promise.tbt_s)) {
          note_tokens(now_s, *places_[event.replica].replica);
        }
        places_[event.replica].replica->end_step(now_s, &ended_);
        for (const scheduler::Ended& one : ended_) {
          if (status == Status::kOk) status = end(now_s, event.replica, one, reason);
        }
        wake(now_s, event.replica);
        break;
      case Kind::kLoaded:
        if (event.life != places_[event.replica].life) break;
        places_[event.replica].replica->loaded(now_s, event.request, event.blocks);
        wake(now_s, event.replica);
        break;
      case Kind::kHandOver:
        status = hand_over(now_s, event.request, reason);
        break;
      case Kind::kFail:
        status = fail(now_s, event.replica, reason);
        break;
      case Kind::kRepair:
        status = repair(now_s, event.replica, reason);
        break;
    }
    if (status != Status::kOk) return status;
  }
  if (in_flight_ == 0) return Status::kOk;
  *reason = std::to_string(in_flight_) + " requests could not go on: no step computes them";
  return Status::kInternal;
}

void Simulation::plan_next_arrival() {
  if (auto arrival = workload_->next()) plan(std::move(*arrival), /*is_stream=*/true);
}

void Simulation::plan(Arrival arrival, bool is_stream) {
  std::uint32_t index = static_cast<std::uint32_t>(arrivals_.size());
  if (free_arrivals_.empty()) {
    arrivals_.emplace_back();
  } else {
    index = free_arrivals_.back();
    free_arrivals_.pop_back();
  }
  const Seconds at_s = arrival.at_s;
  arrivals_[index] = std::move(arrival);
  events_.add(at_s, {.kind = Kind::kArrival, .is_stream = is_stream, .request = index});
}

std::uint32_t Simulation::new_flight() {
  ++in_flight_;
  if (free_flights_.empty()) {
    flights_.emplace_back();
    return static_cast<std::uint32_t>(flights_.size() - 1);
  }
  const std::uint32_t index = free_flights_.back();
  free_flights_.pop_back();
  return index;
}

Status Simulation::arrive(Seconds now_s, Arrival arrival, std::string* reason) {
  const std::uint32_t index = new_flight();
  scheduler::Request& request = arrival.request;
  Flight& flight = flights_[index];
  flight = {.tag = request.tag,
            .served = {.arrived_s = now_s,
                       .prompt_tokens = request.prompt_tokens,
                       .output_tokens = request.most_output_tokens}};
  request.tag = index;
  const Engine& engine = cluster_.engine;
  const bool prefills = engine.prefill_replicas > 0;
  if (prefills && (request.most_output_tokens > 1 || engine.hands_over_blocks)) {
    flight.decodes_elsewhere = true;
    flight.decodes = request;
    if (!engine.hands_over_blocks) {
      // Of the last block its successor computes a token.
      const auto block_tokens = static_cast<std::uint32_t>(engine.block_tokens);
      flight.decodes.prompt_tokens = request.prompt_tokens / block_tokens * block_tokens + 1;
      flight.decodes.most_output_tokens = request.most_output_tokens - 1;
    }
    request.most_output_tokens = 1;
  }
  if (const Status status = send(now_s, std::move(request), prefills, reason);
      status != Status::kOk) {
    *reason = "request " + std::to_string(flight.tag) + ": " + *reason;
    return status;
  }
  return Status::kOk;
}

/// None where all of that kind are down.
std::optional<std::uint32_t> Simulation::choose(bool prefills) {
  const std::uint64_t border = cluster_.engine.prefill_replicas;
  const std::uint64_t begin = prefills ? 0 : border;
  const std::uint64_t end = prefills ? border : places_.size();
  std::optional<std::uint32_t> best;
  const std::uint64_t first = cluster_.engine.balances_load ? 0 : turn_++;
  for (std::uint64_t i = 0; i < end - begin; ++i) {
    const auto index = static_cast<std::uint32_t>(begin + (first + i) % (end - begin));
    if (places_[index].failures > 0) continue;
    if (!cluster_.engine.balances_load) return index;
    if (!best || places_[index].replica->load_tokens() < places_[*best].replica->load_tokens()) {
      best = index;
    }
  }
  return best;
}

Status Simulation::send(Seconds now_s, scheduler::Request request, bool prefills,
                        std::string* reason) {
  const std::optional<std::uint32_t> replica = choose(prefills);
  if (!replica) {
    stranded_.push_back({.request = std::move(request), .prefills = prefills});
    return Status::kOk;
  }
  const Status status = places_[*replica].replica->add(now_s, std::move(request), reason);
  if (status != Status::kOk) return status;
  wake(now_s, *replica);
  return Status::kOk;
}

Status Simulation::fail(Seconds now_s, std::uint32_t replica, std::string* reason) {
  Place& place = places_[replica];
  ++place.life;
  if (++place.failures > 1) return Status::kOk;
  failed_.push_back(std::move(place.replica));
  if (const Status status = open_replica(replica, reason); status != Status::kOk) return status;
  const bool prefills = replica < cluster_.engine.prefill_replicas;
  std::vector<scheduler::Request> lost;
  failed_.back()->requests().for_each([&](const scheduler::RequestState& state) {
    if (state.is_prefetch) return;
    // Whoever goes on with it has the text so far, and computes it as a longer prompt.
    scheduler::Request rest = state.request;
    rest.prompt_tokens += state.generated_tokens;
    rest.most_output_tokens -= state.generated_tokens;
    Flight& flight = flights_[rest.tag];
    if (tells_first_token(flight) && state.first_token_s >= 0) {
      flight.has_first_token = true;
      flight.served.first_token_s = state.first_token_s;
      flight.served.cached_tokens = state.cached_tokens;
    }
    lost.push_back(std::move(rest));
  });
  for (scheduler::Request& request : lost) {
    if (const Status status = send(now_s, std::move(request), prefills, reason);
        status != Status::kOk) {
      return status;
    }
  }
  return Status::kOk;
}

Status Simulation::repair(Seconds now_s, std::uint32_t replica, std::string* reason) {
  if (--places_[replica].failures > 0) return Status::kOk;
  for (Stranded& one : std::exchange(stranded_, {})) {
    if (const Status status = send(now_s, std::move(one.request), one.prefills, reason);
        status != Status::kOk) {
      return status;
    }
  }
  return Status::kOk;
}

/// Whether the first token of whoever has the request now is the first that its user sees.
bool Simulation::tells_first_token(const Flight& flight) const {
  if (flight.has_first_token) return false;
  return !flight.decodes_elsewhere || !cluster_.engine.hands_over_blocks;
}

/// A step that ends gives a token to each request of which it leaves nothing to compute.
void Simulation::note_tokens(Seconds now_s, const Replica& replica) {
  const auto note = [&](const scheduler::Work& work) {
    const scheduler::RequestState& state = replica.requests()[work.request];
    if (work.context_tokens + work.tokens != state.known_tokens()) return;
    Flight& flight = flights_[state.request.tag];
    if (flight.decodes_elsewhere && cluster_.engine.hands_over_blocks) return;
    if (flight.last_token_s >= 0) {
      Seconds& longest_s = flight.served.longest_tbt_s;
      longest_s = std::max(longest_s, now_s - flight.last_token_s);
    }
    flight.last_token_s = now_s;
  };
  std::ranges::for_each(replica.iteration().decodes, note);
  std::ranges::for_each(replica.iteration().prefills, note);
}

void Simulation::wake(Seconds now_s, std::uint32_t replica) {
  loads_.clear();
  const auto ends_s = places_[replica].replica->begin_step(now_s, &loads_);
  for (const LoadUnderWay& load : loads_) {
    events_.add(load.arrives_s, {.kind = Kind::kLoaded,
                                 .replica = replica,
                                 .request = load.request,
                                 .blocks = load.blocks,
                                 .life = places_[replica].life});
  }
  if (ends_s) {
    events_.add(*ends_s, {.kind = Kind::kStep, .replica = replica, .life = places_[replica].life});
  }
}

Status Simulation::hand_over(Seconds now_s, std::uint32_t flight, std::string* reason) {
  return send(now_s, std::move(flights_[flight].decodes), /*prefills=*/false, reason);
}

Status Simulation::end(Seconds now_s, std::uint32_t replica, const scheduler::Ended& ended,
                       std::string* reason) {
  Flight& flight = flights_[ended.tag];
  preemptions_ += ended.preemptions;
  const bool was_found_here = !flight.has_first_token && !flight.is_handed_over;
  if (was_found_here) flight.served.cached_tokens = ended.cached_tokens;
  if (tells_first_token(flight)) {
    flight.has_first_token = true;
    flight.served.first_token_s = ended.first_token_s;
  }
  if (std::exchange(flight.decodes_elsewhere, false)) {
    flight.is_handed_over = true;
    const auto index = static_cast<std::uint32_t>(ended.tag);
    const Seconds written_s = places_[replica].replica->written_s();
    if (written_s <= now_s) return hand_over(now_s, index, reason);
    events_.add(written_s, {.kind = Kind::kHandOver, .request = index});
    return Status::kOk;
  }
  flight.served.ended_s = now_s;
  metrics_.add(flight.served);
  const std::uint64_t tag = flight.tag;
  free_flights_.push_back(static_cast<std::uint32_t>(ended.tag));
  --in_flight_;
  if (auto next = workload_->follow_up(tag, now_s)) plan(std::move(*next), /*is_stream=*/false);
  return Status::kOk;
}

Report Simulation::report() const {
  Report report = metrics_.report();
  report.preemptions = preemptions_;
  Moved hbm{.name = "hbm"};
  Moved far{.name = "far_link"};
  Moved device{.name = "far_device"};
  Moved swap{.name = "swap"};
  const auto add = [&](const Replica& replica) {
    report.steps += replica.steps();
    hbm.read_bytes += replica.hbm_bytes();
    far.read_bytes += replica.link_bytes();
    device.read_bytes += replica.device_bytes();
    swap.read_bytes += replica.swapped_bytes();
  };
  for (const Place& place : places_) add(*place.replica);
  for (const auto& replica : failed_) add(*replica);
  report.moved = {hbm, far, device, swap};
  for (const TierConfig& config : cluster_.tiers) {
    Moved moved{.name = config.name};
    for (const auto& tier : tiers_) {
      if (tier->config().name != config.name) continue;
      moved.read_bytes += tier->bytes_loaded();
      moved.written_bytes += tier->bytes_stored();
    }
    report.moved.push_back(moved);
  }
  return report;
}

}  // namespace nearkv::traces
