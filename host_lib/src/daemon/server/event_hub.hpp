// Changes of a store, for every client that wants them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <vector>

#include "nearkv/object_store.hpp"

namespace nearkv {

/// What one client is told, kept until it asks. Everything in it is the hub's.
struct EventWatcher {
  bool sees_all = false;
  std::set<std::uint32_t> namespaces;  ///< That it may see otherwise.
  std::size_t most = 0;
  std::deque<StoreEvent> events;
  std::uint64_t missed = 0;
};

/// Takes the store's changes and gives each to those who may see it. Nothing is kept for others,
/// and the store is not asked while nobody watches. Thread safety: all calls.
class EventHub {
 public:
  static constexpr std::size_t kMostOfAWatcher = 16384;

  explicit EventHub(ObjectStore* store) : store_(store) {}
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  /// From now on keeps the watcher's last `most` changes, at most kMostOfAWatcher, and forgets
  /// earlier ones; 0: none. It must stay until then. The store's status.
  Status watch(EventWatcher* watcher, std::size_t most);

  /// The watcher may see this namespace too.
  void add_namespace(EventWatcher* watcher, std::uint32_t number);

  /// It may not any more.
  void remove_namespace(EventWatcher* watcher, std::uint32_t number);

  /// The watcher's oldest changes, up to `most`, and how many it missed.
  std::vector<StoreEvent> take(EventWatcher* watcher, std::size_t most, std::uint64_t* missed);

  /// Takes what the store has, before that is too much for it.
  void pump();

  [[nodiscard]] bool is_watched() const { return is_watched_; }

 private:
  void take_from_store();

  ObjectStore* store_;
  std::atomic<bool> is_watched_{false};
  std::mutex mutex_;
  std::set<EventWatcher*> watchers_;
};

}  // namespace nearkv
