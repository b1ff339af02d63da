// What the kinds of jobs ask of objects.
#pragma once

#include "nearkv/object_store.hpp"
#include "object/objects.hpp"

namespace nearkv {

/// Runs a part of a job, items [first, first + count), on the calling thread.
void run_items(Objects* objects, const Job& job, std::size_t first, std::size_t count,
               JobResult* result);

/// kBadArgument if a job makes no sense, whatever namespaces there are.
[[nodiscard]] Status check_job(const Job& job);

/// Whether a status says that a store, in another process or on another machine, was not reached,
/// so that nobody knows what has come of a job.
[[nodiscard]] constexpr bool is_away(Status status) {
  return status == Status::kNoDaemon || status == Status::kAborted || status == Status::kTimeout;
}

/// Makes room for a job's results.
void prepare_result(const Job& job, JobResult* result);

}  // namespace nearkv
