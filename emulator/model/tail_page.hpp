// A page's part of TAIL's sums (sections 7.3 to 7.5), which BOUNDED's state starts from.
#ifndef NEARKV_MODEL_TAIL_PAGE_HPP_
#define NEARKV_MODEL_TAIL_PAGE_HPP_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "logit.hpp"
#include "tail_state.hpp"

namespace nearkv::model {

/// u of so many tokens from the sums of their values (7.4).
std::vector<int32_t> mean_value(std::span<const int64_t> sums, int64_t tokens);

/// A page's exact tokens, and those outside the exact set as one token whose value is their mean.
class TailPage {
 public:
  /// Of the state as it is now; `state` must outlive the page.
  TailPage(const TailState& state, size_t page, std::vector<int32_t> mean);

  /// The largest integer part of a row's logits, kNoReference if nothing counts.
  [[nodiscard]] int64_t largest(size_t row) const;

  /// Adds all to a row's sums, whose reference is not below largest().
  template <typename Sums>
  void add_to(size_t row, Sums* sums) const {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      sums->add(weight_of(state_->logit(row, page_, tokens_[i]), sums->reference()), values_[i]);
    }
    if (rests_[row]) sums->add(rests_[row]->against(sums->reference()), mean_);
  }

 private:
  // What the tokens outside the exact set weigh together, as a token would (7.3).
  struct RestWeight {
    int64_t mantissa;      // w
    int64_t integer_part;  // L >> 16

    [[nodiscard]] Weight against(int64_t reference) const {
      return {.mantissa = mantissa, .shift = reference - integer_part};
    }
  };

  [[nodiscard]] std::optional<RestWeight> rest_weight(size_t row) const;

  const TailState* state_;
  size_t page_;
  std::vector<uint32_t> tokens_;  // Exact ones.
  std::vector<std::vector<int32_t>> values_;
  std::vector<int32_t> mean_;
  std::vector<std::optional<RestWeight>> rests_;  // Per row.
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_TAIL_PAGE_HPP_
