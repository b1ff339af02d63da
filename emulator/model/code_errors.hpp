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

/// The logarithm of nothing, in sixteenths of octaves; sums of it and of other terms stand for
/// nothing, too.
inline constexpr int kNothing = -(1 << 28);
constexpr bool is_nothing(int energy) { return energy < kNothing / 2; }

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
  /// All but `sums` must outlive the errors; `sums` are the row's. What `reads` say is taken now.
  CodeErrors(const AttendTask& task, const CodeScores& scores, const CodeWeights& weights,
             const CodeReads& reads, size_t row, const RowSoftmax& sums);

  /// κ, by so many planes of its key; nothing if its key row was read.
  [[nodiscard]] int key(size_t page, uint32_t token, int planes) const;

  /// η ⊕ (α + ℓ), by so many planes of its value; nothing if its value row was read.
  [[nodiscard]] int price(size_t page, uint32_t token, int planes) const;

  /// Of the coded tokens of a granule of keys, and of one of values.
  [[nodiscard]] int granule_key(size_t page, uint32_t granule) const {
    return keys_[page * reads_.keys.granules() + granule];
  }
  [[nodiscard]] const GranuleErrors& granule_value(size_t page, uint32_t granule) const {
    return values_[page * reads_.values.granules() + granule];
  }

  /// T, 24 fraction bits, at most kMostTotal.
  [[nodiscard]] int64_t total() const { return total_; }

  /// error · sqrt(T); infinity where T is kMostTotal.
  [[nodiscard]] float bound() const;

  static constexpr int64_t kMostTotal = int64_t{1} << 44;

 private:
  struct PageScale {
    int base = 0;             // c
    int distance = kNothing;  // d²
    int residual = kNothing;  // ρ; nothing if no value has a residual.
  };

  // O as integers times 2^power.
  struct Output {
    std::vector<int64_t> values;
    int power = 0;
    int64_t squares = 0;
  };
  static Output output_of(const RowSoftmax& sums, int value_exponent);

  [[nodiscard]] int64_t goal_of(const RowSoftmax& sums, const Output& output) const;
  [[nodiscard]] PageScale scale_of(size_t page, int64_t goal, const Output& output) const;
  [[nodiscard]] int residual(size_t page, uint32_t token, int planes) const;
  [[nodiscard]] int value(size_t page, uint32_t token, int planes) const;
  [[nodiscard]] int share(size_t page, uint32_t token, int planes) const;
  [[nodiscard]] int sum_keys(size_t page, uint32_t granule) const;
  [[nodiscard]] GranuleErrors sum_values(size_t page, uint32_t granule) const;
  [[nodiscard]] int64_t measure() const;

  const AttendTask& task_;
  const CodeScores& scores_;
  const CodeWeights& weights_;
  const CodeReads& reads_;
  size_t row_;
  std::vector<PageScale> pages_;
  std::vector<int> keys_;              // K, [page][granule]
  std::vector<GranuleErrors> values_;  // [page][granule], without keys.
  int64_t total_ = 0;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODE_ERRORS_HPP_
