// What errors codes leave in a row's result (sections 13.3 and 13.4 of ARITHMETIC.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codes/code_state.hpp"
#include "codes/code_sums.hpp"
#include "codes/page_kernels.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv {

/// l: what the amplitude of an error adds to its energy's price.
[[nodiscard]] constexpr int coherence(int planes) {
  return planes == 0 ? kCoherenceOfNone : kCoherenceOfCodes;
}

/// T of a row at its goal, and at most.
inline constexpr std::int64_t kErrorGoal = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostError = std::int64_t{1} << 44;

/// What kernels take of a page whose errors are looked at, and of it in a row.
[[nodiscard]] ErrorPage error_page(const CodeState& state, std::size_t page);
[[nodiscard]] ErrorRow error_row(const CodeState& state, std::size_t page, std::size_t row);

/// Of values of so many channels.
[[nodiscard]] ValueLengths value_lengths(std::size_t value_dim);

/// Energies and amplitudes of a page's granules, without what all of its tokens have in common:
/// logarithms, [rows][granules], kNoLog16 of none.
class GranuleLogs {
 public:
  void reset(const CodeState& state);

  [[nodiscard]] std::int16_t* keys(std::size_t page) const {
    return keys_.data() + page * rows_ * key_count_;
  }
  [[nodiscard]] std::int16_t* values(std::size_t page) const {
    return values_.data() + page * rows_ * value_count_;
  }
  [[nodiscard]] std::int16_t* shares(std::size_t page) const {
    return shares_.data() + page * rows_ * value_count_;
  }

 private:
  std::size_t rows_ = 0;
  std::size_t key_count_ = 0;
  std::size_t value_count_ = 0;
  AlignedNumbers<std::int16_t> keys_;
  AlignedNumbers<std::int16_t> values_;
  AlignedNumbers<std::int16_t> shares_;
};

/// A page's values as all rows see them.
struct ValueScale {
  std::int64_t squares = 0;   ///< Of the mean.
  std::int32_t residual = 0;  ///< |r|^2 of factor 15.
  std::int32_t spread = 0;    ///< |r|^2 of the mean token; both kNothing without residuals.
};

/// Those of all pages.
struct ValueScales {
  std::vector<std::int64_t> squares;
  std::vector<std::int32_t> residuals;
  std::vector<std::int32_t> spreads;
  std::vector<std::int32_t> powers;  ///< Of their means.

  void resize(std::size_t pages) {
    squares.resize(pages);
    for (auto* const numbers : {&residuals, &spreads, &powers}) numbers->resize(pages);
  }
  void set(std::size_t page, const ValueScale& scale, int power) {
    squares[page] = scale.squares;
    residuals[page] = scale.residual;
    spreads[page] = scale.spread;
    powers[page] = power;
  }
  [[nodiscard]] ValueScale at(std::size_t page) const {
    return {squares[page], residuals[page], spreads[page]};
  }
};

/// Makes granules' logarithms. One worker's: it holds buffers of a page.
class GranuleMeasure {
 public:
  void begin(const CodeState* state, std::size_t value_dim);

  /// What a page's values are on the whole; once.
  [[nodiscard]] ValueScale scale_of(std::size_t page);

  struct Changes {
    bool keys;  ///< Scores, or reads of keys: reads of values change no key's error.
    bool has_residuals;
  };
  /// After a page's weights or reads changed.
  void measure(std::size_t page, const Changes& changes, GranuleLogs* logs);

 private:
  const CodeState* state_ = nullptr;
  const PageKernels* kernels_ = nullptr;
  std::size_t value_dim_ = 0;
  ValueLengths lengths_{};
  std::vector<ErrorRow> rows_;
};

/// lg of S D g^2 of values of so many channels.
[[nodiscard]] int value_size(std::size_t value_dim);

/// A row's output as integers times 2^power, and its goal (13.3).
struct RowGoal {
  std::vector<std::int16_t> output;  ///< o
  std::int64_t squares = 0;
  int power = 0;          ///< e
  std::int64_t goal = 0;  ///< gamma
};

struct ErrorDemand {
  float error = 0;
  unsigned z16 = NKV_USUAL_BOUND_Z;
};

void set_goal(const CodeSums& sums, std::size_t row, int value_exponent, const ErrorDemand& demand,
              RowGoal* goal);

/// d^2 of a page in a row, whose mean and output have that sum of products.
[[nodiscard]] int mean_distance(int mean_power, const ValueScale& scale, std::int64_t products,
                                const RowGoal& goal);

/// error * sqrt(T).
[[nodiscard]] float error_bound(float error, std::int64_t total);

}  // namespace nearkv
