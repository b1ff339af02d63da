// Jobs of nearkv_store.h.
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "c_api/store.hpp"
#include "edge.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kWordBits = 64;

/// A job and what its items point to.
class ConvertedJob {
 public:
  explicit ConvertedJob(const nearkv_job& job) {
    job_.kind = static_cast<JobKind>(job.kind);
    job_.namespace_number = job.namespace_number;
    job_.chain = job.chain != 0;
    job_.parent = key_of(job.parent, job.parent_bytes);
    job_.overwrite = job.overwrite != 0;
    job_.evict = job.keep == 0;
    job_.parts = job.parts;
    job_.age = std::chrono::seconds(job.age_s);
    job_.quiet = job.quiet != 0;
    job_.object_bytes = job.object_bytes;
    const bool reads = job_.kind == JobKind::kSet || job_.kind == JobKind::kSetParts;
    const std::span items(job.items, job.item_count);
    sources_.resize(items.size());
    targets_.resize(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const nearkv_item& item = items[i];
      for (const iovec& segment : std::span(item.segments, item.segment_count)) {
        const std::span bytes(static_cast<std::byte*>(segment.iov_base), segment.iov_len);
        if (reads) {
          sources_[i].push_back(bytes);
        } else {
          targets_[i].push_back(bytes);
        }
      }
      items_.push_back({key_of(item.key, item.key_bytes), sources_[i], targets_[i], item.first_part,
                        item.part_count, false, item.generation});
    }
    job_.items = items_;
  }
  ConvertedJob(const ConvertedJob&) = delete;
  ConvertedJob& operator=(const ConvertedJob&) = delete;

  [[nodiscard]] const Job& job() const { return job_; }

 private:
  Job job_;
  std::vector<std::vector<std::span<const std::byte>>> sources_;
  std::vector<std::vector<std::span<std::byte>>> targets_;
  std::vector<ObjectItem> items_;
};

/// What a nearkv_job_results points into.
struct OwnedResults {
  std::vector<JobResult> results;
  std::vector<std::vector<std::uint64_t>> ok_bits;
  std::vector<nearkv_job_result> shown;
};

void show(std::vector<JobResult> results, nearkv_job_results* out) {
  auto owned = std::make_unique<OwnedResults>();
  owned->results = std::move(results);
  owned->ok_bits.reserve(owned->results.size());
  for (const JobResult& result : owned->results) {
    const std::size_t count = result.items.size();
    std::vector<std::uint64_t>& bits =
        owned->ok_bits.emplace_back((count + kWordBits - 1) / kWordBits);
    std::size_t ok_count = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (result.items[i] != Status::kOk) continue;
      bits[i / kWordBits] |= std::uint64_t{1} << (i % kWordBits);
      ++ok_count;
    }
    owned->shown.push_back({result.id, count, ok_count,
                            reinterpret_cast<const std::uint8_t*>(result.items.data()), bits.data(),
                            result.object_bytes.data()});
  }
  out->count = owned->shown.size();
  out->results = owned->shown.data();
  out->owner = owned.release();
}

/// Runs `body(&result)` and hands the result out.
template <typename Body>
int with_result(nearkv_job_results* results, Body&& body) {
  *results = {};
  return to_errno(at_edge([&] {
    std::vector<JobResult> result(1);
    const Status status = body(result.data());
    if (status == Status::kOk) show(std::move(result), results);
    return status;
  }));
}

}  // namespace
}  // namespace nearkv

using nearkv::at_edge;
using nearkv::Status;
using nearkv::to_errno;

void nearkv_job_init(nearkv_job* job) {
  *job = {};
  job->kind = NEARKV_JOB_GET;
}

int nearkv_store_run(nearkv_store* store, const nearkv_job* job, nearkv_job_results* results) {
  return nearkv::with_result(results, [&](nearkv::JobResult* result) {
    return store->store->run(nearkv::ConvertedJob(*job).job(), result);
  });
}

int nearkv_store_submit(nearkv_store* store, const nearkv_job* job, std::uint64_t* id) {
  return to_errno(
      at_edge([&] { return store->store->submit(nearkv::ConvertedJob(*job).job(), id); }));
}

int nearkv_store_wait(nearkv_store* store, std::uint64_t id, std::uint32_t timeout_ms,
                      nearkv_job_results* results) {
  return nearkv::with_result(results, [&](nearkv::JobResult* result) {
    return store->store->wait(id, std::chrono::milliseconds(timeout_ms), result);
  });
}

int nearkv_store_cancel(nearkv_store* store, std::uint64_t id) {
  return to_errno(store->store->cancel(id));
}

int nearkv_store_event_fd(const nearkv_store* store) { return store->store->event_fd(); }

int nearkv_store_drain(nearkv_store* store, nearkv_job_results* results) {
  *results = {};
  return to_errno(at_edge([&] {
    std::vector<nearkv::JobResult> drained = store->store->drain();
    if (!drained.empty()) nearkv::show(std::move(drained), results);
    return Status::kOk;
  }));
}

void nearkv_job_results_free(nearkv_job_results* results) {
  delete static_cast<nearkv::OwnedResults*>(results->owner);
  *results = {};
}
