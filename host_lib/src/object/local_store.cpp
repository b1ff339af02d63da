#include "object/local_store.hpp"

#include <system_error>

#include "device/memory_uri.hpp"
#include "edge.hpp"
#include "object/block_payload.hpp"
#include "object/memory_payload.hpp"
#include "object/object_jobs.hpp"
#include "object/process_bound_store.hpp"
#include "pool/blank_pool.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kBytesPerObject = 64 << 10;

/// Where a store's URI says that it lives.
struct Place {
  PoolMemory::Source memory;
  bool is_file = false;  ///< Payload goes past the page cache; all else is mapped.
  BlockFileOptions file;
};

/// Maps what a URI names.
Status map_place(const std::string& text, DeviceUri uri, Place* place, std::string* reason) {
  place->is_file = uri.scheme == "file";
  if ((uri.scheme != "cpu" && !place->is_file) || (place->is_file && uri.path.empty())) {
    *reason =
        "a store lives in memory of this machine (cpu:[PATH]?memory=SIZE) or in a file past the "
        "page cache (file:PATH?memory=SIZE), not in '" +
        text + "'";
    return Status::kBadUri;
  }
  Memory::Options options;
  Status status = take_memory_options(&uri, &options, reason);
  if (status == Status::kOk) status = refuse_unknown_options(uri, "memory, node, huge", reason);
  auto memory = std::make_shared<Memory>();
  if (place->is_file) options.huge = false;
  if (status == Status::kOk) status = Memory::map(options, memory.get(), reason);
  if (status != Status::kOk) return status;
  place->file.path = options.path;
  place->file.create = false;
  place->memory.bytes = memory->bytes();
  place->memory.persistence = Persistence::make(memory->durability());
  place->memory.owner = std::move(memory);
  return Status::kOk;
}

/// Makes a pool of memory, with the room that the options ask for.
Status format(const ObjectStore::Options& options, PoolMemory::Source source,
              std::shared_ptr<PoolMemory>* pool, std::string* why) {
  Pool::Options pool_options;
  pool_options.shape.layers = 0;
  pool_options.max_namespaces = options.max_namespaces;
  pool_options.max_objects =
      options.max_objects != 0 ? options.max_objects
                               : static_cast<std::uint32_t>(source.bytes.size() / kBytesPerObject);
  PoolPlan plan;
  const Status status = PoolPlan::make(source.bytes.size(), pool_options, &plan, why);
  return status == Status::kOk ? PoolMemory::create(std::move(source), plan, pool) : status;
}

enum class Start { kCreate, kOpen, kOpenOrCreate };

Status start(Start how, const std::string& text, const ObjectStore::Options& options,
             std::unique_ptr<ObjectStore>* store, std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    std::string& why = reason != nullptr ? *reason : ignored;
    DeviceUri uri;
    Status status = parse_device_uri(text, &uri, &why);
    if (status != Status::kOk) return status;
    // A pool that is there has a size of its own.
    if (how == Start::kOpenOrCreate && !uri.path.empty() && !is_blank_pool(uri.path)) {
      uri.options.erase("memory");
    }
    Place place;
    status = map_place(text, std::move(uri), &place, &why);
    if (status != Status::kOk) return status;
    const bool is_new =
        how == Start::kCreate || (how == Start::kOpenOrCreate && is_blank_pool(place.memory.bytes));
    std::shared_ptr<PoolMemory> pool;
    status = is_new ? format(options, std::move(place.memory), &pool, &why)
                    : PoolMemory::open(std::move(place.memory), &pool, &why);
    if (status != Status::kOk) return status;
    std::unique_ptr<ObjectStore> opened;
    if (place.is_file) {
      std::unique_ptr<BlockPayload> payload;
      status = BlockPayload::open(place.file, &payload, &why);
      if (status != Status::kOk) return status;
      status = LocalStore::open(std::move(pool), std::move(payload), options, &opened, &why);
    } else {
      status = LocalStore::open(std::move(pool), options, &opened, &why);
    }
    if (status == Status::kOk) *store = ProcessBoundStore::make(std::move(opened));
    return status;
  });
}

}  // namespace

