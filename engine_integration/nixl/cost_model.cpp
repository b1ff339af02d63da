#include "cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace nearkv::nixl {
namespace {

constexpr double kKept = 0.95;       // Of the past, at each transfer: about 20 count.
constexpr double kSameShape = 1e-6;  // Shapes that differ less do not tell two times apart.

}  // namespace

void CostModel::learn(std::size_t objects, std::uint64_t bytes, Duration taken) {
  if (objects == 0 || taken.count() <= 0) return;
  const double n = static_cast<double>(objects) / taken.count();
  const double b = static_cast<double>(bytes) / taken.count();
  const std::scoped_lock lock(mutex_);
  count_ = kKept * count_ + 1;
  n_ = kKept * n_ + n;
  b_ = kKept * b_ + b;
  nn_ = kKept * nn_ + n * n;
  nb_ = kKept * nb_ + n * b;
  bb_ = kKept * bb_ + b * b;
}

std::optional<CostModel::Estimate> CostModel::estimate(std::size_t objects,
                                                       std::uint64_t bytes) const {
  const std::scoped_lock lock(mutex_);
  if (count_ == 0) return std::nullopt;
  // Least squares of 1 = by_object * n + by_byte * b; no time is negative.
  double by_object = 0;
  double by_byte = b_ / bb_;
  double freedom = count_ - 1;
  const double determinant = nn_ * bb_ - nb_ * nb_;
  if (determinant > kSameShape * nn_ * bb_) {
    by_object = (n_ * bb_ - b_ * nb_) / determinant;
    by_byte = (b_ * nn_ - n_ * nb_) / determinant;
    freedom = count_ - 2;
    if (by_object < 0) {
      by_object = 0;
      by_byte = b_ / bb_;
    } else if (by_byte < 0) {
      by_object = n_ / nn_;
      by_byte = 0;
    }
  }
  const Duration duration(by_object * static_cast<double>(objects) +
                          by_byte * static_cast<double>(bytes));
  const double unexplained = std::max(count_ - by_object * n_ - by_byte * b_, 0.0);
  // Too few to tell how they scatter: it may be anything.
  const double relative = freedom > 0.5 ? std::sqrt(unexplained / freedom) : 1.0;
  return Estimate{duration, duration * relative};
}

}  // namespace nearkv::nixl
