// What BOUNDED has summed of one row: its state, a sample in seven groups, and the error that the
// groups show (section 8, steps 4 and 5).
#ifndef NEARKV_MODEL_SAMPLED_SUMS_HPP_
#define NEARKV_MODEL_SAMPLED_SUMS_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "softmax.hpp"

namespace nearkv::model {

/// Value rows of a token: its own, and minus its page's mean.
struct SampledValues {
  std::vector<int32_t> own;
  std::vector<int32_t> negative_mean;
};

/// log2 of a bound with 24 fraction bits; nothing if the groups say nothing.
using LogBound = std::optional<int64_t>;

/// The bound of groups that agree to the bit.
inline constexpr int64_t kNoError = -(int64_t{1} << 40);

/// One of a row's sums.
struct SampledSum {
  int64_t z = 0;
  std::vector<int64_t> acc;
};

/// o_c: acc / z · 2^24, truncated and clamped; z is positive.
int64_t output_integer(int64_t acc, int64_t z);

class SampledSums {
 public:
  static constexpr size_t kSums = 8;  ///< The state and seven groups.

  explicit SampledSums(size_t value_dim);
  explicit SampledSums(std::array<SampledSum, kSums> sums) : sums_(std::move(sums)) {}

  void clear_groups();

  /// L · 2^j of a token, as a logit.
  static int64_t scaled(int64_t logit, int halvings);

  /// Raises the reference of all sums, as RowSoftmax does.
  void raise_reference(int64_t largest_integer_part);

  [[nodiscard]] int64_t reference() const { return reference_; }
  [[nodiscard]] const std::array<SampledSum, kSums>& sums() const { return sums_; }

  /// Adds a token to the state.
  void add(const Weight& weight, std::span<const int32_t> value) {
    add_to(&sums_[0], weight, false, value);
  }

  /// Adds a sampled token, whose scaled logits are not above the reference.
  void add_sampled(int64_t exact, int64_t approximate, int halvings, size_t group,
                   const SampledValues& values);

  /// All sums together. If what was sampled took away all weight, a row without values.
  [[nodiscard]] RowSoftmax total() const;

  /// β of `sixteenths` / 16 standard deviations; at least `least` unless the groups agree to the
  /// bit.
  [[nodiscard]] LogBound bound(uint32_t sixteenths, int64_t least) const;

 private:
  static void add_to(SampledSum* sum, const Weight& weight, bool is_negative,
                     std::span<const int32_t> value);
  [[nodiscard]] SampledSum sum_of_all() const;

  int64_t reference_ = kNoReference;
  std::array<SampledSum, kSums> sums_;
};

/// 2^β as binary32; infinity for none.
float number_of(const LogBound& bound);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_SAMPLED_SUMS_HPP_
