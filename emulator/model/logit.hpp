// Logits and weights (section 3).
#ifndef NEARKV_MODEL_LOGIT_HPP_
#define NEARKV_MODEL_LOGIT_HPP_

#include <cstdint>

namespace nearkv::model {

/// Turns exact scores of one command into base-2 logits with 16 fraction bits.
class LogitScale {
 public:
  /// `scale` is finite and not zero, `soft_cap` zero or positive; `key_exponent` is the list's Ek.
  LogitScale(float scale, float soft_cap, int key_exponent);

  /// L of a score whose row has exponent Eq (3.2, 3.3).
  [[nodiscard]] int64_t logit(int64_t score, int query_exponent) const;

  /// C; what Eq completes to X; K, 0 for none.
  [[nodiscard]] int64_t factor() const { return factor_; }
  [[nodiscard]] int power() const { return power_; }
  [[nodiscard]] int64_t cap() const { return cap_; }

 private:
  int64_t factor_ = 0;  // C
  int power_ = 0;       // e_s + b + Ek − 411; adding Eq makes X
  int64_t cap_ = 0;     // K; 0 for none
};

/// A softmax weight: mantissa · 2^(−17 − shift).
struct Weight {
  int64_t mantissa;  ///< w, in [2^17, 2^18).
  int64_t shift;     ///< n >= 0.

  /// Beyond this shift a weight is zero.
  static constexpr int64_t kLargestShift = 42;
  [[nodiscard]] bool is_zero() const { return shift > kLargestShift; }

  /// The weight in units of 2^−41.
  [[nodiscard]] int64_t units() const { return is_zero() ? 0 : (mantissa << 24) >> shift; }
};

/// floor(L / 2^16), what references are compared with.
constexpr int64_t integer_part(int64_t logit) { return logit >> 16; }

/// The weight of a logit against a reference M >= integer_part(logit) (3.4).
Weight weight_of(int64_t logit, int64_t reference);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_LOGIT_HPP_
