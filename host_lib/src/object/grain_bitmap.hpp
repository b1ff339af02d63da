// Which grains of one slab are taken.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace nearkv {

inline constexpr std::uint32_t kWordBits = 64;

/// A run of free grains, counted from the start of the slab.
struct FreeRun {
  std::uint32_t first = 0;
  std::uint32_t grains = 0;
};

/// View of a slab's bits, 1 for taken; the words outlive it. The slab is as large as the words, or
/// the bits behind its end are set.
class GrainBitmap {
 public:
  explicit GrainBitmap(std::span<std::uint64_t> words) : words_(words) {}

  /// Whether all grains of the range are taken, or all are free.
  [[nodiscard]] bool all(bool taken, std::uint32_t first, std::uint32_t grains) const;
  void set(bool taken, std::uint32_t first, std::uint32_t grains);

  /// The longest run; of 0 grains if all are taken.
  [[nodiscard]] FreeRun longest() const;
  /// The shortest run of at least `grains`; of 0 grains if there is none.
  [[nodiscard]] FreeRun fitting(std::uint32_t grains) const;

 private:
  template <typename Visit>
  void for_each_free_run(Visit visit) const;

  std::span<std::uint64_t> words_;
};

}  // namespace nearkv
