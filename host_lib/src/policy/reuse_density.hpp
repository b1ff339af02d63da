// How many hits per byte and time an object promises, learned from those before it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearkv {

/// Learns, for each class of objects, how their chance of reuse goes with age, and ranks them by
/// the best rate of hits that keeping one for some time from now on promises (its Gittins index).
///
/// An object waits from its last use until it is reused, given up, or withdrawn. Those that still
/// wait count for as long as they have waited, as in the Kaplan-Meier estimate: so a class is known
/// long before its unused objects are given up. Time is the clock of bytes used, in spans of a
/// 32nd of the capacity; all else is weighted by bytes.
///
/// 4.8 KiB a class. Operations take constant time, amortised over the bytes used.
class ReuseDensity {
 public:
  ReuseDensity(std::size_t classes, std::uint64_t capacity_bytes);

  /// The clock has come to `now`; comes before all else that happens at that time. Draws up the
  /// ranking anew after a quarter of the capacity in bytes and 2,048 calls.
  void advance(std::uint64_t now);

  /// An object of the class waits from now on.
  void wait(std::size_t object_class, std::uint32_t bytes);

  /// One that has waited since `since` does not any more: it was used again, it was forgotten
  /// without a use, or nobody can tell.
  void reused(std::size_t object_class, std::uint64_t since, std::uint32_t bytes);
  void given_up(std::size_t object_class, std::uint64_t since, std::uint32_t bytes);
  void withdrawn(std::size_t object_class, std::uint64_t since, std::uint32_t bytes);

  /// The promise of an object that has waited since `since`: hits per span.
  [[nodiscard]] double of(std::size_t object_class, std::uint64_t since) const;

 private:
  static constexpr std::size_t kSpans = 512;
  static constexpr std::size_t kAges = 32;  ///< Each span up to 8, then four an octave.

  template <typename T>
  using PerAge = std::array<T, kAges>;

  struct Class {
    PerAge<double> reused_bytes{};
    PerAge<double> given_up_bytes{};
    PerAge<double> density{};
    std::array<std::uint64_t, kSpans> waiting_bytes{};  ///< By the span they wait from.
    std::uint64_t waiting_longer_bytes = 0;
  };

  [[nodiscard]] static std::size_t age_of(std::uint64_t spans);
  [[nodiscard]] static std::uint64_t first_span_of(std::size_t age);
  [[nodiscard]] std::size_t age_since(std::uint64_t since) const;
  std::size_t end_wait(Class* of, std::uint64_t since, std::uint32_t bytes) const;
  void learn(Class* of) const;

  std::vector<Class> classes_;
  std::uint64_t span_bytes_;
  std::uint64_t span_ = 0;  ///< The present one.
  std::uint64_t learn_after_span_;
  std::uint64_t calls_ = 0;
};

}  // namespace nearkv
