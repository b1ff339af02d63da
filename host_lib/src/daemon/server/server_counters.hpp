// What a daemon has done besides its store's work.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nearkv {

/// Durations in buckets, for a Prometheus histogram. Thread safety: all calls.
class DurationHistogram {
 public:
  static constexpr std::array kBoundsNs = std::to_array<std::uint64_t>(
      {2'000, 5'000, 10'000, 20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000,
       5'000'000, 10'000'000, 50'000'000, 200'000'000, 1'000'000'000});

  void add(std::chrono::nanoseconds duration) {
    const auto ns = static_cast<std::uint64_t>(duration.count());
    std::size_t bucket = 0;
    while (bucket < kBoundsNs.size() && ns > kBoundsNs[bucket]) ++bucket;
    buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(ns, std::memory_order_relaxed);
  }

  /// Durations in bucket `index`; the last one is of those beyond all bounds.
  [[nodiscard]] std::uint64_t count(std::size_t index) const { return buckets_[index]; }
  [[nodiscard]] std::uint64_t sum_ns() const { return sum_ns_; }

 private:
  std::array<std::atomic<std::uint64_t>, kBoundsNs.size() + 1> buckets_{};
  std::atomic<std::uint64_t> sum_ns_{0};
};

/// Counted by many threads, read by any.
struct ServerCounters {
  std::atomic<std::uint64_t> connections{0};
  std::atomic<std::uint64_t> refused{0};          ///< Connections.
  std::atomic<std::uint64_t> protocol_errors{0};  ///< Clients cut off for breaking the protocol.
  std::atomic<std::uint64_t> scrubbed_bytes{0};
  std::atomic<std::uint64_t> scrub_damaged{0};
  std::array<DurationHistogram, 5> jobs;  ///< By JobKind: from being taken to being over.
};

}  // namespace nearkv
