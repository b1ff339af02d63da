// Which way of attending is faster for a layer's long requests: by codes, or to all rows.
//
// Of an engine's blocks as of a pool.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace nearkv {

/// What both ways have taken in the steps before. Thread safety: one thread at a time.
class CodeSpeed {
 public:
  /// Whether the next step goes by codes. Both ways are tried first, by turns, and then the slower
  /// one once in kRetrySteps, since requests and their lengths change.
  [[nodiscard]] bool takes_codes() {
    if (noted_ < kTries) return noted_ % 2 == 0;
    const bool are_faster = ns_[1] < ns_[0];
    return ++steps_ % kRetrySteps == 0 ? !are_faster : are_faster;
  }

  /// A step took so many nanoseconds for each token that a query sees. Of steps like each other the
  /// fastest tells most, as others have waited for something; what it tells fades.
  void note(bool by_codes, double ns_per_token) {
    double& ns = ns_[by_codes ? 1 : 0];
    ns = noted_ < 2 ? ns_per_token : std::min(ns_per_token, kFading * ns);
    ++noted_;
  }

 private:
  static constexpr std::uint64_t kTries = 8;
  static constexpr std::uint64_t kRetrySteps = 128;
  static constexpr double kFading = 1.02;

  std::array<double, 2> ns_{};  // Of all rows, and by codes.
  std::uint64_t noted_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace nearkv
