// How long transfers take, learned from those that were made.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

namespace nearkv::nixl {

/// A time for each object and one for each byte, fitted to the relative times of recent transfers
/// of one kind. Thread safety: all calls.
class CostModel {
 public:
  using Duration = std::chrono::duration<double, std::micro>;

  struct Estimate {
    Duration duration;
    Duration margin;  ///< One standard deviation of what was measured about what is fitted.
  };

  /// A transfer that was made.
  void learn(std::size_t objects, std::uint64_t bytes, Duration taken);

  /// Nothing before the first one.
  [[nodiscard]] std::optional<Estimate> estimate(std::size_t objects, std::uint64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  // Sums over transfers, each forgotten by and by, of n and b: objects and bytes, by the time
  // taken.
  double count_ = 0;
  double n_ = 0;
  double b_ = 0;
  double nn_ = 0;
  double nb_ = 0;
  double bb_ = 0;
};

}  // namespace nearkv::nixl
