#include "worker_table.hpp"

#include <cmath>

#include "edge.hpp"

namespace nearkv::router {

Status WorkerTable::add(std::string_view name, const WorkerOptions& options, WorkerId* id) {
  const double rate = options.prefill_tokens_per_s;
  if (name.empty() || !std::isfinite(rate) || rate < 0) return Status::kBadArgument;
  return at_edge([&] {
    const std::lock_guard lock(mutex_);
    if (numbers_.contains(std::string(name))) return Status::kExists;
    const std::size_t count = size_.load(std::memory_order_relaxed);
    if (free_.empty() && count == kMaxWorkers) return Status::kPoolFull;
    const WorkerId number = free_.empty() ? static_cast<WorkerId>(count) : free_.back();
    Worker& worker = (*workers_)[number];
    worker.name = name;
    numbers_.emplace(name, number);
    worker.prefill_tokens_per_s = rate;
    if (free_.empty()) {
      size_.store(count + 1, std::memory_order_release);
    } else {
      free_.pop_back();
    }
    if (options.is_pool) pools_.insert(number);
    active_.insert(number);
    *id = number;
    return Status::kOk;
  });
}

Status WorkerTable::retire(std::string_view name, WorkerId* id) {
  return at_edge([&] {
    const std::lock_guard lock(mutex_);
    const auto found = numbers_.find(std::string(name));
    if (found == numbers_.end()) return Status::kNotFound;
    *id = found->second;
    numbers_.erase(found);
    active_.erase(*id);
    Worker& worker = (*workers_)[*id];
    ++worker.incarnation;
    worker.name.clear();
    worker.requests = 0;
    worker.prefill_tokens = 0;
    worker.blocks = 0;
    return Status::kOk;
  });
}

void WorkerTable::release(WorkerId id) {
  const std::lock_guard lock(mutex_);
  pools_.erase(id);
  free_.push_back(id);
}

Status WorkerTable::find(std::string_view name, WorkerId* id) const {
  return at_edge([&] {
    const std::lock_guard lock(mutex_);
    const auto found = numbers_.find(std::string(name));
    if (found == numbers_.end()) return Status::kNotFound;
    *id = found->second;
    return Status::kOk;
  });
}

std::string WorkerTable::name(WorkerId id) const {
  if (id >= kMaxWorkers) return {};
  const std::lock_guard lock(mutex_);
  return (*workers_)[id].name;
}

std::vector<WorkerId> WorkerTable::active() const {
  std::vector<WorkerId> ids;
  for (std::size_t i = 0; i < size(); ++i) {
    const auto id = static_cast<WorkerId>(i);
    if (is_active(id)) ids.push_back(id);
  }
  return ids;
}

double WorkerTable::prefill_tokens_per_s(WorkerId id) const {
  return (*workers_)[id].prefill_tokens_per_s.load(std::memory_order_relaxed);
}

Load WorkerTable::load(WorkerId id) const {
  const Worker& worker = (*workers_)[id];
  return {worker.requests.load(std::memory_order_relaxed),
          worker.prefill_tokens.load(std::memory_order_relaxed),
          worker.blocks.load(std::memory_order_relaxed)};
}

Status WorkerTable::start(WorkerId id, std::uint64_t prefill_tokens, std::uint64_t blocks,
                          Ticket* ticket) {
  const std::lock_guard lock(mutex_);
  if (id >= kMaxWorkers || !is_active(id)) return Status::kNotFound;
  Worker& worker = (*workers_)[id];
  worker.requests += 1;
  worker.prefill_tokens += prefill_tokens;
  worker.blocks += blocks;
  *ticket = {id, worker.incarnation, prefill_tokens, blocks, true};
  return Status::kOk;
}

WorkerTable::Worker* WorkerTable::counted_by(const Ticket& ticket) {
  if (!ticket.is_open || ticket.worker >= kMaxWorkers) return nullptr;
  Worker& worker = (*workers_)[ticket.worker];
  return worker.incarnation == ticket.incarnation ? &worker : nullptr;
}

void WorkerTable::first_token(Ticket* ticket) {
  const std::lock_guard lock(mutex_);
  if (Worker* const worker = counted_by(*ticket)) worker->prefill_tokens -= ticket->prefill_tokens;
  ticket->prefill_tokens = 0;
}

void WorkerTable::finish(Ticket* ticket) {
  const std::lock_guard lock(mutex_);
  if (Worker* const worker = counted_by(*ticket)) {
    worker->requests -= 1;
    worker->prefill_tokens -= ticket->prefill_tokens;
    worker->blocks -= ticket->blocks;
  }
  ticket->is_open = false;
}

}  // namespace nearkv::router