Status ObjectStore::adopt_namespace(const NamespaceInfo&, std::uint32_t*) {
  return Status::kUnsupported;
}
Status ObjectStore::close_namespace(std::uint32_t) { return Status::kUnsupported; }
Status ObjectStore::limit_namespaces(std::uint16_t, std::uint32_t) { return Status::kUnsupported; }
std::vector<ObjectInfo> ObjectStore::coldest(std::uint64_t) { return {}; }
Status ObjectStore::set_wipe(std::uint16_t, bool) { return Status::kUnsupported; }
Status ObjectStore::watch(std::size_t) { return Status::kUnsupported; }
std::vector<StoreEvent> ObjectStore::take_events(std::uint64_t* missed) {
  *missed = 0;
  return {};
}

Status ObjectStore::create(const std::string& uri, const Options& options,
                           std::unique_ptr<ObjectStore>* store, std::string* reason) {
  return start(Start::kCreate, uri, options, store, reason);
}

Status ObjectStore::open(const std::string& uri, const Options& options,
                         std::unique_ptr<ObjectStore>* store, std::string* reason) {
  return start(Start::kOpen, uri, options, store, reason);
}

Status ObjectStore::open_or_create(const std::string& uri, const Options& options,
                                   std::unique_ptr<ObjectStore>* store, std::string* reason) {
  return start(Start::kOpenOrCreate, uri, options, store, reason);
}

Status LocalStore::open(std::shared_ptr<PoolMemory> pool, const Options& options,
                        std::unique_ptr<ObjectStore>* store, std::string* reason) {
  auto payload = std::make_unique<MemoryPayload>(pool->bytes(), &pool->persistence());
  return open(std::move(pool), std::move(payload), options, store, reason);
}

Status LocalStore::open(std::shared_ptr<PoolMemory> pool, std::unique_ptr<Payload> payload,
                        const Options& options, std::unique_ptr<ObjectStore>* store,
                        std::string* reason) {
  if (pool->header().max_objects == 0) {
    *reason = "the pool was made without room for objects";
    return Status::kBadPool;
  }
  TenantOptions tenants;
  tenants.policy = options.eviction;
  tenants.capacity_bytes = std::uint64_t{pool->header().slabs} * pool->header().slab_bytes;
  Status status = Tenants::check(tenants, reason);
  if (status != Status::kOk) return status;
  std::unique_ptr<Seals> seals;
  if (!options.seal_key_file.empty()) {
    SecretKey master;
    status = SecretKey::load(options.seal_key_file, &master, reason);
    if (status != Status::kOk) return status;
    seals = std::make_unique<Seals>(std::move(master));
  }
  auto objects = std::make_unique<Objects>(std::move(pool), std::move(payload), std::move(seals),
                                           std::move(tenants), options.patience, options.clock);
  status = objects->recover();
  if (status != Status::kOk) return status;
  try {
    store->reset(new LocalStore(std::move(objects), options));
  } catch (const std::system_error& error) {
    *reason = std::string("the machine gives the store no threads or events: ") + error.what();
    return Status::kIoError;
  }
  return Status::kOk;
}

LocalStore::LocalStore(std::unique_ptr<Objects> objects, const Options& options)
    : objects_(std::move(objects)),
      jobs_([this](const Job& job, std::size_t first, std::size_t count,
                   JobResult* result) { run_items(objects_.get(), job, first, count, result); },
            options.workers) {
  if (options.defragment_above > 0) compactor_.emplace(objects_.get(), options.defragment_above);
}

Status LocalStore::check(const Job& job) const {
  return objects_->has_namespace(job.namespace_number) ? check_job(job) : Status::kBadArgument;
}

Status LocalStore::open_namespace(const Namespace& name, std::uint32_t* number) {
  return at_edge([&] { return objects_->open_namespace(name, number); });
}

Status LocalStore::adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) {
  return at_edge([&] { return objects_->adopt_namespace(info, number); });
}

Status LocalStore::close_namespace(std::uint32_t number) {
  return objects_->close_namespace(number);
}

Status LocalStore::limit_namespaces(std::uint16_t tenant, std::uint32_t most) {
  return at_edge([&] {
    objects_->limit_namespaces(tenant, most);
    return Status::kOk;
  });
}

Status LocalStore::submit(const Job& job, JobId* id) {
  return at_edge([&] {
    const Status status = check(job);
    return status == Status::kOk ? jobs_.submit(job, id) : status;
  });
}

std::vector<JobResult> LocalStore::drain() { return jobs_.drain(); }

Status LocalStore::wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result) {
  return at_edge([&] { return jobs_.wait(id, timeout, result); });
}

