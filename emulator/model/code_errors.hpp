// What errors codes leave in a row's result, by token and by granule (sections 13.3, 13.4).
#ifndef NEARKV_MODEL_CODE_ERRORS_HPP_
#define NEARKV_MODEL_CODE_ERRORS_HPP_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend.hpp"
#include "code_reads.hpp"
#include "code_weights.hpp"
#include "softmax.hpp"

namespace nearkv::model {

/// The logarithm of nothing, in sixteenths of octaves.
inline constexpr int kNothing = -(1 << 20);

/// x ⊕ y: the logarithm of a sum.
int log_sum(int x, int y);

/// ℓ: what the amplitude of an error adds to its energy's price.
int coherence(int planes);

/// β: what planes leave of a value residual's energy.
int value_remainder(int planes);

/// Energies relative to a row's goal, all in sixteenths of octaves.
struct GranuleErrors {
  int key = kNothing;    ///< K
  int value = kNothing;  ///< V
  int share = kNothing;  ///< a

  [[nodiscard]] int price(int planes) const { return log_sum(value, share + coherence(planes)); }
};

/// Errors of one row.
class CodeErrors {
 public:
  /// All but `sums` must outlive the errors; `sums` are the row's.
  CodeErrors(const AttendTask& task, const CodeScores& scores, const CodeWeights& weights,
             const CodeReads& reads, size_t row, const RowSoftmax& sums);

  /// κ, by so many planes of its key; nothing if its key row was read.
  [[nodiscard]] int key(size_t page, uint32_t token, int planes) const;

  /// η and α, by so many planes of its value; nothing if its value row was read.
  [[nodiscard]] int value(size_t page, uint32_t token, int planes) const;
  [[nodiscard]] int share(size_t page, uint32_t token, int planes) const;

  /// Of the granule's visible tokens.
  [[nodiscard]] int granule_key(size_t page, uint32_t granule) const;
  [[nodiscard]] GranuleErrors granule_value(size_t page, uint32_t granule) const;

  /// T, 24 fraction bits, at most kMostTotal.
  [[nodiscard]] int64_t total() const { return total_; }

  /// error · sqrt(T).
  [[nodiscard]] float bound() const;

  static constexpr int64_t kMostTotal = int64_t{1} << 44;

 private:
  struct PageScale {
    int distance;   // d²
    int residual;   // |r|² of factor 15.
    bool is_coded;  // Whether a value has a residual.
  };

  // O as integers times 2^power.
  struct Output {
    std::vector<int64_t> values;
    int power = 0;
    int64_t squares = 0;
  };
  static Output output_of(const RowSoftmax& sums, int value_exponent);

  [[nodiscard]] PageScale scale_of(size_t page, const Output& output) const;
  [[nodiscard]] int residual(size_t page, uint32_t token) const;
  [[nodiscard]] int residual(size_t page, uint32_t token, int planes) const;
  [[nodiscard]] int energy(size_t page, uint32_t token) const;
  [[nodiscard]] int64_t measure() const;

  const AttendTask& task_;
  const CodeScores& scores_;
  const CodeWeights& weights_;
  const CodeReads& reads_;
  size_t row_;
  int goal_ = 0;  // γ
  std::vector<PageScale> pages_;
  int64_t total_ = 0;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODE_ERRORS_HPP_
