// What will happen, in the order of time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "request.hpp"

namespace nearkv::traces {

using scheduler::Seconds;

/// Discrete events: a binary heap. Events of one moment come in the order in which they were added,
/// so that a run is the same each time. Adding and taking cost the logarithm of what is pending.
template <typename Event>
class EventQueue {
 public:
  void add(Seconds at_s, Event event) {
    heap_.push_back({at_s, next_++, event});
    std::push_heap(heap_.begin(), heap_.end(), is_later);
  }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] Seconds next_s() const { return heap_.front().at_s; }

  Event take() {
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    const Event event = heap_.back().event;
    heap_.pop_back();
    return event;
  }

 private:
  struct Pending {
    Seconds at_s;
    std::uint64_t number;
    Event event;
  };
  static bool is_later(const Pending& a, const Pending& b) {
    return a.at_s != b.at_s ? a.at_s > b.at_s : a.number > b.number;
  }

  std::vector<Pending> heap_;
  std::uint64_t next_ = 0;
};

}  // namespace nearkv::traces
