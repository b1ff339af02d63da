// The plane stage of one row and page: weights, midpoints, radii (section 5).
#ifndef NEARKV_MODEL_PLANES_HPP_
#define NEARKV_MODEL_PLANES_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "digest.hpp"
#include "page.hpp"

namespace nearkv::model {

/// The digest of a page, channel by channel.
std::vector<ChannelCells> page_cells(const Page& page);

/// The first `planes` bits of every code, the others zero: h_c, [PAGE_TOKENS][head_dim].
std::vector<uint8_t> leading_codes(const Page& page, int planes);

/// Bit of a token's channel in plane L (1-based, as sections 5 and 5.2 count planes).
bool plane_bit(const Page& page, int plane, uint32_t token, uint32_t channel);

/// A query row against a page's digest. Weight unit: 2^32 score units.
class PlaneWeights {
 public:
  /// `query` is q̄ of the row, `key_exponent` the list's Ek.
  PlaneWeights(std::span<const int32_t> query, std::span<const ChannelCells> cells,
               int key_exponent);

  /// K, the score of code 128 in every channel.
  [[nodiscard]] int64_t constant() const { return constant_; }

  /// W = Σ |w_c|.
  [[nodiscard]] int64_t weight_sum() const { return weight_sum_; }

  /// Σ w_c².
  [[nodiscard]] int64_t squares() const { return squares_; }

  /// The midpoint of a token whose leading codes are `codes`, after `planes` planes, 1 or more.
  [[nodiscard]] int64_t midpoint(std::span<const uint8_t> codes, int planes) const;

  /// 2^(7 − L) · Σ w_c · (b_c ? 1 : −1): what plane L moves a midpoint by (5.2).
  [[nodiscard]] int64_t step_of_plane(const Page& page, int plane, uint32_t token) const;

  /// The part of the radius that covers the rounding of the weights.
  [[nodiscard]] int64_t remainder() const { return remainder_; }

 private:
  std::vector<int64_t> weights_;
  int64_t constant_ = 0;
  int64_t weight_sum_ = 0;
  int64_t squares_ = 0;
  int64_t remainder_ = 0;
};

/// What stays of a row's PlaneWeights for a page's radii.
struct RadiusTerms {
  int64_t weight_sum;
  int64_t squares;
  int64_t remainder;
};

/// The radius after `planes` planes, in weight units, with `sixteenths` of the code residual's
/// standard deviation allowed; a number so large that all of a cell is within them gives a bound.
int64_t radius(const RadiusTerms& terms, int planes, uint32_t sixteenths);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_PLANES_HPP_
