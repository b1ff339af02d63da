// The sketch of the hotness monitor, one access at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace nearkv::rtl_test {

inline constexpr unsigned kUnitBits = 22;
inline constexpr unsigned kSketchRows = 4;
inline constexpr unsigned kPlaceBits = 15;
inline constexpr unsigned kLargest = (1U << 14U) - 1;

/// A unit when it became hot, and its estimate then.
struct Hot {
  unsigned unit;
  unsigned count;
  bool operator==(const Hot&) const = default;
};

/// What the module promises, one access at a time.
class Sketch {
 public:
  Sketch() {
    for (unsigned row = 0; row < kSketchRows; ++row) {
      for (unsigned place = 0; place < kPlaceBits; ++place) {
        std::uint64_t z = (row * 64 + place + 1) * 0x9e3779b97f4a7c15U;
        z = (z ^ z >> 30U) * 0xbf58476d1ce4e5b9U;
        z = (z ^ z >> 27U) * 0x94d049bb133111ebU;
        masks_.at(row).at(place) = (z ^ z >> 31U) & ((1U << kUnitBits) - 1);
      }
    }
    clear();
  }

  void clear() {
    for (auto& row : cells_) row.assign(1U << kPlaceBits, {});
  }

  std::optional<Hot> access(unsigned unit, unsigned threshold) {
    const unsigned least = estimate(unit);
    bool known = true;
    for (unsigned row = 0; row < kSketchRows; ++row) {
      Cell& cell = cell_of(row, unit);
      known &= cell.mark;
      if (cell.count == least && cell.count < kLargest) ++cell.count;
      if (least + 1 >= threshold) cell.mark = true;
    }
    if (least + 1 < threshold || known) return std::nullopt;
    return Hot{unit, std::min(least + 1, kLargest)};
  }

  [[nodiscard]] unsigned estimate(unsigned unit) {
    unsigned least = kLargest;
    for (unsigned row = 0; row < kSketchRows; ++row)
      least = std::min(least, cell_of(row, unit).count);
    return least;
  }

 private:
  struct Cell {
    unsigned count = 0;
    bool mark = false;
  };

  Cell& cell_of(unsigned row, unsigned unit) {
    unsigned place = 0;
    for (unsigned i = 0; i < kPlaceBits; ++i) {
      place |= static_cast<unsigned>(std::popcount(masks_.at(row).at(i) & unit) & 1) << i;
    }
    return cells_.at(row).at(place);
  }

  std::array<std::array<std::uint64_t, kPlaceBits>, kSketchRows> masks_{};
  std::array<std::vector<Cell>, kSketchRows> cells_;
};

}  // namespace nearkv::rtl_test
