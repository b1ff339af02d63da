#include "open_store.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <thread>

#include "error.hpp"

namespace nb = nanobind;

namespace nearkv::python {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// How long a wait goes without looking for Ctrl-C.
constexpr nanoseconds kSlice = std::chrono::milliseconds(100);

}  // namespace

OpenStore::~OpenStore() {
  store_.reset();  // From here on nothing is copied to or from the memory of jobs.
  const nb::gil_scoped_acquire acquire;
  in_flight_.clear();
  told_.clear();
}

bool OpenStore::has_job(JobId id) {
  return freely([&] {
    const std::scoped_lock lock(mutex_);
    return in_flight_.contains(id);
  });
}

bool OpenStore::has_jobs() {
  return freely([&] {
    const std::scoped_lock lock(mutex_);
    return !in_flight_.empty();
  });
}

nb::tuple OpenStore::run(const Transfer& transfer) {
  JobResult result;
  check(freely([&] { return store_->run(transfer.job(), &result); }));
  const nb::tuple outcome = transfer.outcome(result);
  return nb::make_tuple(outcome[0], outcome[1], transfer.room());
}

nb::tuple OpenStore::submit(Transfer transfer) {
  const nb::object room = transfer.room();
  JobId id = 0;
  check(freely([&] {
    // Under the mutex, so that end() finds the job even if it is over at once.
    const std::scoped_lock lock(mutex_);
    const Status status = store_->submit(transfer.job(), &id);
    if (status == Status::kOk) in_flight_.emplace(id, std::move(transfer));
    return status;
  }));
  return nb::make_tuple(id, room);
}

std::optional<nb::tuple> OpenStore::wait(JobId id, std::optional<nanoseconds> timeout) {
  const auto begun = steady_clock::now();
  JobResult result;
  while (true) {
    if (const auto told = told_.find(id); told != told_.end()) return told->second.outcome;
    nanoseconds slice = kSlice;
    if (timeout)
      slice = std::clamp(*timeout - (steady_clock::now() - begun), nanoseconds(0), slice);
    const Status status = freely([&] { return store_->wait(id, slice, &result); });
    if (status == Status::kOk) return end(result, false);
    // Another thread that has its result is about to tell it.
    const bool is_ending = status == Status::kNotFound && has_job(id);
    if (is_ending) freely([] { std::this_thread::yield(); });
    if (status != Status::kTimeout && !is_ending && !told_.contains(id)) check(status);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (timeout && steady_clock::now() - begun >= *timeout) return std::nullopt;
  }
}

std::vector<std::tuple<JobId, nb::tuple>> OpenStore::drain() {
  std::vector<std::tuple<JobId, nb::tuple>> outcomes;
  for (const JobResult& result : freely([&] { return store_->drain(); })) (void)end(result, true);
  for (const auto& [id, told] : told_) {
    if (told.is_drained) outcomes.emplace_back(id, told.outcome);
  }
  return outcomes;
}

nb::tuple OpenStore::end(const JobResult& result, bool is_drained) {
  // Its node stays where it is until told_ has the outcome.
  const Transfer* const transfer = freely([&] {
    const std::scoped_lock lock(mutex_);
    return &in_flight_.at(result.id);
  });
  const nb::tuple outcome = transfer->outcome(result);
  told_.insert_or_assign(result.id, Told{outcome, is_drained});
  const auto node = freely([&] {
    const std::scoped_lock lock(mutex_);
    return in_flight_.extract(result.id);
  });
  return outcome;
}

}  // namespace nearkv::python
