// Who holds a block, and where: the 16 bits of a holder, and the word of a block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nearkv::router {

/// A worker's number, from 0 up to kMaxWorkers. Numbers of workers that are gone are given again.
using WorkerId = std::uint16_t;
inline constexpr std::size_t kMaxWorkers = 4096;

/// Where a block lies, fastest first. kShared: on NVMe, another machine or in a pool.
enum class Tier : std::uint8_t { kGpu, kDram, kCxl, kShared };
inline constexpr std::size_t kTiers = 4;
inline constexpr std::array<std::string_view, kTiers> kTierNames{"gpu", "dram", "cxl", "shared"};

/// A set of tiers, bit `Tier` each.
using TierMask = std::uint8_t;
inline constexpr TierMask kAllTiers = (1U << kTiers) - 1;

[[nodiscard]] constexpr TierMask mask_of(Tier tier) {
  return static_cast<TierMask>(1U << static_cast<unsigned>(tier));
}

/// The fastest tier of a set that is not empty.
[[nodiscard]] constexpr Tier fastest(TierMask tiers) {
  return static_cast<Tier>(__builtin_ctz(tiers));
}

/// A worker and the tiers in which it has the block. No holder is 0, because no set is empty.
struct Holder {
  WorkerId worker = 0;
  TierMask tiers = 0;

  [[nodiscard]] static constexpr Holder unpack(std::uint16_t bits) {
    return {static_cast<WorkerId>(bits >> kTiers), static_cast<TierMask>(bits & kAllTiers)};
  }
  [[nodiscard]] constexpr std::uint16_t pack() const {
    return static_cast<std::uint16_t>(worker << kTiers | tiers);
  }
};
static_assert(kMaxWorkers << kTiers == 1U << 16);

}  // namespace nearkv::router
