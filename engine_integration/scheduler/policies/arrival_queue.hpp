// Waiting requests in the order of their arrival.
#pragma once

#include <optional>
#include <set>
#include <utility>

#include "view.hpp"

namespace nearkv::scheduler {

/// A preempted request comes back to where its arrival puts it. Operations take the logarithm of
/// how many wait.
class ArrivalQueue {
 public:
  using Place = std::pair<std::uint64_t, RequestId>;

  void add(RequestId id, const View& view) { places_.emplace(view[id].order, id); }
  void remove(RequestId id, const View& view) { places_.erase({view[id].order, id}); }

  [[nodiscard]] bool empty() const { return places_.empty(); }
  [[nodiscard]] std::optional<RequestId> first() const {
    if (places_.empty()) return std::nullopt;
    return places_.begin()->second;
  }
  /// The first ones come first.
  [[nodiscard]] const std::set<Place>& places() const { return places_; }

 private:
  std::set<Place> places_;
};

}  // namespace nearkv::scheduler
