#include "store.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "error.hpp"
#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

using std::chrono::nanoseconds;

nanoseconds duration_of(double seconds, const char* name) {
  constexpr double kMost = 1e9;
  if (!(seconds >= 0 && seconds <= kMost)) {
    throw nb::value_error((std::string(name) + " must be 0 to 1e9 seconds").c_str());
  }
  return nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

using Start = Status (*)(const std::string&, const ObjectStore::Options&,
                         std::unique_ptr<ObjectStore>*, std::string*);

template <Start kStart>
std::unique_ptr<Store> start(const std::string& uri, std::uint32_t max_objects,
                             std::uint32_t max_namespaces, unsigned workers,
                             const std::string& eviction, double patience_s,
                             const std::string& seal_key_file, double defragment_above) {
  ObjectStore::Options options;
  options.defragment_above = defragment_above;
  options.seal_key_file = seal_key_file;
  options.max_objects = max_objects;
  options.max_namespaces = max_namespaces;
  options.workers = workers;
  options.eviction = eviction;
  options.patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(duration_of(patience_s, "patience_s"));
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  check(freely([&] { return kStart(uri, options, &store, &reason); }), reason);
  return std::make_unique<Store>(std::move(store));
}

std::unique_ptr<Store> connect(const std::string& socket_path, std::uint64_t window_bytes,
                               double patience_s) {
  ObjectStore::ClientOptions options;
  options.window_bytes = window_bytes;
  options.patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(duration_of(patience_s, "patience_s"));
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  check(freely([&] { return ObjectStore::connect(socket_path, options, &store, &reason); }),
        reason);
  return std::make_unique<Store>(std::move(store));
}

std::unique_ptr<Store> stack(const std::vector<Store*>& tiers, double high_watermark,
                             double low_watermark, unsigned promote_after, bool write_through,
                             double patience_s, unsigned workers) {
  StackOptions options;
  options.high_watermark = high_watermark;
  options.low_watermark = low_watermark;
  options.promote_after = promote_after;
  options.write_through = write_through;
  options.patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(duration_of(patience_s, "patience_s"));
  options.workers = workers;
  std::vector<std::unique_ptr<ObjectStore>> owned = Store::give_up(tiers);
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  const Status status =
      freely([&] { return ObjectStore::stack(std::move(owned), options, &store, &reason); });
  if (status != Status::kOk) Store::give_back(tiers, std::move(owned));
  check(status, reason);
  return std::make_unique<Store>(std::move(store));
}

std::uint32_t open_namespace(const Store& self, std::uint16_t tenant, const std::string& model,
                             const std::string& dtype, const std::string& layout,
                             std::uint32_t rank, std::uint32_t group, const nb::bytes& salt) {
  const Namespace name{
      tenant, model, dtype, layout, rank, group, std::string(salt.c_str(), salt.size())};
  std::uint32_t number = 0;
  const Status status =
      self.ask([&](ObjectStore& store) { return store.open_namespace(name, &number); });
  std::string why;
  if (status == Status::kNameTooLong) {
    const auto size = [](const std::string& text) { return std::to_string(text.size()); };
    why = std::string(message(status)) + "; the model's name has " + size(model) + ", the dtype " +
          size(dtype) + " and the layout " + size(layout);
  }
  check(status, why);
  return number;
}

template <bool kSubmit>
nb::tuple transfer(const Store& self, JobKind kind, std::uint32_t space, nb::handle keys,
                   nb::handle memory, std::uint16_t first_part, std::uint16_t part_count,
                   bool chain, const nb::bytes& parent, bool overwrite, bool evict,
                   std::uint16_t parts, std::uint32_t age_s, std::uint32_t object_bytes,
                   bool quiet) {
  const std::shared_ptr<OpenStore> open = self.use();
  if (parts > NKV_MAX_OBJECT_PARTS) {
    throw nb::value_error((std::to_string(parts) + " parts are too many; an object may have " +
                           std::to_string(NKV_MAX_OBJECT_PARTS))
                              .c_str());
  }
  Job options;
  options.kind = kind;
  options.namespace_number = space;
  options.chain = chain;
  options.parent = {static_cast<const std::byte*>(parent.data()), parent.size()};
  options.overwrite = overwrite;
  options.evict = evict;
  options.parts = parts;
  options.age = std::chrono::seconds(age_s);
  options.object_bytes = object_bytes;
  options.quiet = quiet;
  Transfer made(options, keys, memory, first_part, part_count);
  if (kind == JobKind::kGet && memory.is_none()) made.make_room(&**open);
  return kSubmit ? open->submit(std::move(made)) : open->run(made);
}

std::optional<nb::tuple> wait(const Store& self, JobId id, std::optional<double> timeout_s) {
  std::optional<nanoseconds> timeout;
  if (timeout_s) timeout = duration_of(*timeout_s, "timeout");
  return self.use()->wait(id, timeout);
}

/// Whether `status` is kOk; false for kNotFound, Error for all else.
bool found(Status status) {
  if (status != Status::kNotFound) check(status);
  return status == Status::kOk;
}

std::size_t exists(const Store& self, std::uint32_t space, nb::handle keys) {
  const Keys names(keys);
  return self.ask([&](ObjectStore& store) { return store.exists(space, names.span()); });
}

std::vector<bool> present(const Store& self, std::uint32_t space, nb::handle keys) {
  const Keys names(keys);
  const std::size_t count = names.span().size();
  const auto flags = std::make_unique<bool[]>(count);
  self.ask(
      [&](ObjectStore& store) { return store.exists(space, names.span(), {flags.get(), count}); });
  return std::vector<bool>(flags.get(), flags.get() + count);
}

std::size_t match_prefix(const Store& self, std::uint32_t space, nb::handle chain) {
  const Keys names(chain);
  return self.ask([&](ObjectStore& store) { return store.match_prefix(space, names.span()); });
}

void touch(const Store& self, std::uint32_t space, nb::handle keys) {
  const Keys names(keys);
  self.ask([&](ObjectStore& store) { store.touch(space, names.span()); });
}

std::tuple<LeaseId, nb::bytes> pin(const Store& self, std::uint32_t space, nb::handle keys,
                                   double duration_s) {
  const Keys names(keys);
  const nanoseconds duration = duration_of(duration_s, "duration_s");
  std::vector<Status> statuses(names.span().size(), Status::kOk);
  const LeaseId lease = self.ask(
      [&](ObjectStore& store) { return store.pin(space, names.span(), duration, statuses); });
  return {lease, nb::bytes(statuses.data(), statuses.size())};
}

VerifyProgress verify(const Store& self, std::uint32_t first, std::uint32_t most) {
  VerifyProgress progress;
  check(self.ask([&](ObjectStore& store) { return store.verify(first, most, &progress); }));
  return progress;
}

std::uint64_t defragment(const Store& self, std::uint64_t most_bytes) {
  std::uint64_t moved_bytes = 0;
  check(self.ask([&](ObjectStore& store) { return store.defragment(most_bytes, &moved_bytes); }));
  return moved_bytes;
}

template <Start kStart>
void bind_start(nb::class_<Store>& store, const char* name, const char* doc) {
  const ObjectStore::Options defaults;
  store.def_static(name, &start<kStart>, "uri"_a, nb::kw_only(),
                   "max_objects"_a = defaults.max_objects,
                   "max_namespaces"_a = defaults.max_namespaces, "workers"_a = defaults.workers,
                   "eviction"_a = defaults.eviction,
                   "patience_s"_a = std::chrono::duration<double>(defaults.patience).count(),
                   "seal_key_file"_a = "", "defragment_above"_a = defaults.defragment_above, doc);
}

template <bool kSubmit>
void bind_transfer(nb::class_<Store>& store, const char* name, const char* doc) {
  store.def(name, &transfer<kSubmit>, "kind"_a, "space"_a, "keys"_a, "memory"_a.none() = nb::none(),
            nb::kw_only(), "first_part"_a = 0, "part_count"_a = 0, "chain"_a = false,
            "parent"_a = nb::bytes(""), "overwrite"_a = false, "evict"_a = true, "parts"_a = 0,
            "age_s"_a = 0, "object_bytes"_a = 0, "quiet"_a = false, doc);
}

}  // namespace

