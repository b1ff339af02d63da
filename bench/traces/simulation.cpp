#include "simulation.hpp"

#include <algorithm>
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
  std::vector<std::shared_ptr<Tier>> shared(cluster.tiers.size());
  for (std::uint64_t i = 0; i < cluster.engine.replicas; ++i) {
    std::vector<std::shared_ptr<Tier>> seen;
    for (std::size_t t = 0; t < cluster.tiers.size(); ++t) {
      std::shared_ptr<Tier> tier = shared[t];
      if (tier == nullptr) {
        tier = std::make_shared<Tier>(cluster.tiers[t], cluster.block_bytes());
        made.tiers_.push_back(tier);
        if (cluster.tiers[t].is_shared) shared[t] = tier;
      }
      seen.push_back(std::move(tier));
    }
    auto graph = std::make_unique<scheduler::AgentStepGraph>();
    workload->describe(graph.get());
    if (const Status status =
            Replica::open(cluster.as_seen_by(i), device_s_per_token, std::move(seen),
                          std::move(graph), &made.replicas_.emplace_back(), reason);
        status != Status::kOk) {
      return status;
    }
  }
  return Status::kOk;
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
        replicas_[event.replica]->end_step(now_s, &ended_);
        for (const scheduler::Ended& one : ended_) {
          if (status == Status::kOk) status = end(now_s, event.replica, one, reason);
        }
        wake(now_s, event.replica);
        break;
      case Kind::kLoaded:
        replicas_[event.replica]->loaded(now_s, event.request, event.blocks);
        wake(now_s, event.replica);
        break;
      case Kind::kHandOver:
        status = hand_over(now_s, event.request, reason);
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
  const bool prefills = cluster_.engine.prefill_replicas > 0;
  if (prefills && request.most_output_tokens > 1) {
    // Whole blocks change hands; of the last one its successor computes a token.
    const auto block_tokens = static_cast<std::uint32_t>(cluster_.engine.block_tokens);
    flight.decodes_elsewhere = true;
    flight.decodes = request;
    flight.decodes.prompt_tokens = request.prompt_tokens / block_tokens * block_tokens + 1;
    flight.decodes.most_output_tokens = request.most_output_tokens - 1;
    request.most_output_tokens = 1;
  }
  if (const Status status = send(now_s, std::move(request), prefills, reason);
      status != Status::kOk) {
    *reason = "request " + std::to_string(flight.tag) + ": " + *reason;
    return status;
  }
  return Status::kOk;
}

std::uint32_t Simulation::choose(bool prefills) {
  const std::uint64_t border = cluster_.engine.prefill_replicas;
  const std::uint64_t begin = prefills ? 0 : border;
  const std::uint64_t end = prefills ? border : replicas_.size();
  if (!cluster_.engine.balances_load) {
    return static_cast<std::uint32_t>(begin + turn_++ % (end - begin));
  }
  std::uint64_t best = begin;
  for (std::uint64_t i = begin + 1; i < end; ++i) {
    if (replicas_[i]->load_tokens() < replicas_[best]->load_tokens()) best = i;
  }
  return static_cast<std::uint32_t>(best);
}

Status Simulation::send(Seconds now_s, scheduler::Request request, bool prefills,
                        std::string* reason) {
  const std::uint32_t replica = choose(prefills);
  const Status status = replicas_[replica]->add(now_s, std::move(request), reason);
  if (status != Status::kOk) return status;
  wake(now_s, replica);
  return Status::kOk;
}

void Simulation::wake(Seconds now_s, std::uint32_t replica) {
  loads_.clear();
  const auto ends_s = replicas_[replica]->begin_step(now_s, &loads_);
  for (const LoadUnderWay& load : loads_) {
    events_.add(load.arrives_s, {.kind = Kind::kLoaded,
                                 .replica = replica,
                                 .request = load.request,
                                 .blocks = load.blocks});
  }
  if (ends_s) events_.add(*ends_s, {.kind = Kind::kStep, .replica = replica});
}

Status Simulation::hand_over(Seconds now_s, std::uint32_t flight, std::string* reason) {
  return send(now_s, std::move(flights_[flight].decodes), /*prefills=*/false, reason);
}

Status Simulation::end(Seconds now_s, std::uint32_t replica, const scheduler::Ended& ended,
                       std::string* reason) {
  Flight& flight = flights_[ended.tag];
  preemptions_ += ended.preemptions;
  if (!flight.has_first_token) {
    flight.has_first_token = true;
    flight.served.first_token_s = ended.first_token_s;
    flight.served.cached_tokens = ended.cached_tokens;
  }
  if (std::exchange(flight.decodes_elsewhere, false)) {
    const auto index = static_cast<std::uint32_t>(ended.tag);
    const Seconds written_s = replicas_[replica]->written_s();
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
  for (const auto& replica : replicas_) {
    report.steps += replica->steps();
    hbm.read_bytes += replica->hbm_bytes();
    far.read_bytes += replica->link_bytes();
    device.read_bytes += replica->device_bytes();
    swap.read_bytes += replica->swapped_bytes();
  }
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
