// Stores, namespaces and questions of nearkv_store.h; jobs are in store_jobs.cpp.
#include "nearkv/object_store.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "c_api/report.hpp"
#include "c_api/store.hpp"
#include "edge.hpp"
#include "nearkv_store.h"

namespace nearkv {
namespace {

std::vector<Key> keys_of(const iovec* keys, std::size_t count) {
  std::vector<Key> result;
  result.reserve(count);
  for (const iovec& key : std::span(keys, count)) {
    result.push_back(key_of(key.iov_base, key.iov_len));
  }
  return result;
}

std::string text_of(const char* text) { return text == nullptr ? std::string() : text; }

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
    converted.defragment_above = options->defragment_above;
    converted.seal_key_file = text_of(options->seal_key_file);
    auto made = std::make_unique<nearkv_store>();
    const Status status = make(uri, converted, &made->store, why);
    if (status == Status::kOk) *store = made.release();
    return status;
  });
}

nearkv_object_stats stats_of(const ObjectStoreStats& now) {
  return {now.total_bytes, now.slab_bytes,  now.used_bytes,    now.object_bytes, now.objects,
          now.namespaces,  now.leases,      now.sets,          now.set_bytes,    now.hits,
          now.get_bytes,   now.misses,      now.evictions,     now.expirations,  now.corruptions,
          now.recovered,   now.torn,        now.moved,         now.promotions,   now.demotions,
          now.quarantined, now.max_objects, now.max_namespaces};
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

nearkv_event event_of(const StoreEvent& event) {
  nearkv_event shown{};
  shown.kind = static_cast<std::uint8_t>(event.kind);
  shown.key_bytes = static_cast<std::uint8_t>(event.key.size());
  shown.key_is_digest = event.key_is_digest ? 1 : 0;
  shown.tier = event.tier;
  shown.namespace_number = event.namespace_number;
  shown.bytes = event.bytes;
  std::ranges::copy(event.key, reinterpret_cast<std::byte*>(shown.key));
  return shown;
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
  options->defragment_above = defaults.defragment_above;
}

void nearkv_client_options_init(nearkv_client_options* options) {
  const nearkv::ObjectStore::ClientOptions defaults;
  *options = {defaults.window_bytes, static_cast<std::uint32_t>(defaults.patience.count())};
}

void nearkv_stack_options_init(nearkv_stack_options* options) {
  const nearkv::StackOptions defaults;
  *options = {defaults.high_watermark,
              defaults.low_watermark,
              defaults.promote_after,
              defaults.write_through,
              static_cast<std::uint32_t>(defaults.patience.count()),
              defaults.workers};
}

int nearkv_store_create(const char* uri, const nearkv_store_options* options, nearkv_store** store,
                        char* reason, std::size_t reason_bytes) {
  return nearkv::make_store(nearkv::ObjectStore::create, uri, options, store, reason, reason_bytes);
}

int nearkv_store_open(const char* uri, const nearkv_store_options* options, nearkv_store** store,
                      char* reason, std::size_t reason_bytes) {
  return nearkv::make_store(nearkv::ObjectStore::open, uri, options, store, reason, reason_bytes);
}

int nearkv_store_connect(const char* socket_path, const nearkv_client_options* options,
                         nearkv_store** store, char* reason, std::size_t reason_bytes) {
  return nearkv::report(reason, reason_bytes, [&](std::string* why) {
    nearkv::ObjectStore::ClientOptions converted;
    converted.window_bytes = options->window_bytes;
    converted.patience = std::chrono::milliseconds(options->patience_ms);
    auto made = std::make_unique<nearkv_store>();
    const Status status = nearkv::ObjectStore::connect(socket_path, converted, &made->store, why);
    if (status == Status::kOk) *store = made.release();
    return status;
  });
}

int nearkv_store_stack(nearkv_store* const* tiers, std::size_t tier_count,
                       const nearkv_stack_options* options, nearkv_store** store, char* reason,
                       std::size_t reason_bytes) {
  return nearkv::report(reason, reason_bytes, [&](std::string* why) {
    std::vector<std::unique_ptr<nearkv::ObjectStore>> owned;
    for (nearkv_store* const tier : std::span(tiers, tier_count)) {
      owned.push_back(std::move(tier->store));
    }
    nearkv::StackOptions converted;
    converted.high_watermark = options->high_watermark;
    converted.low_watermark = options->low_watermark;
    converted.promote_after = options->promote_after;
    converted.write_through = options->write_through != 0;
    converted.patience = std::chrono::milliseconds(options->patience_ms);
    converted.workers = options->workers;
    auto made = std::make_unique<nearkv_store>();
    const Status status =
        nearkv::ObjectStore::stack(std::move(owned), converted, &made->store, why);
    for (std::size_t i = 0; i < tier_count; ++i) {
      if (status == Status::kOk) {
        delete tiers[i];
      } else {
        // NOLINTNEXTLINE(bugprone-use-after-move): refused, they are still there.
        tiers[i]->store = std::move(owned[i]);
      }
    }
    if (status == Status::kOk) *store = made.release();
    return status;
  });
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

int nearkv_store_close_namespace(nearkv_store* store, std::uint32_t number) {
  return to_errno(at_edge([&] { return store->store->close_namespace(number); }));
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

int nearkv_store_set_wipe(nearkv_store* store, std::uint16_t tenant, std::uint8_t wipe) {
  return to_errno(store->store->set_wipe(tenant, wipe != 0));
}

int nearkv_store_watch(nearkv_store* store, std::size_t most) {
  return to_errno(at_edge([&] { return store->store->watch(most); }));
}

int nearkv_store_take_events(nearkv_store* store, nearkv_events* events) {
  *events = {};
  return to_errno(at_edge([&] {
    const std::vector<nearkv::StoreEvent> taken = store->store->take_events(&events->missed);
    auto shown = std::make_unique<nearkv_event[]>(taken.size());
    std::ranges::transform(taken, shown.get(), nearkv::event_of);
    events->count = taken.size();
    events->events = shown.release();
    return Status::kOk;
  }));
}

void nearkv_events_free(nearkv_events* events) {
  delete[] events->events;
  *events = {};
}

int nearkv_store_stats(const nearkv_store* store, nearkv_object_stats* stats) {
  return to_errno(at_edge([&] {
    *stats = nearkv::stats_of(store->store->stats());
    return Status::kOk;
  }));
}

int nearkv_store_tier_stats(const nearkv_store* store, nearkv_object_stats* stats, std::size_t room,
                            std::size_t* count) {
  return to_errno(at_edge([&] {
    const std::vector<nearkv::ObjectStoreStats> tiers = store->store->tier_stats();
    *count = tiers.size();
    std::ranges::transform(std::span(tiers).first(std::min(room, tiers.size())), stats,
                           nearkv::stats_of);
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

int nearkv_store_describe(nearkv_store* store, std::uint32_t namespace_number, const void* key,
                          std::size_t key_bytes, nearkv_object_info* info) {
  return to_errno(at_edge([&] {
    nearkv::ObjectInfo found;
    const Status status =
        store->store->describe(namespace_number, nearkv::key_of(key, key_bytes), &found);
    if (status == Status::kOk) *info = nearkv::info_of(found);
    return status;
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
