// Sums of a list by codes (section 13.2 of ARITHMETIC.md): they do not depend on any order, so that
// workers' parts add up to the bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/softmax_state.hpp"
#include "codes/code_state.hpp"
#include "codes/exact_logit.hpp"
#include "codes/page_kernels.hpp"
#include "device/workers.hpp"
#include "page/page_list.hpp"

namespace nearkv {

/// M, z and acc of every row.
struct CodeSums {
  static constexpr std::int64_t kNoReference = -(std::int64_t{1} << 31) + 1;

  std::size_t dim = 0;
  std::vector<std::int64_t> reference;  ///< M
  std::vector<std::int64_t> z;          ///< Units of 2^-41.
  std::vector<std::int64_t> acc;        ///< [rows][dim], units of 2^(Ev - 167).

  void reset(std::size_t rows, std::size_t value_dim) {
    dim = value_dim;
    reference.assign(rows, kNoReference);
    z.assign(rows, 0);
    acc.assign(rows * value_dim, 0);
  }
  [[nodiscard]] std::size_t rows() const { return z.size(); }
  [[nodiscard]] bool has_tokens() const { return !z.empty() && z[0] != 0; }
  [[nodiscard]] std::span<std::int64_t> values(std::size_t row) {
    return std::span(acc).subspan(row * dim, dim);
  }
  [[nodiscard]] std::span<const std::int64_t> values(std::size_t row) const {
    return std::span(acc).subspan(row * dim, dim);
  }

  /// Adds sums of other pages against the same references, or takes them off.
  void add(const CodeSums& other, std::int64_t sign) {
    for (std::size_t row = 0; row < z.size(); ++row) z[row] += sign * other.z[row];
    for (std::size_t i = 0; i < acc.size(); ++i) acc[i] += sign * other.acc[i];
  }

  /// The state that they are.
  void finish(int value_exponent, SoftmaxState* state) const;
};

/// Adds pages to sums. One worker's: it holds buffers of a page.
class PageSummer {
 public:
  void begin(const CodeState* state, const PageList* list, std::size_t value_dim);

  /// Raises rows' references to the largest integer part of what a page adds to them.
  void raise(std::size_t page, std::vector<std::int64_t>* references) const;

  /// Adds a page to all rows, whose references hold. `rows`: of a page of which value
  /// rows were read. A part of it may wait for finish(), with the same sums.
  void add(std::size_t page, const RowSource& rows, CodeSums* sums);

  /// Adds what waits.
  void finish(CodeSums* sums);

 private:
  /// A value, and what it weighs in rows.
  struct Waiting {
    std::int32_t* value;
    std::int32_t* weights;
    std::int32_t* shifts;
  };

  [[nodiscard]] int mean_power(const CodedTensor& values) const;
  void take_mean(const CodedTensor& values);
  void add_rests(std::size_t page, int power, CodeSums* sums);
  [[nodiscard]] Waiting wait_value(std::size_t rows);
  void add_alone(std::size_t page, const RowSource& rows, CodeSums* sums);
  void take_residual_factors(const CodedPage& coded, std::span<const std::uint64_t> tokens);
  void add_residuals(std::size_t page, CodeSums* sums);
  void add_transposed(const CodedPage& coded, std::int32_t* sums, std::int64_t octaves_up,
                      std::int64_t* acc);

  const CodeState* state_ = nullptr;
  const PageKernels* kernels_ = nullptr;
  std::size_t dim_ = 0;
  int value_exponent_ = 0;
  // Means of pages that wait, and what they weigh: [pages][rows].
  std::array<const std::int8_t*, kPagesOfMeans> means_{};
  std::vector<std::int32_t> weights_;
  std::vector<std::int32_t> shifts_;
  std::size_t waiting_ = 0;
  // The same of values, [values][dim].
  std::array<const std::int32_t*, 16> values_{};
  AlignedNumbers<std::int32_t> aligned_;
  std::vector<std::int32_t> value_weights_;
  std::vector<std::int32_t> value_shifts_;
  std::size_t values_waiting_ = 0;
  AlignedNumbers<std::int32_t> mean_;  // v~ of the page that is added.
  AlignedNumbers<float> decoded_;
  AlignedNumbers<std::int32_t> coded_;  // Y, [rows][dim].
  AlignedNumbers<std::int64_t> wide_;
  AlignedNumbers<std::uint16_t> shares_;  // u, [rows][PAGE_TOKENS].
  AlignedNumbers<std::int16_t> factors_;  // F of a page's tokens, without sign.
  AlignedNumbers<std::uint8_t> value_factors_;
};

/// v as integers of a list with that largest exponent (1.3), the first `dim` channels of a row.
void align_value(const RowSource& values, std::size_t token, int exponent, std::size_t dim,
                 float* buffer, std::int32_t* aligned);

}  // namespace nearkv
