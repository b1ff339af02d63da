// The class that Python knows as ObjectStore.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

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

  /// The store itself; this is closed from then on. Raises ValueError if it is closed or at work.
  [[nodiscard]] std::unique_ptr<ObjectStore> give_up() {
    const std::shared_ptr<OpenStore> open = use();
    if (open.use_count() > 2) throw nanobind::value_error("the store is at work");
    std::unique_ptr<ObjectStore> store = open->give_up();
    open_.reset();
    return store;
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