Status LocalStore::cancel(JobId id) {
  return at_edge([&] { return jobs_.cancel(id); });
}

Status LocalStore::run(const Job& job, JobResult* result) {
  return at_edge([&] {
    const Status status = check(job);
    if (status != Status::kOk) return status;
    prepare_result(job, result);
    run_items(objects_.get(), job, 0, job.items.size(), result);
    return Status::kOk;
  });
}

std::size_t LocalStore::exists(std::uint32_t namespace_number, std::span<const Key> keys,
                               std::span<bool> present) {
  return objects_->exists(namespace_number, keys, present);
}

std::size_t LocalStore::match_prefix(std::uint32_t namespace_number, std::span<const Key> chain) {
  return objects_->match_prefix(namespace_number, chain);
}

void LocalStore::touch(std::uint32_t namespace_number, std::span<const Key> keys) {
  objects_->touch(namespace_number, keys);
}

LeaseId LocalStore::pin(std::uint32_t namespace_number, std::span<const Key> keys,
                        std::chrono::nanoseconds duration, std::span<Status> statuses) {
  return objects_->pin(namespace_number, keys, duration, statuses);
}

Status LocalStore::unpin(LeaseId lease) { return objects_->unpin(lease); }

Status LocalStore::set_quota(std::uint16_t tenant, std::uint64_t bytes) {
  return at_edge([&] { return objects_->set_quota(tenant, bytes); });
}

Status LocalStore::set_wipe(std::uint16_t tenant, bool wipe) {
  return at_edge([&] {
    objects_->set_wipe(tenant, wipe);
    return Status::kOk;
  });
}

Status LocalStore::watch(std::size_t most) {
  objects_->watch(most);
  return Status::kOk;
}

std::vector<StoreEvent> LocalStore::take_events(std::uint64_t* missed) {
  return objects_->take_events(missed);
}

ObjectStoreStats LocalStore::stats() const { return objects_->stats(); }

std::vector<NamespaceInfo> LocalStore::namespaces() const { return objects_->namespaces(); }

Status LocalStore::describe(std::uint32_t namespace_number, Key key, ObjectInfo* info) {
  return at_edge([&] { return objects_->describe(namespace_number, key, info); });
}

std::vector<ObjectInfo> LocalStore::coldest(std::uint64_t bytes) {
  return objects_->coldest(bytes);
}

std::vector<ObjectInfo> LocalStore::list(std::uint32_t first, std::size_t most) const {
  return objects_->list(first, most);
}

Status LocalStore::verify(std::uint32_t first, std::size_t most, VerifyProgress* progress) {
  return at_edge([&] { return objects_->verify(first, most, progress); });
}

Status LocalStore::defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes) {
  return at_edge([&] {
    objects_->defragment(most_bytes, moved_bytes);
    return Status::kOk;
  });
}

std::vector<TenantUsage> LocalStore::tenants() const { return objects_->tenants(); }

Status LocalStore::allocate(std::size_t bytes, std::span<std::byte>* memory) {
  return at_edge([&] {
    if (bytes == 0) return Status::kBadArgument;
    Memory::Options options;
    options.bytes = bytes;
    Memory lent;
    std::string reason;
    const Status status = Memory::map(options, &lent, &reason);
    if (status != Status::kOk) return status;
    *memory = lent.bytes().first(bytes);
    const std::scoped_lock lock(memory_mutex_);
    lent_.emplace(memory->data(), std::move(lent));
    return Status::kOk;
  });
}

Status LocalStore::release(std::span<std::byte> memory) {
  const std::scoped_lock lock(memory_mutex_);
  return lent_.erase(memory.data()) != 0 ? Status::kOk : Status::kBadArgument;
}

Status LocalStore::register_memory(std::span<std::byte> mapping, int /*memfd*/,
                                   std::uint64_t /*offset*/) {
  return at_edge([&] {
    if (mapping.empty()) return Status::kBadArgument;
    const std::scoped_lock lock(memory_mutex_);
    registered_.emplace(mapping.data(), mapping.size());
    return Status::kOk;
  });
}

Status LocalStore::unregister_memory(std::span<std::byte> mapping) {
  const std::scoped_lock lock(memory_mutex_);
  return registered_.erase(mapping.data()) != 0 ? Status::kOk : Status::kNotFound;
}

}  // namespace nearkv
