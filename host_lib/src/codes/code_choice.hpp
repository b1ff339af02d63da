// What BOUNDED reads next (sections 13.5 and 13.6 of ARITHMETIC.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codes/code_errors.hpp"
#include "codes/code_state.hpp"
#include "codes/row_errors.hpp"

namespace nearkv {

inline constexpr int kLeastThreshold = ErrorHistogram::kLeastThreshold;
inline constexpr int kThresholdStep = 4;

/// One granule that is chosen: what there will be of it.
struct GranuleChoice {
  std::uint32_t page;
  std::uint8_t granule;
  std::uint8_t planes;  ///< No fewer than now.
  std::uint64_t rows;   ///< Tokens whose rows are read, besides those that have been.
};

/// What is to be read of both tensors, in page order.
struct CodeChoice {
  std::vector<GranuleChoice> keys;
  std::vector<GranuleChoice> values;

  void clear() {
    keys.clear();
    values.clear();
  }
};

/// t. `last` is that of the round before, if it bounds this one.
[[nodiscard]] int code_threshold(const CodeState& state, const ErrorHistogram& keys,
                                 const ErrorHistogram& values, std::optional<int> last);

/// Chooses among granules whose error is worth a read at a threshold. It holds buffers of a page.
class GranuleChooser {
 public:
  /// What it is given must outlive it.
  void begin(const CodeState* state, const RowErrors* errors, std::size_t value_dim);

  void choose(int threshold, CodeChoice* choice);

 private:
  /// Granules of one page that are worth a read, as bits, and what makes them so.
  struct Worthwhile {
    std::uint64_t granules;
    int worth;
  };

  void choose_keys(std::size_t page, const Worthwhile& some, std::vector<GranuleChoice>* choices);
  void choose_values(std::size_t page, const Worthwhile& some, std::vector<GranuleChoice>* choices);
  void clear_worths(std::size_t levels);
  void find_key_worths(std::size_t page, std::span<const std::uint8_t> levels, int worth);
  void find_value_worths(std::size_t page, std::span<const std::uint8_t> levels, int worth);
  void pick(std::size_t page, std::uint64_t chosen, std::span<const std::uint8_t> levels,
            const Granules& granules, std::vector<GranuleChoice>* choices);
  void weigh_levels(std::size_t levels, std::uint64_t tokens, std::size_t granule);

  [[nodiscard]] std::int16_t* worths(std::size_t level) const {
    return worths_.data() + level * NKV_PAGE_TOKENS;
  }
  [[nodiscard]] std::int16_t* level_energies(std::size_t level) const { return worths(4 + level); }
  [[nodiscard]] std::int16_t* level_amplitudes(std::size_t level) const {
    return worths(8 + level);
  }

  const CodeState* state_ = nullptr;
  const RowErrors* errors_ = nullptr;
  const PageKernels* kernels_ = nullptr;
  TokenTerms tokens_;
  AlignedNumbers<std::int16_t> worths_;     // By level, and what values have besides.
  AlignedNumbers<std::int32_t> costs_;      // [levels][granules]
  std::array<std::uint64_t, 4> reached_{};  // By level, tokens whose rows cost less.
};

}  // namespace nearkv
