// nearkv_store.h over the C++ library.
#include "nearkv/object_store.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "c_api/report.hpp"
#include "edge.hpp"
#include "nearkv_store.h"

struct nearkv_store {
  std::unique_ptr<nearkv::ObjectStore> store;
};

namespace nearkv {
namespace {

constexpr std::size_t kWordBits = 64;

Key key_of(const void* first, std::size_t bytes) {
  return {static_cast<const std::byte*>(first), first == nullptr ? 0 : bytes};
}

std::vector<Key> keys_of(const iovec* keys, std::size_t count) {
  std::vector<Key> result;
  result.reserve(count);
  for (const iovec& key : std::span(keys, count)) {
    result.push_back(key_of(key.iov_base, key.iov_len));
  }
  return result;
}

std::string text_of(const char* text) { return text == nullptr ? std::string() : text; }

/// A job and what its items point to.
class ConvertedJob {
 public:
  explicit ConvertedJob(const nearkv_job& job) {
    job_.kind = static_cast<JobKind>(job.kind);
    job_.namespace_number = job.namespace_number;
    job_.chain = job.chain != 0;
    job_.parent = key_of(job.parent, job.parent_bytes);
    job_.overwrite = job.overwrite != 0;
    job_.parts = job.parts;
    job_.age = std::chrono::seconds(job.age_s);
    const std::span items(job.items, job.item_count);
    sources_.resize(items.size());
    targets_.resize(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const nearkv_item& item = items[i];
      for (const iovec& segment : std::span(item.segments, item.segment_count)) {
        const std::span bytes(static_cast<std::byte*>(segment.iov_base), segment.iov_len);
        if (job_.kind == JobKind::kSet) {
          sources_[i].push_back(bytes);
        } else {
          targets_[i].push_back(bytes);
        }
      }
      items_.push_back({key_of(item.key, item.key_bytes), sources_[i], targets_[i], item.first_part,
                        item.part_count});
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

using MakeStore = Status (*)(const std::string&, const ObjectStore::Options&,
                             std::unique_ptr<ObjectStore>*, std::string*);

int make_store(MakeStore make, const char* uri, const nearkv_store_options* options,
               nearkv_store** store, char* reason, std::size_t reason_bytes) {
  return report(reason, reason_bytes, [&](std::string* why) {
    ObjectStore::Options converted;
    converted.max_objects = options->max_objects;
    converted.max_namespaces = options->max_namespaces;
    converted.workers = options->workers;
    converted.eviction = text_of(options->eviction);
    converted.patience = std::chrono::milliseconds(options->patience_ms);
    auto made = std::make_unique<nearkv_store>();
    const Status status = make(uri, converted, &made->store, why);
    if (status == Status::kOk) *store = made.release();
    return status;
  });
}

nearkv_object_info info_of(const ObjectInfo& object) {
  nearkv_object_info info{};
  info.number = object.number;
  info.namespace_number = object.namespace_number;
  info.tenant = object.tenant;
  info.parts = object.parts;
  info.extents = object.extents;
  info.key_bytes = static_cast<std::uint8_t>(object.key.size());
  info.key_is_digest = object.key_is_digest ? 1 : 0;
  info.leased = object.leased ? 1 : 0;
  std::ranges::copy(object.key, reinterpret_cast<std::byte*>(info.key));
  info.bytes = object.bytes;
  info.created_s = object.created_s;
  info.expires_s = object.expires_s;
  info.generation = object.generation;
  return info;
}

}  // namespace
}  // namespace nearkv

using nearkv::at_edge;
using nearkv::Status;
using nearkv::to_errno;

void nearkv_store_options_init(nearkv_store_options* options) {
  const nearkv::ObjectStore::Options defaults;
  *options = {};
  options->max_objects = defaults.max_objects;
  options->max_namespaces = defaults.max_namespaces;
  options->workers = defaults.workers;
  options->patience_ms = static_cast<std::uint32_t>(defaults.patience.count());
  options->eviction = "chain_lhd";
}

int nearkv_store_create(const char* uri, const nearkv_store_options* options, nearkv_store** store,
                        char* reason, std::size_t reason_bytes) {
  return nearkv::make_store(nearkv::ObjectStore::create, uri, options, store, reason, reason_bytes);
}

int nearkv_store_open(const char* uri, const nearkv_store_options* options, nearkv_store** store,
                      char* reason, std::size_t reason_bytes) {
  return nearkv::make_store(nearkv::ObjectStore::open, uri, options, store, reason, reason_bytes);
}

void nearkv_store_close(nearkv_store* store) { delete store; }

void nearkv_namespace_init(nearkv_namespace* name) {
  *name = {};
  name->model = name->dtype = name->layout = "";
}

int nearkv_store_open_namespace(nearkv_store* store, const nearkv_namespace* name,
                                std::uint32_t* number) {
  return to_errno(at_edge([&] {
    nearkv::Namespace converted;
    converted.tenant = name->tenant;
    converted.model = nearkv::text_of(name->model);
    converted.dtype = nearkv::text_of(name->dtype);
    converted.layout = nearkv::text_of(name->layout);
    converted.rank = name->rank;
    converted.group = name->group;
    if (name->salt_bytes != 0) {
      converted.salt.assign(static_cast<const char*>(name->salt), name->salt_bytes);
    }
    return store->store->open_namespace(converted, number);
  }));
}

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

int nearkv_store_exists(nearkv_store* store, std::uint32_t namespace_number, const iovec* keys,
                        std::size_t key_count, std::size_t* leading, std::uint8_t* present) {
  return to_errno(at_edge([&] {
    const auto flags = std::make_unique<bool[]>(present == nullptr ? 0 : key_count);
    *leading = store->store->exists(namespace_number, nearkv::keys_of(keys, key_count),
                                    {flags.get(), present == nullptr ? 0 : key_count});
    if (present != nullptr) std::copy_n(flags.get(), key_count, present);
    return Status::kOk;
  }));
}

int nearkv_store_match_prefix(nearkv_store* store, std::uint32_t namespace_number,
                              const iovec* keys, std::size_t key_count, std::size_t* blocks) {
  return to_errno(at_edge([&] {
    *blocks = store->store->match_prefix(namespace_number, nearkv::keys_of(keys, key_count));
    return Status::kOk;
  }));
}

int nearkv_store_touch(nearkv_store* store, std::uint32_t namespace_number, const iovec* keys,
                       std::size_t key_count) {
  return to_errno(at_edge([&] {
    store->store->touch(namespace_number, nearkv::keys_of(keys, key_count));
    return Status::kOk;
  }));
}

int nearkv_store_pin(nearkv_store* store, std::uint32_t namespace_number, const iovec* keys,
                     std::size_t key_count, std::uint32_t duration_ms, std::uint64_t* lease,
                     std::uint8_t* statuses) {
  return to_errno(at_edge([&] {
    std::vector<Status> found(key_count, Status::kOk);
    *lease = store->store->pin(namespace_number, nearkv::keys_of(keys, key_count),
                               std::chrono::milliseconds(duration_ms), found);
    std::ranges::transform(found, statuses,
                           [](Status status) { return static_cast<std::uint8_t>(status); });
    return Status::kOk;
  }));
}

int nearkv_store_unpin(nearkv_store* store, std::uint64_t lease) {
  return to_errno(at_edge([&] { return store->store->unpin(lease); }));
}

int nearkv_store_set_quota(nearkv_store* store, std::uint16_t tenant, std::uint64_t bytes) {
  return to_errno(store->store->set_quota(tenant, bytes));
}

int nearkv_store_stats(const nearkv_store* store, nearkv_object_stats* stats) {
  return to_errno(at_edge([&] {
    const nearkv::ObjectStoreStats now = store->store->stats();
    *stats = {now.total_bytes, now.used_bytes, now.object_bytes, now.objects,     now.namespaces,
              now.leases,      now.sets,       now.set_bytes,    now.hits,        now.get_bytes,
              now.misses,      now.evictions,  now.expirations,  now.corruptions, now.recovered,
              now.torn,        now.moved,      now.quarantined};
    return Status::kOk;
  }));
}

int nearkv_store_namespaces(const nearkv_store* store, nearkv_namespace_info* infos,
                            std::size_t room, std::size_t* count) {
  return to_errno(at_edge([&] {
    const std::vector<nearkv::NamespaceInfo> all = store->store->namespaces();
    *count = all.size();
    for (std::size_t i = 0; i < std::min(room, all.size()); ++i) {
      infos[i].number = all[i].number;
      infos[i].tenant = all[i].tenant;
      nearkv::copy_text(all[i].text, infos[i].text, sizeof(infos[i].text));
    }
    return Status::kOk;
  }));
}

int nearkv_store_list(const nearkv_store* store, std::uint32_t first, nearkv_object_info* infos,
                      std::size_t room, std::size_t* count) {
  return to_errno(at_edge([&] {
    const std::vector<nearkv::ObjectInfo> found = store->store->list(first, room);
    *count = found.size();
    std::ranges::transform(found, infos, nearkv::info_of);
    return Status::kOk;
  }));
}

int nearkv_store_verify(nearkv_store* store, std::uint32_t first, std::uint32_t most,
                        nearkv_verify_progress* progress) {
  return to_errno(at_edge([&] {
    nearkv::VerifyProgress step{progress->next, progress->objects, progress->bytes,
                                progress->damaged};
    const Status status = store->store->verify(first, most, &step);
    *progress = {step.next, step.objects, step.bytes, step.damaged};
    return status;
  }));
}

int nearkv_store_defragment(nearkv_store* store, std::uint64_t most_bytes,
                            std::uint64_t* moved_bytes) {
  return to_errno(store->store->defragment(most_bytes, moved_bytes));
}
