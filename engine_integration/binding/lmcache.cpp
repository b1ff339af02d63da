#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lmcache_client.hpp"
#include "module.hpp"
#include "store.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

/// An LMCacheClient, until close(). Thread safety: all calls, with the GIL.
class Client {
 public:
  Client(Store* store, std::uint16_t tenant, const std::string& layout, const nb::bytes& salt) {
    Namespace common;
    common.tenant = tenant;
    common.layout = layout;
    common.salt.assign(salt.c_str(), salt.size());
    client_ = std::make_shared<LMCacheClient>(std::move(Store::give_up({store}).front()),
                                              std::move(common));
  }

  [[nodiscard]] std::shared_ptr<LMCacheClient> use() const {
    if (client_ == nullptr) throw nb::value_error("the client is closed");
    return client_;
  }

  LMCacheClient::BatchId submit(JobKind kind, const std::vector<std::string>& keys,
                                nb::handle buffers) const {
    const std::shared_ptr<LMCacheClient> client = use();
    std::vector<LentMemory> memory;
    if (!buffers.is_none()) {
      const Access access = kind == JobKind::kSet ? Access::kRead : Access::kWrite;
      for (const nb::handle buffer : nb::iter(buffers)) memory.emplace_back(buffer, access);
      if (memory.size() != keys.size()) throw nb::value_error("there must be one buffer per key");
    }
    LMCacheClient::BatchId id = 0;
    std::string reason;
    const Status status = freely([&] { return client->submit(kind, keys, &memory, &id, &reason); });
    if (status != Status::kOk) throw nb::value_error(reason.c_str());
    return id;
  }

  [[nodiscard]] std::vector<std::tuple<LMCacheClient::BatchId, bool, std::string, nb::list>> drain()
      const {
    const std::shared_ptr<LMCacheClient> client = use();
    const auto completions = freely([&] { return client->drain(); });
    std::vector<std::tuple<LMCacheClient::BatchId, bool, std::string, nb::list>> told;
    for (const LMCacheClient::Completion& over : completions) {
      nb::list items;
      for (const bool item : over.items) items.append(item);
      told.emplace_back(over.id, over.ok, over.error, std::move(items));
    }
    return told;
  }

  void close() {
    std::shared_ptr<LMCacheClient> closing = std::exchange(client_, nullptr);
    freely([&] { closing.reset(); });
  }

 private:
  std::shared_ptr<LMCacheClient> client_;
};

template <JobKind kKind>
void bind_submit(nb::class_<Client>& type, const char* name) {
  constexpr bool kMoves = kKind == JobKind::kGet || kKind == JobKind::kSet;
  if constexpr (kMoves) {
    type.def(
        name,
        [](const Client& self, const std::vector<std::string>& keys, nb::handle buffers) {
          return self.submit(kKind, keys, buffers);
        },
        "keys"_a, "buffers"_a, "The batch's id. Buffers are in use until it is drained.");
  } else {
    type.def(
        name,
        [](const Client& self, const std::vector<std::string>& keys) {
          return self.submit(kKind, keys, nb::none());
        },
        "keys"_a, "The batch's id.");
  }
}

}  // namespace

void bind_lmcache(nb::module_& module) {
  nb::class_<Client> type(module, "LMCacheClient",
                          "What nearkv.lmcache.NearKVClient is; use that. Takes over the store.");
  type.def(nb::init<Store*, std::uint16_t, const std::string&, const nb::bytes&>(), "store"_a,
           nb::kw_only(), "tenant"_a, "layout"_a, "salt"_a);
  type.def(
      "event_fd", [](const Client& self) { return self.use()->event_fd(); },
      "Readable while drain_completions() has something to give.");
  bind_submit<JobKind::kGet>(type, "submit_batch_get");
  bind_submit<JobKind::kSet>(type, "submit_batch_set");
  bind_submit<JobKind::kExists>(type, "submit_batch_exists");
  bind_submit<JobKind::kErase>(type, "submit_batch_delete");
  type.def("drain_completions", &Client::drain,
           "[(id, ok, error, [whether each key's item is well])] of batches that are over.");
  type.def("close", &Client::close, "Drops what has not begun. Again: does nothing.");
}

}  // namespace nearkv::python
