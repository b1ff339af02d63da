// Events at a pace, in a thread of their own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "fleet.hpp"

namespace nearkv::bench {

/// Workers lose the tails of chains and take them up again, so that what they have stays about the
/// same. Runs until it is destroyed.
class EventStream {
 public:
  /// Told of some blocks of a chain: whether they are stored or removed.
  using Apply =
      std::function<void(const CachedChain&, std::span<const std::uint64_t>, bool is_stored)>;

  EventStream(const std::vector<CachedChain>& fleet, double blocks_per_s, std::uint64_t seed,
              Apply apply);
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;
  ~EventStream();

  /// Blocks a second that were told since it began; below the pace where it cannot keep up.
  [[nodiscard]] double rate() const;

 private:
  void run(double blocks_per_s, std::uint64_t seed);

  const std::vector<CachedChain>& fleet_;
  Apply apply_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> told_ = 0;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace nearkv::bench
