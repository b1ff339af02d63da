// A query before codes: logits of means and of residuals, and their variances (section 12).
#ifndef NEARKV_MODEL_CODE_QUERY_HPP_
#define NEARKV_MODEL_CODE_QUERY_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "code_tables.hpp"
#include "logit.hpp"
#include "nkv_abi.h"
#include "query.hpp"
#include "stored_codes.hpp"

namespace nearkv::model {

/// Fraction bits of logits from codes, and by how many they are fewer than those of 3.2.
inline constexpr int kCodeLogitBits = 7;
inline constexpr int kExactToCode = 16 - kCodeLogitBits;

/// The least ν (12.4).
inline constexpr int kLeastVariance = -160;

/// δ (12.4): what planes add to ν; of no planes, for rows without a factor.
inline constexpr std::array<int, NKV_KEY_CODE_PLANES + 1> kKeyVariances = {13, 0, -33, -61, -84};

/// A logit from codes, kCodeLogitBits fraction bits, clamped where it is loud (12.3).
struct CodeLogit {
  int64_t value = 0;
  bool is_loud = false;
};

/// A command's scale for codes, whose exponents are their own.
LogitScale code_scale(float scale);

/// By how much a logit of a search may be more than codes say, at ν and a command's z (14.3).
int64_t search_radius(int variance, uint8_t z);

class CodeQuery {
 public:
  /// T of a row for one sign set: weights · 2^power.
  struct Weights {
    std::vector<int64_t> values;
    int power = 0;
  };

  /// What a row is before codes (12.1, 12.4, 14.2).
  struct Row {
    std::vector<int64_t> values;    ///< q̂
    int exponent = 0;               ///< Eq
    int power = 0;                  ///< κ
    int variance = kLeastVariance;  ///< Λ
    int search_power = 0;           ///< s
    bool is_zero = true;
    std::array<Weights, NKV_SIGN_SETS> transformed;
  };

  /// `gains` hold one for each channel. `scale` was made with key exponent 0; its sign goes to the
  /// rows.
  CodeQuery(const Query& query, std::span<const int8_t> gains, const LogitScale& scale);

  /// The same for a search (14.2): every row has a power of two for its scale, by which the
  /// residuals of rows of keys with factor `top` use the range of logits from codes.
  CodeQuery(const Query& query, std::span<const int8_t> gains, int top);

  /// L (3.2) of an exact score S in a search. `key_exponent` is the list's Ek.
  [[nodiscard]] int64_t search_logit(size_t row, int64_t score, int key_exponent) const;

  [[nodiscard]] size_t rows() const { return rows_.size(); }
  [[nodiscard]] const Row& row(size_t row) const { return rows_[row]; }

  /// The logit of a page's mean (12.2).
  [[nodiscard]] CodeLogit mean_logit(size_t row, const StoredCodes& keys) const;

  /// ⌊x·m⌉ of a token (12.3); `values` are ẑ of its first `planes` planes.
  [[nodiscard]] CodeLogit residual_logit(size_t row, const StoredCodes& keys, uint32_t token,
                                         std::span<const int64_t> values, int planes) const;

  /// ν of a token (12.4).
  [[nodiscard]] int variance(size_t row, const StoredCodes& keys, uint32_t token, int planes) const;

 private:
  [[nodiscard]] Row make_row(std::span<const int32_t> query, int exponent,
                             std::span<const int8_t> gains) const;

  int64_t factor_;  // C
  int power_;       // u
  bool negative_;
  std::vector<Row> rows_;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODE_QUERY_HPP_
