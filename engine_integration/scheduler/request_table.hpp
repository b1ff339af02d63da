// The requests of one scheduler, by number.
#pragma once

#include <cstddef>
#include <vector>

#include "request.hpp"

namespace nearkv::scheduler {

/// Numbers are used again, so that a long life costs no more memory than what was there at once.
/// References hold until the next add(). Thread safety: one thread at a time.
class RequestTable {
 public:
  RequestId add(RequestState state) {
    state.order = next_order_++;
    if (free_.empty()) {
      states_.push_back(std::move(state));
      is_used_.push_back(true);
      return static_cast<RequestId>(states_.size() - 1);
    }
    const RequestId id = free_.back();
    free_.pop_back();
    states_[id] = std::move(state);
    is_used_[id] = true;
    return id;
  }

  void remove(RequestId id) {
    is_used_[id] = false;
    free_.push_back(id);
  }

  /// Calls visit(state) for each, by number.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (RequestId id = 0; id < states_.size(); ++id) {
      if (is_used_[id]) visit(states_[id]);
    }
  }

  [[nodiscard]] bool has(RequestId id) const { return id < states_.size() && is_used_[id]; }
  [[nodiscard]] std::size_t size() const { return states_.size() - free_.size(); }
  [[nodiscard]] RequestState& operator[](RequestId id) { return states_[id]; }
  [[nodiscard]] const RequestState& operator[](RequestId id) const { return states_[id]; }

 private:
  std::vector<RequestState> states_;
  std::vector<bool> is_used_;
  std::vector<RequestId> free_;
  std::uint64_t next_order_ = 0;
};

}  // namespace nearkv::scheduler
