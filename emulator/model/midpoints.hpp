// Stored midpoints of all rows and tokens, their radii and thresholds (sections 5.1 to 5.3).
#ifndef NEARKV_MODEL_MIDPOINTS_HPP_
#define NEARKV_MODEL_MIDPOINTS_HPP_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "page_list.hpp"
#include "planes.hpp"
#include "query.hpp"

namespace nearkv::model {

/// A midpoint at either limit has been clamped; the upper one stands for "no upper bound".
inline constexpr int32_t kMidpointLimit = 32767;
inline constexpr int32_t kHiddenMidpoint = -32768;

/// The 16-bit midpoints that a scan of the listed pages leaves behind.
class Midpoints {
 public:
  /// Scans `planes` planes, 1 or more, of every listed page.
  Midpoints(const ListedPages& pages, const Query& query, int key_exponent, int planes);

  [[nodiscard]] int32_t at(size_t row, size_t page, uint32_t token) const {
    return midpoints_[slot(row, page, token)];
  }

  [[nodiscard]] bool is_saturated(size_t row, size_t page, uint32_t token) const {
    const int32_t midpoint = at(row, page, token);
    return midpoint == kMidpointLimit || midpoint == -kMidpointLimit;
  }

  /// Section 5.2: moves a token's midpoint of every row by plane `plane`.
  void sharpen(size_t page, uint32_t token, int plane, const std::vector<PlaneWeights>& weights);

  /// Section 5.3: the largest bin such that at least `count` visible tokens lie in it or above.
  [[nodiscard]] int threshold(size_t row, uint64_t count) const;

  /// Visible tokens that lie in bins at or above threshold(row, count) in any row; all of them if
  /// they are at most `count`.
  [[nodiscard]] TokenSet best(uint64_t count) const;

  /// ref and X of a row (5.1).
  [[nodiscard]] int64_t reference(size_t row) const { return scales_[row].reference; }
  [[nodiscard]] int shift(size_t row) const { return scales_[row].shift; }

  [[nodiscard]] const RadiusTerms& radius_terms(size_t row, size_t page) const {
    return radius_terms_[row * pages_->size() + page];
  }

  /// Section 5.1: the radius of a row and page in midpoint units after `planes` planes.
  [[nodiscard]] int64_t stored_radius(size_t row, size_t page, int planes,
                                      uint32_t sixteenths) const;

  /// τ16, a score in midpoint units (section 6, step 2). It is clamped as midpoints are: above them
  /// it would drop tokens whose radius was clamped although their bound reaches it.
  [[nodiscard]] int32_t stored_tau(size_t row, int64_t tau) const;

  /// Weights of every row against a page's digest.
  [[nodiscard]] std::vector<PlaneWeights> weights_of(size_t page) const;

 private:
  struct RowScale {
    int64_t reference = 0;
    int shift = 0;
  };

  [[nodiscard]] size_t slot(size_t row, size_t page, uint32_t token) const {
    return (row * pages_->size() + page) * NKV_PAGE_TOKENS + token;
  }

  void scan_page(size_t page);

  const ListedPages* pages_;
  const Query* query_;
  int key_exponent_;
  int scanned_planes_;
  std::vector<RowScale> scales_;
  std::vector<RadiusTerms> radius_terms_;  // [row][page]
  std::vector<int16_t> midpoints_;         // [row][page][token]
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_MIDPOINTS_HPP_
