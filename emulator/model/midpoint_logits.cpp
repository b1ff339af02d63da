#include "midpoint_logits.hpp"

#include <algorithm>

#include "nkv_abi.h"
#include "number.hpp"

namespace nearkv::model {

namespace {

constexpr int64_t kLowestMidpoint = -32768;
constexpr int64_t kScoreLimit = (int64_t{1} << 59) - 1;  // 1.5
constexpr int64_t kRiseLimit = (int64_t{1} << 25) - 1;

}  // namespace

MidpointLogits::MidpointLogits(const LogitScale& scale, int query_exponent, int64_t reference,
                               int shift) {
  for (size_t i = 0; i < ends_.size(); ++i) {
    const int64_t midpoint = kLowestMidpoint + (static_cast<int64_t>(i) << kSegmentBits);
    const int64_t units = midpoint * (int64_t{1} << shift) + reference;
    ends_[i] =
        scale.logit(scale_saturating(units, NKV_PLANE_WEIGHT_SHIFT, kScoreLimit), query_exponent);
  }
}

int64_t MidpointLogits::at(int32_t midpoint) const {
  const int64_t place = midpoint - kLowestMidpoint;
  const auto segment = static_cast<size_t>(place >> kSegmentBits);
  const int64_t rise = std::clamp(ends_[segment + 1] - ends_[segment], -kRiseLimit, kRiseLimit);
  return ends_[segment] + floor_shift(rise * (place & ((1 << kSegmentBits) - 1)), kSegmentBits);
}

}  // namespace nearkv::model
