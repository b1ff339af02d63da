#include "daemon/server/event_hub.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nearkv {
namespace {

constexpr std::size_t kMostOfTheStore = 65536;

}  // namespace

Status EventHub::watch(EventWatcher* watcher, std::size_t most) {
  const std::scoped_lock lock(mutex_);
  Status status = Status::kOk;
  if (most != 0 && watchers_.empty()) {
    status = store_->watch(kMostOfTheStore);
  } else {
    take_from_store();  // What came before is not this watcher's.
  }
  if (status != Status::kOk) return status;
  watcher->most = std::min(most, kMostOfAWatcher);
  watcher->events.clear();
  watcher->missed = 0;
  if (most != 0) {
    watchers_.insert(watcher);
  } else if (watchers_.erase(watcher) != 0 && watchers_.empty()) {
    status = store_->watch(0);
  }
  is_watched_ = !watchers_.empty();
  return status;
}

void EventHub::add_namespace(EventWatcher* watcher, std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  watcher->namespaces.insert(number);
}

void EventHub::remove_namespace(EventWatcher* watcher, std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  watcher->namespaces.erase(number);
}

std::vector<StoreEvent> EventHub::take(EventWatcher* watcher, std::size_t most,
                                       std::uint64_t* missed) {
  const std::scoped_lock lock(mutex_);
  take_from_store();
  auto& events = watcher->events;
  const auto end = events.begin() + static_cast<std::ptrdiff_t>(std::min(most, events.size()));
  std::vector<StoreEvent> taken(std::make_move_iterator(events.begin()),
                                std::make_move_iterator(end));
  events.erase(events.begin(), end);
  *missed = std::exchange(watcher->missed, 0);
  return taken;
}

void EventHub::pump() {
  const std::scoped_lock lock(mutex_);
  take_from_store();
}

void EventHub::take_from_store() {
  if (watchers_.empty()) return;
  std::uint64_t missed = 0;
  for (const StoreEvent& event : store_->take_events(&missed)) {
    for (EventWatcher* const watcher : watchers_) {
      if (!watcher->sees_all && !watcher->namespaces.contains(event.namespace_number)) continue;
      if (watcher->events.size() == watcher->most) {
        watcher->events.pop_front();
        ++watcher->missed;
      }
      watcher->events.push_back(event);
    }
  }
  // Whose they were is not known any more.
  for (EventWatcher* const watcher : watchers_) watcher->missed += missed;
}

}  // namespace nearkv
