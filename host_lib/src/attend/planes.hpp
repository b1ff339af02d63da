// The plane stage (ARITHMETIC.md 5): token scores from the top bits of K, in integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend/query.hpp"
#include "page/page_view.hpp"

namespace nearkv {

/// What a page's digest makes of a query row. All in weight units (2^32 score units).
struct RowFold {
  std::int32_t constant = 0;         ///< K of the arithmetic.
  std::int32_t weight_sum = 0;       ///< Sum of w.
  std::int32_t weight_norm = 0;      ///< W: sum of |w|.
  std::int32_t slack = 0;            ///< Radius that no further plane removes.
  std::uint32_t weight_squares = 0;  ///< Sum of w^2.

  /// Midpoint after `planes` planes, from the sum of w * (the code's top bits).
  [[nodiscard]] std::int32_t midpoint(std::int32_t plane_sum, unsigned planes) const {
    return constant + (plane_sum << (8 - planes)) - (128 - (128 >> planes)) * weight_sum;
  }

  /// Radius after `planes` planes, with z in sixteenths.
  [[nodiscard]] std::int32_t radius(unsigned planes, unsigned z16) const;
};

inline constexpr std::int16_t kMaskedMidpoint = -32768;
inline constexpr std::int16_t kLargestMidpoint = 32767;

/// How a row's midpoints are stored in 16 bits: (midpoint - reference) >> shift.
struct MidpointScale {
  std::int32_t reference = 0;
  unsigned shift = 0;

  /// From the fold of the list's first page with a visible token.
  static MidpointScale from_reference(const RowFold& fold);
};

/// Weights and constants of all rows for one page; a buffer to be used again.
struct PageFold {
  std::size_t dim = 0;
  std::vector<RowFold> rows;
  std::vector<std::int16_t> weights;  ///< [rows][dim].
};

/// Fills `fold` from the page's digest. `key_exponent` is the list's Ek.
void fold_page(const Query& query, const PageView& page, int key_exponent, PageFold* fold);

/// Fills the weights only, which is all that plane_sums() needs, and leaves `fold->rows` empty.
void fold_weights(const Query& query, const PageView& page, int key_exponent, PageFold* fold);

/// Some of a code's bits: `count` planes from plane `first` (0: the top bit) on.
struct PlaneRange {
  unsigned first = 0;
  unsigned count = 0;
};

/// Sum over channels of w * j, j the bits that the planes hold of the code:
/// sums[row * PAGE_TOKENS + token]. Only the tokens of `wanted` are sure to be written.
void plane_sums(const PageFold& fold, const PageView& page, PlaneRange planes, std::uint64_t wanted,
                std::int32_t* sums);

/// Least and greatest midpoint of a page. `least` counts hidden tokens too.
struct MidpointRange {
  std::int16_t least = 0;
  std::int16_t greatest = 0;
};

/// Stored midpoints of one row's tokens in a page (5.1) from their plane sums; tokens outside
/// `visible` get kMaskedMidpoint.
MidpointRange store_midpoints(const RowFold& fold, const MidpointScale& scale, unsigned planes,
                              std::uint64_t visible, const std::int32_t* sums, std::int16_t* mids);

/// Bit t: mids[t] >= threshold, for the 64 tokens of a page.
[[nodiscard]] std::uint64_t at_least(const std::int16_t* mids, std::int16_t threshold);

/// Sharpens the midpoints of `tokens` of one row by plane number `planes` - 1 (5.2), whose sums are
/// given as plane_sums() gives them.
void sharpen_midpoints(const RowFold& fold, const MidpointScale& scale, unsigned planes,
                       std::uint64_t tokens, const std::int32_t* sums, std::int16_t* mids);

}  // namespace nearkv
