// What BOUNDED may still read (section 8).
#ifndef NEARKV_MODEL_BUDGET_HPP_
#define NEARKV_MODEL_BUDGET_HPP_

#include <cstdint>

namespace nearkv::model {

/// In bursts.
class Budget {
 public:
  enum class Judgement { kRead, kReadDense, kStop };

  Budget(uint64_t dense, uint8_t byte_cap) : dense_(dense), byte_cap_(byte_cap) {}

  /// A dense read costs more than any cap allows, so a capped command never falls back to it.
  [[nodiscard]] bool is_capped() const { return byte_cap_ != 0; }

  /// Whether to have read so much of a dense read is to have read it as well (8).
  static constexpr bool is_dense_cheaper(uint64_t spent, uint64_t dense) {
    return spent * 20 > dense * 17;
  }

  [[nodiscard]] Judgement judge(uint64_t spent, uint64_t planned) const {
    const uint64_t total = spent + planned;
    if (is_capped()) {
      return total * 256 > dense_ * byte_cap_ ? Judgement::kStop : Judgement::kRead;
    }
    return is_dense_cheaper(total, dense_) ? Judgement::kReadDense : Judgement::kRead;
  }

 private:
  uint64_t dense_;
  uint8_t byte_cap_;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_BUDGET_HPP_
