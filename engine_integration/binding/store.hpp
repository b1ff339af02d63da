// The class that Python knows as ObjectStore.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>
#include <vector>

#include "nearkv/object_store.hpp"
#include "open_store.hpp"

namespace nearkv::python {

/// Any ObjectStore, until close(). Thread safety: all calls, with the GIL.
class Store {
 public:
  explicit Store(std::unique_ptr<ObjectStore> store)
      : open_(std::make_shared<OpenStore>(std::move(store))) {}

  void close() {
    std::shared_ptr<OpenStore> closing = std::exchange(open_, nullptr);
    freely([&] { closing.reset(); });
  }

  [[nodiscard]] bool closed() const { return open_ == nullptr; }

  /// The store, which stays open while the pointer lives. Raises ValueError after close().
  [[nodiscard]] std::shared_ptr<OpenStore> use() const {
    if (open_ == nullptr) throw nanobind::value_error("the store is closed");
    return open_;
  }

  /// The stores themselves; these are closed from then on. Raises ValueError if one is none,
  /// closed, there twice or at work: then all stay as they are.
  [[nodiscard]] static std::vector<std::unique_ptr<ObjectStore>> give_up(
      const std::vector<Store*>& stores) {
    std::vector<std::shared_ptr<OpenStore>> taken;
    try {
      for (Store* const store : stores) {
        if (store == nullptr) throw nanobind::value_error("None is no store");
        if (store->use().use_count() > 2) throw nanobind::value_error("the store is at work");
        // Closed before another thread may look.
        taken.push_back(std::exchange(store->open_, nullptr));
        if (taken.back()->has_jobs()) throw nanobind::value_error("the store has jobs in flight");
      }
    } catch (...) {
      for (std::size_t i = 0; i < taken.size(); ++i) stores[i]->open_ = taken[i];
      throw;
    }
    std::vector<std::unique_ptr<ObjectStore>> given;
    given.reserve(taken.size());
    for (const std::shared_ptr<OpenStore>& open : taken) given.push_back(open->give_up());
    return given;
  }

  /// Undoes give_up().
  static void give_back(const std::vector<Store*>& stores,
                        std::vector<std::unique_ptr<ObjectStore>> given) {
    for (std::size_t i = 0; i < given.size(); ++i) *stores[i] = Store(std::move(given[i]));
  }

  /// What `call(store)` gives, without the GIL.
  template <typename Call>
  auto ask(Call call) const -> decltype(call(std::declval<ObjectStore&>())) {
    const std::shared_ptr<OpenStore> open = use();
    return freely([&] { return call(**open); });
  }

 private:
  std::shared_ptr<OpenStore> open_;
};

}  // namespace nearkv::python
