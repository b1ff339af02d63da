// What an object store has done so far.
#pragma once

#include <atomic>
#include <cstdint>

namespace nearkv {

/// Counted by many threads, read by any.
struct StoreCounters {
  using Counter = std::atomic<std::uint64_t>;

  Counter objects{0};
  Counter object_bytes{0};
  Counter sets{0};
  Counter set_bytes{0};
  Counter hits{0};
  Counter get_bytes{0};
  Counter misses{0};
  Counter evictions{0};
  Counter expirations{0};
  Counter corruptions{0};
  Counter recovered{0};
  Counter torn{0};
  Counter moved{0};
  Counter quarantined{0};

  static void add(Counter& counter, std::uint64_t amount) {
    counter.fetch_add(amount, std::memory_order_relaxed);
  }
};

}  // namespace nearkv
