// Logits of stored midpoints (section 7.2).
#ifndef NEARKV_MODEL_MIDPOINT_LOGITS_HPP_
#define NEARKV_MODEL_MIDPOINT_LOGITS_HPP_

#include <array>
#include <cstddef>
#include <cstdint>

#include "logit.hpp"

namespace nearkv::model {

/// One row's L as a function of its midpoints: lines between 257 of them.
class MidpointLogits {
 public:
  /// `reference` and `shift` are the row's ref and X (5.1), `query_exponent` its Eq.
  MidpointLogits(const LogitScale& scale, int query_exponent, int64_t reference, int shift);

  /// L of a midpoint.
  [[nodiscard]] int64_t at(int32_t midpoint) const;

 private:
  static constexpr int kSegmentBits = 8;  // Midpoints of a line, as a power of two.
  static constexpr size_t kSegments = size_t{1} << (16 - kSegmentBits);

  std::array<int64_t, kSegments + 1> ends_{};
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_MIDPOINT_LOGITS_HPP_
