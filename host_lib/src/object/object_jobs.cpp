#include "object/object_jobs.hpp"

#include <algorithm>
#include <memory>

namespace nearkv {
namespace {

/// How items from `first` on are stored.
SetOptions set_options(const Job& job, std::size_t first) {
  SetOptions options;
  options.namespace_number = job.namespace_number;
  options.chain = job.chain;
  options.parent = first == 0 ? job.parent : job.items[first - 1].key;
  options.overwrite = job.overwrite;
  options.evict = job.evict;
  options.parts = job.parts;
  options.object_bytes = job.object_bytes;
  options.age = job.age;
  return options;
}

}  // namespace

bool JobResult::all_ok() const {
  return std::ranges::all_of(items, [](Status status) { return status == Status::kOk; });
}

Status check_job(const Job& job) {
  if (job.kind > JobKind::kSetParts) return Status::kBadArgument;
  const bool sets = job.kind == JobKind::kSet || job.kind == JobKind::kSetParts;
  const bool set_only = job.chain || !job.parent.empty() || job.overwrite || !job.evict ||
                        job.parts != 0 || job.age.count() != 0 || job.object_bytes != 0;
  return set_only && !sets ? Status::kBadArgument : Status::kOk;
}

void run_items(Objects* objects, const Job& job, std::size_t first, std::size_t count,
               JobResult* result) {
  const std::span<const ObjectItem> items = job.items.subspan(first, count);
  const std::span<Status> statuses = std::span(result->items).subspan(first, count);
  switch (job.kind) {
    case JobKind::kGet:
      objects->get(job.namespace_number, job.quiet, items, statuses,
                   std::span(result->object_bytes).subspan(first, count));
      break;
    case JobKind::kSet:
      objects->set(set_options(job, first), items, statuses);
      break;
    case JobKind::kSetParts:
      objects->set_parts(set_options(job, first), items, statuses);
      break;
    case JobKind::kErase:
      objects->erase(job.namespace_number, items, statuses);
      break;
    case JobKind::kExists: {
      const auto present = std::make_unique<bool[]>(count);
      objects->exists(job.namespace_number, items, {present.get(), count});
      for (std::size_t i = 0; i < count; ++i) {
        statuses[i] = present[i] ? Status::kOk : Status::kNotFound;
      }
      break;
    }
  }
}

void prepare_result(const Job& job, JobResult* result) {
  result->id = 0;
  result->items.assign(job.items.size(), Status::kOk);
  result->object_bytes.assign(job.items.size(), 0);
}

}  // namespace nearkv