void bind_store(nb::module_& module) {
  nb::enum_<JobKind>(module, "JobKind", "What a job does.")
      .value("GET", JobKind::kGet)
      .value("SET", JobKind::kSet)
      .value("ERASE", JobKind::kErase)
      .value("EXISTS", JobKind::kExists)
      .value("SET_PARTS", JobKind::kSetParts);
  nb::class_<Store> type(module, "ObjectStore", "What nearkv.store.ObjectStore wraps; use that.");
  bind_start<&ObjectStore::create>(type, "create", "Formats memory of a device URI.");
  bind_start<&ObjectStore::open>(type, "open", "Takes up what earlier work left there.");
  bind_start<&ObjectStore::open_or_create>(
      type, "open_or_create", "Takes up what is there, or formats memory where nothing is.");
  const ObjectStore::ClientOptions client;
  type.def_static("connect", &connect, "socket_path"_a, nb::kw_only(),
                  "window_bytes"_a = client.window_bytes,
                  "patience_s"_a = std::chrono::duration<double>(client.patience).count(),
                  "A store that a daemon owns.");
  const StackOptions tiers;
  type.def_static("stack", &stack, "tiers"_a, nb::kw_only(),
                  "high_watermark"_a = tiers.high_watermark,
                  "low_watermark"_a = tiers.low_watermark, "promote_after"_a = tiers.promote_after,
                  "write_through"_a = tiers.write_through,
                  "patience_s"_a = std::chrono::duration<double>(tiers.patience).count(),
                  "workers"_a = tiers.workers, "Stores on top of each other, the fastest first.");
  bind_transfer<false>(type, "run", "Runs a job: (statuses, object_bytes, fresh memory).");
  bind_transfer<true>(type, "submit", "Hands a job to the workers: (id, fresh memory).");
  type.def("close", &Store::close, "Drops jobs that have not begun. Again: does nothing.")
      .def_prop_ro("closed", &Store::closed)
      .def("open_namespace", &open_namespace, "tenant"_a, "model"_a, "dtype"_a, "layout"_a,
           "rank"_a, "group"_a, "salt"_a)
      .def(
          "close_namespace",
          [](const Store& self, std::uint32_t number) {
            check(self.ask([&](ObjectStore& store) { return store.close_namespace(number); }));
          },
          "number"_a)
      .def("wait", &wait, "id"_a, "timeout"_a.none(),
           "(statuses, object_bytes), or None if it takes longer. Error NOT_FOUND if the job was\n"
           "acknowledged already.")
      .def(
          "drain", [](const Store& self) { return self.use()->drain(); },
          "[(id, (statuses, object_bytes))] of jobs that are over, until they are acknowledged.")
      .def(
          "acknowledge", [](const Store& self, JobId id) { self.use()->acknowledge(id); }, "id"_a,
          "Forgets the outcome of a job, which wait() and drain() give until then.")
      .def(
          "cancel",
          [](const Store& self, JobId id) {
            return found(self.ask([&](ObjectStore& store) { return store.cancel(id); }));
          },
          "id"_a, "False: it is over.")
      .def_prop_ro("event_fd", [](const Store& self) { return (**self.use()).event_fd(); })
      .def("exists", &exists, "space"_a, "keys"_a)
      .def("present", &present, "space"_a, "keys"_a)
      .def("match_prefix", &match_prefix, "space"_a, "chain"_a)
      .def("touch", &touch, "space"_a, "keys"_a)
      .def("pin", &pin, "space"_a, "keys"_a, "duration_s"_a, "(lease, statuses).")
      .def(
          "unpin",
          [](const Store& self, LeaseId lease) {
            return found(self.ask([&](ObjectStore& store) { return store.unpin(lease); }));
          },
          "lease"_a, "False: it had ended.")
      .def(
          "set_quota",
          [](const Store& self, std::uint16_t tenant, std::uint64_t bytes) {
            check(self.ask([&](ObjectStore& store) { return store.set_quota(tenant, bytes); }));
          },
          "tenant"_a, "bytes"_a)
      .def(
          "set_wipe",
          [](const Store& self, std::uint16_t tenant, bool wipe) {
            check(self.ask([&](ObjectStore& store) { return store.set_wipe(tenant, wipe); }));
          },
          "tenant"_a, "wipe"_a)
      .def(
          "watch",
          [](const Store& self, std::size_t most) {
            check(self.ask([&](ObjectStore& store) { return store.watch(most); }));
          },
          "most"_a)
      .def(
          "take_events",
          [](const Store& self) {
            std::uint64_t missed = 0;
            std::vector<StoreEvent> events =
                self.ask([&](ObjectStore& store) { return store.take_events(&missed); });
            return std::tuple(std::move(events), missed);
          },
          "(events since the last call, how many more there were).")
      .def("tier_stats",
           [](const Store& self) {
             return self.ask([](ObjectStore& store) { return store.tier_stats(); });
           })
      .def("stats",
           [](const Store& self) {
             return self.ask([](ObjectStore& store) { return store.stats(); });
           })
      .def("namespaces",
           [](const Store& self) {
             return self.ask([](ObjectStore& store) { return store.namespaces(); });
           })
      .def(
          "describe",
          [](const Store& self, std::uint32_t space, const nb::bytes& key) {
            ObjectInfo info;
            const Key name(static_cast<const std::byte*>(key.data()), key.size());
            const bool here = found(
                self.ask([&](ObjectStore& store) { return store.describe(space, name, &info); }));
            return here ? std::optional(info) : std::nullopt;
          },
          "space"_a, "key"_a, "What the object's record says; None if there is none.")
      .def(
          "objects",
          [](const Store& self, std::uint32_t first, std::uint32_t most) {
            return self.ask([&](ObjectStore& store) { return store.list(first, most); });
          },
          "first"_a, "most"_a)
      .def("verify", &verify, "first"_a, "most"_a)
      .def("defragment", &defragment, "most_bytes"_a);
}

}  // namespace nearkv::python
